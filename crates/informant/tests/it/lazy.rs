//! `Lazy`: objects that are decoded on first access and freed when the last handle of the decoded object is dropped.

use std::{
    borrow::Cow,
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    },
};

use informant::{Cached, Identity, Key, Lazy, Object, error::DecodeError, index, pipeline::Scanner, projection};
use k8s_openapi::api::core::v1::Pod;
use kube::core::{DynamicObject, TypeMeta};
use serde::{Deserialize, Deserializer};

const POD: &[u8] = include_bytes!("../../benches/pod.json");

fn lazy_pod() -> Cached<Lazy<Pod>> {
    Scanner::of_kind::<Pod>().scan(POD).unwrap().decode().unwrap()
}

fn lazy<K: Object>(json: &str) -> Cached<Lazy<K>> {
    Scanner::new(TypeMeta::default()).scan(json.as_bytes()).unwrap().decode().unwrap()
}

#[test]
fn get_returns_the_same_as_a_full_decode() {
    let mut expected: Pod = serde_json::from_slice(POD).unwrap();
    expected.metadata.managed_fields = None;

    assert_eq!(*lazy_pod().get().unwrap(), expected);
}

/// Counts how often values of this type are decoded and dropped.
struct Counted;
static DECODED: AtomicUsize = AtomicUsize::new(0);
static DROPPED: AtomicUsize = AtomicUsize::new(0);

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer)?;
        DECODED.fetch_add(1, Ordering::SeqCst);
        Ok(Self)
    }
}

projection!(Counted of Pod);

impl Drop for Counted {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::SeqCst);
    }
}

fn counts() -> (usize, usize) {
    (DECODED.load(Ordering::SeqCst), DROPPED.load(Ordering::SeqCst))
}

#[test]
fn a_lazy_object_is_decoded_once_while_a_handle_exists_and_freed_with_the_last_handle() {
    let object = lazy::<Counted>(r#"{"metadata":{"name":"a"}}"#);
    assert_eq!(counts(), (0, 0), "a lazy object is not decoded before `get`");

    let first = object.get().unwrap();
    let second = object.get().unwrap();
    assert!(std::ptr::eq(&*first, &*second));
    drop(first);
    assert_eq!(counts(), (1, 0));
    drop(second.clone());
    drop(second);
    assert_eq!(counts(), (1, 1));
    drop(object.get().unwrap());
    assert_eq!(counts(), (2, 2));

    let (threads, start) = (8, Barrier::new(8));
    let held = Barrier::new(threads);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                start.wait();
                let decoded = object.get().unwrap();
                held.wait();
                drop(decoded);
            });
        }
    });
    assert_eq!(counts(), (3, 3), "eight threads share one decoded object");
}

#[test]
fn a_lazy_object_frees_the_memory_of_the_decoded_object() {
    let pod = lazy_pod();
    drop(pod.get().unwrap());

    let held = allocation_counter::measure(|| std::mem::forget(pod.get().unwrap()));
    assert!(held.bytes_current > 10_000, "a decoded pod is large: {}", held.bytes_current);
    let pod = lazy_pod();
    let left = allocation_counter::measure(|| drop(pod.get().unwrap()));

    assert!(left.bytes_current < 100, "{} bytes stay allocated", left.bytes_current);
}

#[test]
fn a_lazy_object_takes_at_most_15_percent_more_memory_than_its_json() {
    let held = allocation_counter::measure(|| std::mem::forget(lazy_pod())).bytes_current;

    let json = lazy_pod().json().unwrap().len() as i64;
    assert!(held * 100 <= json * 115, "{held} bytes for {json} bytes of JSON");
}

#[derive(Deserialize)]
struct Peeked<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
struct Text {
    text: String,
}

