//! Handles requests for documents and objects.
//!
//! - **In:** a parsed request, and the effects of its faults.
//! - **Out:** the response, or the error that kube-apiserver sends.
//! - **Knows nothing of:** sockets, and the rules of objects.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    apply::{Application, Author},
    error::{ApiError, Cause},
    faults::orders::{Orders, WatchList},
    http::{
        answer::Answer,
        delete_options::DeleteOptions,
        field_manager,
        field_manager::APPLY,
        negotiate::{AnswerTo, Wanted, form, wanted, wants_aggregated},
        request::{ApiRequest, Document, Place, Target, Verb},
        service::Connection,
        table::Tables,
    },
    list::{ListQuery, Moment, expired_token},
    objects::{
        Key, Object,
        encoded::{Encoded, Form},
        patch::Patch,
        rules::{DeleteTerms, Part},
        unknown::{FieldValidation, UnknownFields},
        validate::is_dns_label,
    },
    registry::{
        Served, discovery,
        discovery::Root,
        kind::{Kind, Origin, Scope},
        openapi,
        subresource::Subresource,
    },
    select::Selector,
    shared::Shared,
    watch::{WatchQuery, error_line, stream::WatchStream},
    world::{Deleted, Run, Stored, check_name},
};

/// A request with everything that its response depends on.
pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) connection: Option<&'a Connection>,
    pub(crate) request: &'a ApiRequest,
    pub(crate) accept: &'a str,
    /// The `Authorization` header.
    pub(crate) authorization: &'a str,
    /// The `User-Agent` header.
    pub(crate) user_agent: &'a str,
    /// The content type of the body, without parameters.
    pub(crate) content_type: &'a str,
    pub(crate) body: Bytes,
    pub(crate) orders: &'a Orders,
}

