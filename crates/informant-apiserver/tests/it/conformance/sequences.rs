//! Random sequences of applies, updates and patches by three managers.
//!
//! Each sequence runs on the embedded server. After each step, the object and its managed fields agree with each other. With
//! `INFORMANT_CONFORMANCE_URL`, the same sequence also runs on that server, and both must have the same responses, objects and owners;
//! defaults, which the embedded server does not set, are left out of the comparison.
//!
//! `INFORMANT_SEED=…` runs one sequence, `INFORMANT_CASES=20` twenty times as many.

use std::collections::BTreeSet;

use fastrand::Rng;
use http_body_util::BodyExt;

use super::{
    apply::{apply, gadgets},
    *,
};

/// Sequences that once had different results on the two servers.
const FOUND: [u64; 5] = [71, 147, 252, 556, 780];

#[tokio::test]
async fn random_sequences_of_writes_have_the_same_owners_on_both_servers() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let count = 100 * number("INFORMANT_CASES").unwrap_or(1);
    let seeds = match number("INFORMANT_SEED") {
        Some(seed) => vec![seed],
        None => FOUND.into_iter().chain(0..count).collect::<BTreeSet<_>>().into_iter().collect(),
    };
    let embedded = Server::new(Api::new(Web::in_process(&ApiServer::new())).await).await;
    let other = match std::env::var("INFORMANT_CONFORMANCE_URL") {
        Ok(url) => Some(Server::new(Api::new(other_server(&url)).await).await),
        Err(_) => None,
    };
    let mut failures = Vec::new();
    for seed in seeds {
        let result = run(seed, &embedded, other.as_ref()).await;
        if let Some(other) = &other {
            // A real server has few addresses for services.
            let (kind, name) = of_seed(seed);
            other.api.delete(&other.path(kind, &name)).await;
        }
        if let Err(why) = result {
            println!("seed {seed}: {why}\n");
            failures.push(seed);
        }
    }
    assert!(failures.is_empty(), "INFORMANT_SEED of the sequences that failed: {failures:?}");
}

/// A server, and the kind of gadgets on it.
struct Server {
    api: Api,
    gadgets: (String, String),
}

impl Server {
    async fn new(api: Api) -> Self {
        let gadgets = gadgets(&api).await;
        Self { api, gadgets }
    }

    fn path(&self, kind: Kind, name: &str) -> String {
        match kind {
            Kind::ConfigMap => format!("{}/{name}", self.api.path("configmaps")),
            Kind::Deployment => format!("{}/{name}", self.api.path("apps/deployments")),
            Kind::Service => format!("{}/{name}", self.api.path("services")),
            Kind::Gadget => format!("{}/{name}", self.gadgets.1),
        }
    }

    /// The object with the type of its kind.
    fn typed(&self, kind: Kind, name: &str, mut object: Value) -> Value {
        let (api_version, kind) = match kind {
            Kind::ConfigMap => ("v1", "ConfigMap"),
            Kind::Deployment => ("apps/v1", "Deployment"),
            Kind::Service => ("v1", "Service"),
            Kind::Gadget => (&*self.gadgets.0, "Gadget"),
        };
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind);
        object["metadata"]["name"] = json!(name);
        object
    }

    /// The object, as text and decoded.
    async fn read(&self, kind: Kind, name: &str) -> (String, Value) {
        let response = self.api.respond(Method::GET, &self.path(kind, name), String::new(), &[]).await.unwrap();
        let text = String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
        let object = serde_json::from_str(&text).unwrap();
        (text, object)
    }

    async fn carry_out(&self, kind: Kind, name: &str, step: &Step) -> Answer {
        let path = self.path(kind, name);
        match step {
            Step::Apply { manager, force, part, object } => {
                let path = format!("{path}{part}?force={force}");
                apply(&self.api, &path, manager, &self.typed(kind, name, object.clone())).await
            }
            Step::Patch { manager, part, content_type, patch } => {
                self.api.patch(&format!("{path}{part}?fieldManager={manager}"), content_type, patch).await
            }
            Step::Update { manager, place, value } => {
                let mut object = self.api.get(&path).await.body;
                if object["kind"] == "Status" {
                    object = self.typed(kind, name, json!({}));
                }
                set(&mut object, place, value);
                self.api.put(&format!("{path}?fieldManager={manager}"), &object).await
            }
        }
    }
}