#[test]
fn peek_borrows_strings_without_escapes() {
    let plain = lazy::<Pod>(r#"{"metadata":{"name":"a"},"text":"plain"}"#);
    let escaped = lazy::<Pod>(r#"{"metadata":{"name":"a"},"text":"a\u003cb"}"#);

    assert!(matches!(plain.json().unwrap().peek::<Peeked<'_>>().unwrap().text, Cow::Borrowed("plain")));
    assert_eq!(escaped.json().unwrap().peek::<Peeked<'_>>().unwrap().text, "a<b");
}

#[test]
fn peek_ignores_errors_in_other_fields() {
    let pod = lazy::<Pod>(r#"{"metadata":{"name":"a"},"spec":"not a spec","text":"fine"}"#);

    assert_eq!(pod.peek::<Text>().unwrap().text, "fine");
    assert_eq!(pod.get().unwrap_err().to_string(), "a: cannot decode spec");
}

#[test]
fn the_error_of_peek_or_get_names_the_object_and_the_field() {
    let object =
        lazy::<Pod>(r#"{"metadata":{"namespace":"n","name":"a"},"text":5,"spec":{"containers":[{"image":7}]}}"#);

    assert_eq!(object.peek::<Text>().map(drop).unwrap_err().to_string(), "n/a: cannot decode text");
    assert_eq!(object.get().map(drop).unwrap_err().to_string(), "n/a: cannot decode spec.containers[0].image");
    assert!(object.get().is_err(), "the second `get` fails as well");
}

#[test]
fn peek_fails_on_duplicate_fields_outside_of_the_identity() {
    let object = lazy::<Pod>(r#"{"metadata":{"name":"a"},"text":"one","text":"two"}"#);

    let error = object.peek::<Text>().map(drop).unwrap_err();

    assert_eq!(error.to_string(), "a: cannot decode text");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.starts_with("duplicate field `text` at line 1 column"), "{source}");
}

#[test]
fn labels_of_a_lazy_object_are_read_without_decoding_the_rest() {
    let labels = lazy_pod().labels();

    assert_eq!(labels.get("tier").map(String::as_str), Some("frontend"));
    assert_eq!(labels.len(), 5);
    assert!(lazy::<Pod>(r#"{"metadata":{"name":"a"}}"#).labels().is_empty());
    assert!(lazy::<Pod>(r#"{"metadata":{"labels":null,"name":"a"}}"#).labels().is_empty());
}

/// A lazy object that is not in a cache yet and can be edited.
fn editable<K: Object>(json: &[u8]) -> Lazy<K> {
    Lazy::decode(&Scanner::new(TypeMeta::default()).scan(json).unwrap()).unwrap()
}

#[test]
fn an_edit_changes_the_json_the_labels_and_the_result_of_get() {
    let by_label = index::field("metadata.labels.added").unwrap();
    let mut pod = editable::<Pod>(POD);
    let held = pod.get().unwrap();

    let edit = |pod: &mut Pod| {
        pod.status = None;
        pod.metadata.labels.get_or_insert_default().insert("added".into(), "<yes>".into());
    };
    pod.edit(edit).unwrap();

    let mut expected: Pod = serde_json::from_slice(POD).unwrap();
    expected.metadata.managed_fields = None;
    edit(&mut expected);
    assert_eq!(*pod.get().unwrap(), expected);
    assert!(held.status.is_some(), "a handle from before the edit keeps the old state");
    assert_eq!(Some(pod.labels()), expected.metadata.labels);
    assert_eq!(*pod.json().unwrap(), serde_json::to_string(&expected).unwrap());
    assert_eq!(by_label(&Cached::new(Identity::of_key(Key::cluster_scoped("web")), pod)), ["<yes>"]);
}

/// The scanner omits an empty type, which moves the position of the labels in the JSON.
#[test]
fn an_edit_that_empties_the_type_keeps_the_labels_readable() {
    let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","annotations":{"a":"ünï"},"labels":{"app":"web"}}}"#;
    let mut pod = editable::<DynamicObject>(json.as_bytes());

    pod.edit(|pod| pod.types = Some(TypeMeta::default())).unwrap();

    assert_eq!(pod.labels()["app"], "web");
    let json = pod.json().unwrap();
    assert!(!json.contains("kind"), "{json}");
}

#[test]
fn an_edit_that_fails_changes_nothing() {
    let mut pod = editable::<Pod>(br#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web"}}"#);
    let before = pod.json().unwrap();

    let error = pod.edit(|pod| pod.metadata.name = Some("other".into())).unwrap_err();
    assert!(
        matches!(&error, DecodeError::Transform { source, .. } if source.to_string() == "the edit changed the key to shop/other")
    );
    assert!(matches!(pod.edit(|pod| pod.metadata.name = None), Err(DecodeError::NoName)));
    assert_eq!(pod.json().unwrap(), before);

    let mut pod = editable::<Pod>(br#"{"metadata":{"name":"web"},"spec":{"containers":7}}"#);
    assert!(matches!(pod.edit(|_| ()), Err(DecodeError::Field { .. })));
}