impl Call<'_> {
    pub(crate) fn answer(&self) -> Result<Answer, ApiError> {
        match &self.request.target {
            Target::Document(document) => self.document(document),
            Target::Objects(place) => self.objects(place),
        }
    }

    fn document(&self, document: &Document) -> Result<Answer, ApiError> {
        let registry = &self.shared.world.read().registry;
        let found = match document {
            Document::Healthy => return Ok(Answer::of_type("text/plain; charset=utf-8", "ok")),
            Document::Version => Some(discovery::version()),
            Document::CoreVersions | Document::Groups if wants_aggregated(self.accept)? => {
                let root = if *document == Document::Groups { Root::Apis } else { Root::Api };
                let document = discovery::aggregated(registry, root).to_string();
                return Ok(Answer::of_type(discovery::AGGREGATED, document));
            }
            Document::CoreVersions => Some(discovery::core_versions()),
            Document::Groups => Some(discovery::groups(registry)),
            Document::Group(group) => discovery::group(registry, group),
            Document::Resources { group, version } => discovery::resources(registry, group, version),
            Document::OldOpenApi if self.accept.contains("proto-openapi.spec.v2") => {
                return Ok(Answer::of_type(openapi::OLD_PROTOBUF, openapi::OLD_DOCUMENT));
            }
            Document::OldOpenApi => Some(openapi::old_document()),
            Document::OpenApi => Some(openapi::index(registry)),
            Document::Operations { group, version } => openapi::document(registry, group, version),
        };
        found.map(|document| Answer::json(200, &document)).ok_or(ApiError::UnknownPath)
    }

    fn objects(&self, place: &Place) -> Result<Answer, ApiError> {
        let served = self.served(place)?;
        let verb = if self.request.verb == Verb::WatchList { Verb::Watch } else { self.request.verb };
        if place.subresource.is_none() && !discovery::verbs(&served.kind).contains(&verb.name()) {
            return Err(ApiError::MethodNotAllowed);
        }
        match place.subresource {
            Some(Subresource::Scale) => self.scale(place, &served),
            Some(Subresource::Eviction) => self.evict(place, &served),
            Some(Subresource::Binding) => self.bind(place, &served),
            Some(Subresource::Token) => self.issue_token(place, &served),
            None
            | Some(
                Subresource::Status | Subresource::Approval | Subresource::EphemeralContainers | Subresource::Finalize,
            ) => self.object_or_part(place, &served),
        }
    }

    /// Carries out a request for an object, for a collection, or for a subresource that is read and written like its object.
    fn object_or_part(&self, place: &Place, served: &Served) -> Result<Answer, ApiError> {
        match self.request.verb {
            Verb::Create if served.kind.is_review => self.review(served),
            Verb::Get => self.get(place, served),
            Verb::List => self.list(place, served),
            Verb::Watch | Verb::WatchList => self.watch(place, served),
            Verb::Create => self.create(place, served),
            Verb::Update => self.update(place, served),
            Verb::Patch => self.patch(place, served),
            Verb::Delete => self.delete(place, served),
            Verb::DeleteCollection => self.delete_collection(place, served),
            Verb::Discover | Verb::Other => Err(ApiError::UnknownPath),
        }
    }

    /// The kind of a path, if the path fits the scope of the kind.
    fn served(&self, place: &Place) -> Result<Served, ApiError> {
        let world = self.shared.world.read();
        let served = world.registry.at(&place.group, &place.version, &place.plural).ok_or(ApiError::UnknownPath)?;
        let in_namespace = !place.namespace.is_empty();
        // Lists and watches of a namespaced kind can span namespaces; all other requests need a namespace.
        let across = matches!(self.request.verb, Verb::List | Verb::Watch | Verb::WatchList);
        // Names cannot contain a slash, because it separates the parts of a key.
        if place.namespace.contains('/') || place.name.contains('/') {
            return Err(ApiError::UnknownPath);
        }
        let suits = match served.kind.scope {
            Scope::Cluster => !in_namespace,
            Scope::Namespaced => in_namespace || across,
        };
        let has_part = place.subresource.is_none_or(|subresource| served.kind.has(subresource));
        match (suits, has_part) {
            (true, true) => Ok(served.clone()),
            (false, true) if !in_namespace && place.name.is_empty() => Err(ApiError::MethodNotAllowed),
            (_, _) => Err(ApiError::UnknownPath),
        }
    }

    fn get(&self, place: &Place, served: &Served) -> Result<Answer, ApiError> {
        let wanted = wanted(self.accept, AnswerTo::One)?;
        let object = self.find(place, served)?;
        Ok(match wanted {
            Wanted::Objects(form) => Answer::object(200, &object, form),
            Wanted::Table => Answer::json(200, &self.tables(served)?.one(&object, Timestamp::now())),
        })
    }

    /// The object of a path; an older state of it, if a fault demands that and the request allows it.
    pub(super) fn find(&self, place: &Place, served: &Served) -> Result<Arc<Encoded>, ApiError> {
        let asked = self.request.params.version()?;
        let world = self.shared.world.read();
        let current = world.storage.version();
        if let Some(asked) = asked.filter(|asked| *asked > current) {
            return Err(ApiError::VersionTooLarge { asked, current });
        }
        let key = Key::new(&place.namespace, &place.name);
        let fresh = self.request.params.resource_version.is_empty();
        if fresh || self.orders.lag == 0 {
            return world.get(served, &key).cloned();
        }
        let collection = world.storage.collection(served.collection).ok_or(ApiError::UnknownPath)?;
        let then = current.saturating_sub(self.orders.lag).max(collection.forgotten());
        let mut state = collection.objects_at(then, None).map_err(|_| ApiError::UnknownPath)?;
        let found = state.find(|(found, _)| **found == key);
        found.map(|(_, object)| object.clone()).ok_or_else(|| ApiError::not_found(&served.kind, &place.name))
    }

    fn tables(&self, served: &Served) -> Result<Tables, ApiError> {
        Ok(Tables::new(&served.kind, self.request.params.include_object()?))
    }

    fn list(&self, place: &Place, served: &Served) -> Result<Answer, ApiError> {
        let wanted = wanted(self.accept, AnswerTo::List)?;
        let params = &self.request.params;
        let moment = params.moment()?;
        if let (Moment::Continue(token), true) = (&moment, self.orders.expire_token) {
            return Err(expired_token(token));
        }
        // The watch cache of kube-apiserver, which serves "any" version, ignores the limit.
        let limit = if moment == Moment::Any && self.shared.settings.watch_cache { 0 } else { params.limit };
        let query = ListQuery { moment, selector: self.selector(place, served)?, limit, lag: self.orders.lag };
        let mut page = query.run(&self.shared.world.read().storage, served.collection)?;
        if let Some(next) = &mut page.next {
            next.number = self.shared.tokens.fetch_add(1, Ordering::Relaxed) + 1;
        }
        Ok(match wanted {
            Wanted::Objects(form) => Answer::list(&served.kind, page, form),
            Wanted::Table => Answer::json(200, &self.tables(served)?.page(&page, Timestamp::now())),
        })
    }

    fn watch(&self, place: &Place, served: &Served) -> Result<Answer, ApiError> {
        let wanted = wanted(self.accept, AnswerTo::One)?;
        let (form, tables) = match wanted {
            Wanted::Objects(form) => (form, None),
            Wanted::Table => (Form::Full, Some(self.tables(served)?)),
        };
        let params = &self.request.params;
        let (start, selector) = (params.start()?, self.selector(place, served)?);
        match self.orders.watch_list {
            WatchList::Served | WatchList::NeverEnds => {}
            WatchList::Refused => {
                let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
                return Err(ApiError::invalid_options(Cause::forbidden("sendInitialEvents", why)));
            }
            WatchList::Fails => {
                let message = "Internal error occurred: RequestWatchProgress is disabled".into();
                let error = ApiError::Injected { code: 500, message, retry_after: None };
                return Ok(Answer::watch(stream::iter([Ok(error_line(&error))])));
            }
        }
        let marks_end = params.allow_bookmarks && self.orders.watch_list != WatchList::NeverEnds;
        let query = WatchQuery { start, selector, form, marks_end, lag: self.orders.lag };
        match self.shared.open_watch(served.collection, query, params.timeout()) {
            Ok((watch, place)) => {
                if let Some(connection) = self.connection.filter(|_| !self.orders.goes_silent) {
                    connection.serves(&place);
                }
                let wants_bookmarks = params.allow_bookmarks && !self.orders.no_bookmarks;
                let bookmarks = wants_bookmarks.then_some(self.shared.settings.bookmark_interval);
                let lines = WatchStream::new(self.shared.clone(), watch, bookmarks, place).into_stream();
                Ok(match tables {
                    Some(mut tables) => Answer::watch(lines.map_ok(move |line| tables.line(line, Timestamp::now()))),
                    None => Answer::watch(lines),
                })
            }
            // kube-apiserver reports errors of the version as an event in the stream.
            Err(error @ (ApiError::Expired { .. } | ApiError::VersionTooLarge { .. })) => {
                Ok(Answer::watch(stream::iter([Ok(error_line(&error))])))
            }
            Err(error) => Err(error),
        }
    }

    /// The JSON body of the request; an error for other content types.
    pub(super) fn json(&self) -> Result<&[u8], ApiError> {
        if ["", "application/json"].contains(&self.content_type) || self.body.is_empty() {
            return Ok(&self.body);
        }
        // kubectl sends protobuf for `create configmap` and similar commands.
        let is_protobuf = self.content_type.contains("protobuf");
        let advice = "with kubectl, use --dry-run=client -o yaml and pipe the output to kubectl create -f -";
        Err(ApiError::UnsupportedMediaType { accepted: "application/json", advice: is_protobuf.then_some(advice) })
    }

    fn create(&self, place: &Place, served: &Served) -> Result<Answer, ApiError> {
        let form = form(self.accept, AnswerTo::One)?;
        let mut unknown = UnknownFields::new(self.field_validation("CreateOptions")?);
        let mut object = Object::read_noting(&served.kind, self.json()?, &mut unknown)?;
        unknown.check(&served.kind)?;
        object.author = Some(self.author(place));
        if !place.namespace.is_empty() && !is_dns_label(&place.namespace) {
            return Err(ApiError::not_found(&Kind::new("", "v1", "Namespace", "namespaces"), &place.namespace));
        }
        let run = self.run_write("CreateOptions")?;
        let created = self.shared.change(|world, now| world.create(served, &place.namespace, object, now, run))?;
        Ok(Answer::object(201, &created, form).with_warnings(unknown.warnings()))
    }

    fn update(&self, place: &Place, served: &Served) -> Result<Answer, ApiError> {
        let form = form(self.accept, AnswerTo::One)?;
        let mut unknown = UnknownFields::new(self.field_validation("UpdateOptions")?);
        let mut object = Object::read_noting(&served.kind, self.json()?, &mut unknown)?;
        unknown.check(&served.kind)?;
        object.author = Some(self.author(place));
        let key = Key::new(&place.namespace, &place.name);
        check_name(&object, &key)?;
        let part = Part::of(place.subresource);
        let run = self.run_write("UpdateOptions")?;
        let updated = self.shared.change(|world, now| world.update(served, key, object, part, now, run))?;
        Ok(stored(&updated, form).with_warnings(unknown.warnings()))
    }

    fn patch(&self, place: &Place, served: &Served) -> Result<Answer, ApiError> {
        let form = form(self.accept, AnswerTo::One)?;
        let key = Key::new(&place.namespace, &place.name);
        let author = self.author(place);
        if self.content_type == APPLY {
            let (application, run) = self.application(&author)?;
            let applied = self.shared.change(|world, now| world.apply(served, key, &application, now, run))?;
            return Ok(stored(&applied, form));
        }
        let patch = Patch::read(&served.kind, self.content_type, &self.body)?;
        let run = self.run_write("PatchOptions")?;
        let mut unknown = UnknownFields::new(self.field_validation("PatchOptions")?);
        let patched = self.shared.change(|world, now| {
            let mut patched = world.patched(served, &key, &patch, &mut unknown)?;
            patched.author = Some(author);
            world.update(served, key, patched, Part::of(place.subresource), now, run).map(Stored::into_object)
        })?;
        Ok(Answer::object(200, &patched, form).with_warnings(unknown.warnings()))
    }

    fn delete(&self, place: &Place, served: &Served) -> Result<Answer, ApiError> {
        let form = form(self.accept, AnswerTo::One)?;
        let options = DeleteOptions::of_request(self.json()?, &self.request.params)?;
        let (run, terms) = (options.run(self.run("DeleteOptions")?), options.terms());
        let key = Key::new(&place.namespace, &place.name);
        let deleted = self.shared.change(|world, now| world.delete(served, key, &terms, now, run));
        let answer = match deleted {
            Ok(Deleted::Waits(object)) => Answer::object(options.waiting_code().as_u16(), &object, form),
            Ok(Deleted::Gone(object)) if served.kind.shows_deleted => Answer::object(200, &object, form),
            Ok(Deleted::Gone(object)) => Answer::json(200, &success(&served.kind, &object.decode())),
            Err(error) => error.into(),
        };
        Ok(answer.with_warnings(delete_warning(&served.kind, &terms).as_slice()))
    }

    fn delete_collection(&self, place: &Place, served: &Served) -> Result<Answer, ApiError> {
        let form = form(self.accept, AnswerTo::List)?;
        let options = DeleteOptions::of_request(self.json()?, &self.request.params)?;
        let (run, terms) = (options.run(self.run("DeleteOptions")?), options.terms());
        let params = &self.request.params;
        let query = ListQuery {
            moment: params.moment()?,
            selector: self.selector(place, served)?,
            limit: params.limit,
            lag: 0,
        };
        let page = self.shared.change(|world, now| world.delete_collection(served, &query, &terms, now, run))?;
        Ok(Answer::list(&served.kind, page, form).with_warnings(delete_warning(&served.kind, &terms).as_slice()))
    }

    fn selector(&self, place: &Place, served: &Served) -> Result<Selector, ApiError> {
        let params = &self.request.params;
        Selector::new(&served.kind, &place.namespace, &params.label_selector, &params.field_selector)
    }

    /// Returns whether the request is a dry run. `options` is the type of the options, for the error.
    fn run(&self, options: &str) -> Result<Run, ApiError> {
        match self.request.params.dry_run.as_deref() {
            None => Ok(Run::Real),
            Some("All") => Ok(Run::Dry),
            Some(other) => {
                let cause = Cause::unsupported("dryRun", &format!("[{other:?}]"), "\"All\"");
                Err(ApiError::invalid_meta(options, cause))
            }
        }
    }

    /// Like [`run`](Self::run), and checks the parameters `fieldValidation`, `fieldManager` and `force`.
    pub(super) fn run_write(&self, options: &str) -> Result<Run, ApiError> {
        self.field_validation(options)?;
        field_manager::check(options, self.content_type == APPLY, &self.request.params)?;
        self.run(options)
    }

    /// What the client wants to know about unknown fields.
    fn field_validation(&self, options: &str) -> Result<FieldValidation, ApiError> {
        match self.request.params.field_validation.as_str() {
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Ignore" => Ok(FieldValidation::Ignore),
            "Strict" => Ok(FieldValidation::Strict),
            other => {
                let supported = r#""", "Ignore", "Strict", "Warn""#;
                let cause = Cause::unsupported("fieldValidation", &format!("{other:?}"), supported);
                Err(ApiError::invalid_meta(options, cause))
            }
        }
    }

    /// The client, as the owner of the fields that it writes.
    pub(super) fn author(&self, place: &Place) -> Author {
        let manager = field_manager::name(&self.request.params.field_manager, self.user_agent);
        Author { manager, subresource: place.subresource, time: self.shared.now() }
    }

    /// The body of a server-side apply.
    pub(super) fn application<'a>(&self, author: &'a Author) -> Result<(Application<'a>, Run), ApiError> {
        let run = self.run_write("PatchOptions")?;
        let fields = field_manager::read_application(&self.body)?;
        // Without managed fields, nobody is known to own anything.
        let force = self.request.params.force == Some(true) || !self.shared.world.read().tracks_fields;
        Ok((Application { author, fields, force }, run))
    }
}

/// The response to an update.
fn stored(stored: &Stored, form: Form) -> Answer {
    match stored {
        Stored::Created(object) => Answer::object(201, object, form),
        Stored::Updated(object) => Answer::object(200, object, form),
    }
}

/// The warning for a delete that keeps the pods of jobs without saying so.
fn delete_warning(kind: &Kind, terms: &DeleteTerms) -> Option<&'static str> {
    let warning = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set \
                   propagationPolicy=Orphan to suppress this warning";
    (terms.propagation.is_none() && kind.origin == Origin::BuiltIn && kind.is_at("batch", "jobs")).then_some(warning)
}

/// The body of the response to a completed delete.
fn success(kind: &Kind, object: &Object) -> Value {
    let mut details = json!({"name": object.text("name"), "kind": kind.plural, "uid": object.text("uid")});
    if !kind.group.is_empty() {
        details["group"] = json!(kind.group);
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