/// Sets a value, or removes it.
fn set(object: &mut Value, place: &[&str], value: &Value) {
    let Some((last, outer)) = place.split_last() else { return };
    let mut inner = object;
    for name in outer {
        inner = &mut inner[name];
    }
    if value.is_null() {
        inner.as_object_mut().map(|map| map.remove(*last));
    } else {
        inner[last] = value.clone();
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    ConfigMap,
    Deployment,
    Service,
    Gadget,
}

#[derive(Debug)]
enum Step {
    Apply { manager: &'static str, force: bool, part: &'static str, object: Value },
    Patch { manager: &'static str, part: &'static str, content_type: &'static str, patch: Value },
    Update { manager: &'static str, place: &'static [&'static str], value: Value },
}

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

fn manager(rng: &mut Rng) -> &'static str {
    ["one", "two", "three"][rng.usize(..3)]
}

fn value(rng: &mut Rng) -> Value {
    json!(["1", "2"][rng.usize(..2)])
}

/// A map with some of these keys, but not empty: of a built-in kind, kube-apiserver does not store an empty one.
fn texts(rng: &mut Rng, keys: &[&str]) -> Value {
    let mut texts = map(rng, keys);
    texts[keys[rng.usize(..keys.len())]] = value(rng);
    texts
}

/// A map with some of these keys.
fn map(rng: &mut Rng, keys: &[&str]) -> Value {
    let mut map = serde_json::Map::new();
    for key in keys {
        if rng.bool() {
            map.insert((*key).to_owned(), value(rng));
        }
    }
    map.into()
}

/// Some of these values, in any order.
fn some(rng: &mut Rng, values: &[Value]) -> Vec<Value> {
    let mut some = values.iter().filter(|_| rng.bool()).cloned().collect::<Vec<_>>();
    rng.shuffle(&mut some);
    some
}

/// Sets fields of a map, each with a chance of a half.
fn fill(rng: &mut Rng, object: &mut Value, fields: Vec<(&str, Value)>) {
    for (name, value) in fields {
        if rng.bool() {
            object[name] = value;
        }
    }
}

/// What a manager may apply to an object of a kind.
fn applied(kind: Kind, rng: &mut Rng) -> Value {
    let mut object = json!({"metadata": {}});
    let fields = vec![("labels", texts(rng, &["l", "m"])), ("annotations", texts(rng, &["a", "b"]))];
    fill(rng, &mut object["metadata"], fields);
    match kind {
        Kind::ConfigMap => {
            let fields = vec![("data", texts(rng, &["x", "y", "z"])), ("binaryData", json!({"b": "Yg=="}))];
            fill(rng, &mut object, fields);
        }
        Kind::Deployment => object["spec"] = deployment(rng),
        Kind::Service => {
            let mut ports = vec![json!({"port": 80, "protocol": "TCP", "name": "http"})];
            let more = [
                json!({"port": 443, "name": "https"}),
                json!({"port": 53, "protocol": "UDP", "name": "dns"}),
                json!({"port": 80, "protocol": "UDP", "name": "other"}),
            ];
            ports.extend(some(rng, &more));
            rng.shuffle(&mut ports);
            object["spec"] = json!({ "ports": ports });
            let fields = vec![("selector", texts(rng, &["s", "t"])), ("publishNotReadyAddresses", json!(true))];
            fill(rng, &mut object["spec"], fields);
        }
        Kind::Gadget => {
            object["spec"] = gadget(rng);
            if rng.u8(..4) == 0 {
                object["status"] = json!({"phase": value(rng)});
            }
        }
    }
    object
}

fn deployment(rng: &mut Rng) -> Value {
    let env = ["X", "Y", "Z"].map(|name| json!({"name": name, "value": value(rng)}));
    let ports = [
        json!({"containerPort": 80}),
        json!({"containerPort": 80, "protocol": "UDP"}),
        json!({"containerPort": 443, "protocol": "TCP"}),
    ];
    let mut main = json!({"name": "main", "image": "web"});
    let (env, ports, args) = (some(rng, &env), some(rng, &ports), some(rng, &[json!("a"), json!("b")]));
    let lists = [("env", env), ("ports", ports), ("args", args)].into_iter().filter(|(_, list)| !list.is_empty());
    fill(rng, &mut main, lists.map(|(name, list)| (name, list.into())).collect());
    let mut containers = vec![main];
    if rng.bool() {
        containers.push(json!({"name": "side", "image": "web"}));
        rng.shuffle(&mut containers);
    }
    let mut volumes = some(rng, &[json!({"name": "v", "emptyDir": {}})]);
    volumes.push(json!({"name": "w", "configMap": {"name": "c", "optional": true}}));
    let mut template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}});
    let fields = vec![("volumes", volumes.into()), ("nodeSelector", texts(rng, &["n", "o"])), ("hostname", value(rng))];
    fill(rng, &mut template["spec"], fields);
    let mut spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template});
    let fields = vec![("paused", json!(true)), ("minReadySeconds", json!(rng.u8(1..4)))];
    fill(rng, &mut spec, fields);
    spec
}

