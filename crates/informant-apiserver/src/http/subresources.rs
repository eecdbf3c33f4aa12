//! Requests for the subresources `scale`, `eviction`, `binding` and `token`, and for reviews.
//!
//! - **In:** a request whose path names an action (`eviction`, `binding`, `token`), a scale, or a kind of review.
//! - **Out:** the response, or the error that kube-apiserver sends.
//! - **Knows nothing of:** sockets, and the rules of objects.

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    access::{User, review, token},
    error::ApiError,
    http::{
        answer::Answer,
        delete_options::DeleteOptions,
        field_manager::APPLY,
        handle::Call,
        negotiate::{AnswerTo, form},
        request::{Place, Verb},
    },
    objects::{
        Key, Object,
        encoded::{Encoded, Form},
        patch::Patch,
        rules, scale,
    },
    registry::{
        Served,
        kind::{Kind, Origin},
        subresource::Subresource,
    },
    world::check_name,
};

const CREATED: u16 = StatusCode::CREATED.as_u16();

impl Call<'_> {
    pub(super) fn scale(&self, place: &Place, served: &Served) -> Result<Answer, ApiError> {
        let form = form(self.accept, AnswerTo::One)?;
        let key = Key::new(&place.namespace, &place.name);
        let object = match self.request.verb {
            Verb::Update => {
                let mut scale = scale::read(self.json()?)?;
                scale.author = Some(self.author(place));
                check_name(&scale, &key)?;
                let run = self.run_write("UpdateOptions")?;
                self.shared.change(|world, now| world.update_scale(served, key, &scale, now, run))?
            }
            Verb::Patch if self.content_type == APPLY => {
                let author = self.author(place);
                let (application, run) = self.application(&author)?;
                self.shared.change(|world, now| world.apply_scale(served, key, &application, now, run))?
            }
            Verb::Patch => {
                let patch = Patch::read(&scale::kind(), self.content_type, &self.body)?;
                let (author, run) = (self.author(place), self.run_write("PatchOptions")?);
                self.shared.change(|world, now| world.patch_scale(served, key, &patch, &author, now, run))?
            }
            Verb::Get
            | Verb::List
            | Verb::Watch
            | Verb::WatchList
            | Verb::Create
            | Verb::Delete
            | Verb::DeleteCollection
            | Verb::Discover
            | Verb::Other => self.find(place, served)?,
        };
        answer_scale(&served.kind, &object, form)
    }

    pub(super) fn evict(&self, place: &Place, served: &Served) -> Result<Answer, ApiError> {
        let eviction = self.read_action(place, Subresource::Eviction)?;
        let options = match eviction.rest.get("deleteOptions") {
            Some(options) if **options != *b"null" => DeleteOptions::read(options)?,
            Some(_) | None => DeleteOptions::default(),
        };
        let run = options.run(self.run_write("CreateOptions")?);
        let key = Key::new(&place.namespace, &place.name);
        self.shared.change(|world, now| world.evict(served, key, &options.terms(), now, run))?;
        Ok(Answer::json(CREATED, &success()))
    }

    pub(super) fn bind(&self, place: &Place, served: &Served) -> Result<Answer, ApiError> {
        let binding = self.read_action(place, Subresource::Binding)?;
        let run = self.run_write("CreateOptions")?;
        let key = Key::new(&place.namespace, &place.name);
        self.shared.change(|world, now| world.bind(served, key, &binding, now, run))?;
        Ok(Answer::json(CREATED, &success()))
    }

    pub(super) fn issue_token(&self, place: &Place, served: &Served) -> Result<Answer, ApiError> {
        let request = Object::read(&token::kind(), self.json()?)?;
        self.shared.world.read().check_namespace(served, &place.namespace, &place.name)?;
        let account = self.find(place, served)?.decode();
        let token = token::issue(&request, &account, self.shared.timestamp())?;
        Ok(Answer::json(CREATED, &token))
    }

    pub(super) fn review(&self, served: &Served) -> Result<Answer, ApiError> {
        let review = Object::read(&served.kind, self.json()?)?;
        let now = self.shared.timestamp();
        let user = User::of_request(self.authorization, now);
        Ok(Answer::json(CREATED, &review::answer(&served.kind, &review, &user, now)?))
    }

    /// Reads the body of an action; a missing name is taken from the path.
    fn read_action(&self, place: &Place, subresource: Subresource) -> Result<Object, ApiError> {
        let (group, version, kind) = subresource.own_type().unwrap_or_default();
        let kind = Kind { origin: Origin::BuiltIn, ..Kind::new(group, version, kind, subresource.name()) };
        let mut sent = Object::read(&kind, self.json()?)?;
        if sent.text("name").is_empty() {
            sent.set("name", &*place.name);
        }
        rules::check_request_namespace(&kind, &place.namespace, &sent)?;
        check_name(&sent, &Key::new(&place.namespace, &place.name))?;
        Ok(sent)
    }
}

fn answer_scale(kind: &Kind, object: &Encoded, form: Form) -> Result<Answer, ApiError> {
    let scale = scale::of(kind, &object.decode())?;
    Ok(Answer::json(
        200,
        &match form {
            Form::Full => Value::Object(scale),
            Form::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": scale["metadata"]})
            }
        },
    ))
}

/// The body of the response to a successful action.
fn success() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": CREATED})
}