fn gadget(rng: &mut Rng) -> Value {
    let item = |rng: &mut Rng, id: u8, side: &str| {
        let mut item = json!({"id": id, "side": side});
        let tags = some(rng, &[json!("s"), json!("t")]);
        let fields = vec![("value", value(rng)), ("tags", tags.into())];
        fill(rng, &mut item, fields);
        item
    };
    let items = [item(rng, 1, "left"), item(rng, 2, "left"), item(rng, 10, "left"), item(rng, 1, "right")];
    let mut free = map(rng, &["p", "q"]);
    free["deep"] = map(rng, &["d", "e"]);
    free["list"] = json!([rng.u8(1..3)]);
    let numbers = some(rng, &[json!(9), json!(10), json!(1)]);
    let mut nested = map(rng, &["a"]);
    if rng.bool() {
        nested["b"] = json!({"c": rng.u8(1..3)});
    }
    let size = if rng.bool() { json!(1) } else { json!("50%") };
    let fields = vec![
        ("items", some(rng, &items).into()),
        ("set", some(rng, &[json!("a"), json!("b"), json!("c")]).into()),
        ("numbers", numbers.into()),
        ("list", some(rng, &[json!("x"), json!("y")]).into()),
        ("map", map(rng, &["k", "l"])),
        ("atomic", map(rng, &["k", "l"])),
        ("nested", nested),
        ("free", free),
        ("size", size),
        ("replicas", json!(rng.u8(1..4))),
    ];
    let mut spec = json!({});
    fill(rng, &mut spec, fields);
    spec
}

fn step(kind: Kind, rng: &mut Rng) -> Step {
    let (manager, force) = (manager(rng), rng.u8(..3) == 0);
    let is_patch = rng.u8(..3) == 0;
    match rng.u8(..10) {
        0..6 => Step::Apply { manager, force, part: "", object: applied(kind, rng) },
        6 if matches!(kind, Kind::Gadget) => {
            let mut object = json!({"metadata": {}, "status": map(rng, &["phase", "reason"])});
            fill(rng, &mut object, vec![("spec", json!({"replicas": 9}))]);
            Step::Apply { manager, force, part: "/status", object }
        }
        6 if matches!(kind, Kind::Deployment) => {
            let patch = json!({"spec": {"replicas": rng.u8(2..5)}});
            Step::Patch { manager, part: "/scale", content_type: MERGE, patch }
        }
        _ => {
            let (place, value) = change(kind, rng);
            if !is_patch {
                return Step::Update { manager, place, value };
            }
            let patch = place.iter().rev().fold(value, |inner, name| json!({ *name: inner }));
            let is_custom = matches!(kind, Kind::Gadget);
            let content_type = if is_custom || rng.bool() { MERGE } else { STRATEGIC };
            Step::Patch { manager, part: "", content_type, patch }
        }
    }
}

/// A place in an object, and the value to set there.
fn change(kind: Kind, rng: &mut Rng) -> (&'static [&'static str], Value) {
    let text = if rng.u8(..4) == 0 { Value::Null } else { value(rng) };
    match (kind, rng.u8(..5)) {
        (_, 0) => (&["metadata", "labels", "l"], text),
        (_, 1) => (&["metadata", "annotations"], if text.is_null() { text } else { texts(rng, &["a", "b"]) }),
        (Kind::ConfigMap, 2) => (&["data", "x"], text),
        (Kind::ConfigMap, _) => (&["data"], texts(rng, &["y", "z"])),
        (Kind::Deployment, 2) => (&["spec", "paused"], json!(true)),
        (Kind::Deployment, 3) => (&["spec", "template", "spec", "hostname"], text),
        (Kind::Deployment, _) => (&["spec", "template", "spec", "nodeSelector"], texts(rng, &["n", "o"])),
        (Kind::Service, 2) => (&["spec", "publishNotReadyAddresses"], json!(true)),
        (Kind::Service, _) => (&["spec", "selector"], texts(rng, &["s", "t"])),
        (Kind::Gadget, _) => {
            let spec = gadget(rng);
            let places: [&'static [&'static str]; 9] = [
                &["spec", "items"],
                &["spec", "set"],
                &["spec", "numbers"],
                &["spec", "list"],
                &["spec", "map"],
                &["spec", "atomic"],
                &["spec", "nested"],
                &["spec", "free"],
                &["spec", "size"],
            ];
            let place = places[rng.usize(..places.len())];
            (place, spec.get(place[1]).cloned().unwrap_or_default())
        }
    }
}

/// Fields that kube-apiserver sets, and the embedded server does not.
const DEFAULTS: [&str; 30] = [
    "clusterIP",
    "clusterIPs",
    "creationTimestamp",
    "defaultMode",
    "dnsPolicy",
    "generation",
    "imagePullPolicy",
    "internalTrafficPolicy",
    "ipFamilies",
    "ipFamilyPolicy",
    "loadBalancer",
    "managedFields",
    "namespace",
    "progressDeadlineSeconds",
    "protocol",
    "replicas",
    "resourceVersion",
    "resources",
    "restartPolicy",
    "revisionHistoryLimit",
    "rollingUpdate",
    "schedulerName",
    "securityContext",
    "sessionAffinity",
    "side",
    "strategy",
    "targetPort",
    "terminationGracePeriodSeconds",
    "terminationMessagePath",
    "terminationMessagePolicy",
];

/// The value without defaults and without what differs between servers.
fn comparable(value: &Value, kind: Kind) -> Value {
    let is_left_out = |name: &str| {
        let name = name.trim_start_matches("f:");
        let is_own = matches!((kind, name), (Kind::Gadget, "replicas") | (Kind::ConfigMap, _));
        let is_status = !matches!(kind, Kind::Gadget) && name == "status";
        ["uid", "apiVersion", "managedFields", "resourceVersion", "namespace", "creationTimestamp"].contains(&name)
            || is_status
            || name == "type" && !matches!(kind, Kind::Gadget)
            || DEFAULTS.contains(&name) && !is_own
    };
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(name, _)| !is_left_out(name));
            kept.map(|(name, value)| (name.clone(), comparable(value, kind))).collect()
        }
        Value::Array(items) => items.iter().map(|item| comparable(item, kind)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// The managed fields of an object, without times.
fn owners(object: &Value, kind: Kind) -> BTreeSet<String> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let owner = |entry: &Value| {
        let fields = comparable(&entry["fieldsV1"], kind);
        format!("{} {} {} {fields}", entry["manager"], entry["operation"], entry["subresource"])
    };
    let has_fields = |entry: &&Value| comparable(&entry["fieldsV1"], kind) != json!({});
    entries.filter(has_fields).map(owner).collect()
}

/// The kind and the name of the object of a sequence.
fn of_seed(seed: u64) -> (Kind, String) {
    let kind = [Kind::ConfigMap, Kind::Deployment, Kind::Service, Kind::Gadget][usize::try_from(seed % 4).unwrap()];
    (kind, format!("s{seed}"))
}

async fn run(seed: u64, embedded: &Server, other: Option<&Server>) -> Result<(), String> {
    let mut rng = Rng::with_seed(seed);
    let (kind, name) = of_seed(seed);
    // Most sequences begin with an apply: the owner of an update also owns defaults.
    let first = Step::Apply { manager: manager(&mut rng), force: false, part: "", object: applied(kind, &mut rng) };
    let more = (0..rng.usize(4..12)).map(|_| step(kind, &mut rng)).collect::<Vec<_>>();
    for (number, step) in std::iter::once(first).chain(more).enumerate() {
        let place = |why: String| format!("step {number}, {step:?}: {why}");
        let is_apply = matches!(step, Step::Apply { .. });
        let mut before = Value::Null;
        // An apply is repeated.
        for time in 0..if is_apply { 2 } else { 1 } {
            let answer = embedded.carry_out(kind, &name, &step).await;
            let (text, object) = embedded.read(kind, &name).await;
            check(&object).map_err(place)?;
            if time == 1 && before != object && answer.code == 200 && !has_empty_values(&step) {
                return Err(place(format!("a second apply changes {before} to {object}")));
            }
            if let Some(other) = other {
                let wanted = other.carry_out(kind, &name, &step).await;
                if wanted.code == 422 && wanted.text("/message").contains("\"null\": spec.") && answer.code == 200 {
                    // Values are not validated yet.
                    return Ok(());
                }
                let (wanted_text, wanted_object) = other.read(kind, &name).await;
                let names = (&*embedded.api.namespace, &*other.api.namespace);
                let (body, wanted_object) = (renamed(&wanted.body, names), renamed(&wanted_object, names));
                // A write of the scale changes the order until the next write.
                if !matches!(kind, Kind::Deployment) {
                    compare_texts(&text, &wanted_text).map_err(place)?;
                }
                let outcome = (answer.code, &answer.body, &object);
                compare(kind, outcome, (wanted.code, &body, &wanted_object)).map_err(place)?;
            }
            before = object;
        }
    }
    Ok(())
}

/// Returns true if a client applies empty maps or lists. With them, kube-apiserver may need a second apply to reach the wanted state.
fn has_empty_values(step: &Step) -> bool {
    fn is_in(value: &Value) -> bool {
        match value {
            Value::Object(map) => map.is_empty() || map.values().any(is_in),
            Value::Array(items) => items.is_empty() || items.iter().any(is_in),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
    match step {
        Step::Apply { object, .. } => is_in(&object["spec"]) || is_in(&object["status"]),
        Step::Patch { .. } | Step::Update { .. } => false,
    }
}

/// Each owned field exists.
fn check(object: &Value) -> Result<(), String> {
    for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
        exists(&entry["fieldsV1"], object, "")
            .map_err(|place| format!("{} owns {place} in {object}", entry["manager"]))?;
    }
    Ok(())
}

/// Returns the place of an owned field that an object does not have.
fn exists(fields: &Value, value: &Value, place: &str) -> Result<(), String> {
    for (step, inner) in fields.as_object().into_iter().flatten() {
        let found = match step.split_once(':') {
            None => continue,
            Some(("f", name)) => value.get(name),
            Some(("v", text)) => value
                .as_array()
                .and_then(|items| items.iter().find(|item| serde_json::from_str(text).ok().as_ref() == Some(*item))),
            Some((_, keys)) => {
                let keys: serde_json::Map<String, Value> = serde_json::from_str(keys).unwrap();
                let has = |item: &&Value| {
                    keys.iter()
                        .all(|(name, key)| item.get(name).map_or(*key == "TCP" || *key == "left", |value| value == key))
                };
                value.as_array().and_then(|items| items.iter().find(has))
            }
        };
        let place = format!("{place}/{step}");
        let may_be_empty = ["/f:data", "/f:metadata/f:annotations", "/f:metadata/f:labels"].contains(&&*place);
        if found.is_none() && may_be_empty && *inner == json!({}) {
            // A map that became empty is not stored, but still owned.
            continue;
        }
        exists(inner, found.ok_or_else(|| place.clone())?, &place)?;
    }
    Ok(())
}

/// The sets of fields in an object, as they are written.
fn field_texts(text: &str) -> Vec<(Value, &str)> {
    let set = |rest: &str| {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let value = values.next().unwrap().unwrap();
        (value, values.byte_offset())
    };
    let begins = text.split("\"fieldsV1\":").skip(1);
    begins.map(|rest| (set(rest).0, &rest[..set(rest).1])).collect()
}

/// Equal sets of fields are written in the same order.
fn compare_texts(text: &str, wanted: &str) -> Result<(), String> {
    let wanted = field_texts(wanted);
    for (fields, text) in field_texts(text) {
        let same = wanted.iter().filter(|(wanted, _)| *wanted == fields).map(|(_, text)| *text).collect::<Vec<_>>();
        if !same.is_empty() && !same.contains(&text) {
            return Err(format!("writes {text}, not {}", same[0]));
        }
    }
    Ok(())
}

/// A document of the other server, as if its namespace had the name of that of the embedded one.
fn renamed(document: &Value, (name, other): (&str, &str)) -> Value {
    serde_json::from_str(&document.to_string().replace(other, name)).unwrap()
}

/// The status code and the body of a response, and the object after it.
type Outcome<'a> = (u16, &'a Value, &'a Value);

/// Compares an outcome on the embedded server with that on another one.
fn compare(
    kind: Kind,
    (code, answer, object): Outcome<'_>,
    (wanted_code, wanted, wanted_object): Outcome<'_>,
) -> Result<(), String> {
    let is_conflict = code == 409;
    if code != wanted_code
        || is_conflict && (&answer["message"], causes(answer)) != (&wanted["message"], causes(wanted))
    {
        return Err(format!("got {code} {}, not {wanted_code} {}", answer["message"], wanted["message"]));
    }
    let (stored, wanted_stored) = (comparable(object, kind), comparable(wanted_object, kind));
    if stored != wanted_stored {
        return Err(format!("has {stored}, not {wanted_stored}"));
    }
    let (owned, wanted_owned) = (owners(object, kind), owners(wanted_object, kind));
    if owned != wanted_owned {
        let differ = owned.symmetric_difference(&wanted_owned).collect::<Vec<_>>();
        return Err(format!("these owners differ: {differ:#?} of {wanted_owned:#?}"));
    }
    Ok(())
}

fn causes(answer: &Value) -> BTreeSet<String> {
    answer["details"]["causes"].as_array().into_iter().flatten().map(Value::to_string).collect()
}
