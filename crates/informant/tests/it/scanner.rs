//! `Scanner`: reads the identity of an object and makes its JSON compact, in one pass.

use std::fmt;

use informant::{
    FieldPath, Key, Lazy,
    error::{DecodeError, SyntaxProblem},
    index,
    pipeline::Scanner,
};
use k8s_openapi::api::core::v1::Pod;
use kube::core::TypeMeta;
use proptest::{
    prelude::{Just, Strategy, any},
    prop_oneof,
};
use serde_json::Value;

use crate::random;

fn scanner() -> Scanner {
    Scanner::of_kind::<Pod>()
}

/// The compact JSON of a pod.
fn compact(json: &str) -> String {
    scanner().scan(json.as_bytes()).unwrap().json().to_owned()
}

/// The error of scanning a pod.
fn scan_error(json: &str) -> DecodeError {
    scanner().scan(json.as_bytes()).map(drop).unwrap_err()
}

const TYPES: &str = r#""apiVersion":"v1","kind":"Pod""#;

#[test]
fn the_scanner_reads_the_identity_in_any_order_of_fields() {
    let json = r#"{"status":{"name":"no"},"metadata":{"resourceVersion":"7","uid":"u1","name":"web","labels":null,
        "namespace":"shop"},"kind":"Pod","apiVersion":"v1"}"#;

    let mut scanner = scanner();
    let raw = scanner.scan(json.as_bytes()).unwrap();

    assert_eq!(raw.identity().key, Key::namespaced("shop", "web"));
    assert_eq!((&*raw.identity().uid.to_string(), raw.identity().version.as_str()), ("u1", "7"));
}

#[test]
fn the_scanner_cuts_only_the_managed_fields_of_the_object_itself() {
    let template = r#"{"metadata":{"name":"inner","managedFields":[{"manager":"kept"}]}}"#;
    let json = format!(
        r#"{{{TYPES},"metadata":{{"managedFields":[{{"a":"}}]"}}],"name":"web"}},"managedFields":1,"spec":{{"template":{template}}}}}"#
    );

    let expected =
        format!(r#"{{{TYPES},"metadata":{{"name":"web"}},"managedFields":1,"spec":{{"template":{template}}}}}"#);
    assert_eq!(compact(&json), expected);
}

#[test]
fn managed_fields_are_cut_at_every_position_and_in_every_spelling() {
    let expected = format!(r#"{{{TYPES},"metadata":{{"name":"web","uid":"u"}}}}"#);
    for metadata in [
        r#"{"managedFields":[],"name":"web","uid":"u"}"#,
        r#"{"name":"web","managedFields":[],"uid":"u"}"#,
        r#"{"name":"web","uid":"u","managedFields":[]}"#,
        r#"{"managedFields":{},"name":"web","managedFields":null,"uid":"u","managedFields":"x"}"#,
        r#"{"name":"web","uid":"u","\u006danagedField\u0073":[1]}"#,
        "{ \"name\" : \"web\" , \"managedFields\" : [ { } ] , \"uid\" : \"u\" }",
    ] {
        assert_eq!(compact(&format!(r#"{{{TYPES},"metadata":{metadata}}}"#)), expected, "{metadata}");
    }
}

#[test]
fn keep_managed_fields_keeps_them() {
    let json = format!(r#"{{{TYPES},"metadata":{{"name":"web","managedFields":[{{"manager":"me"}}]}}}}"#);

    let mut scanner = scanner().keep_managed_fields();

    assert_eq!(scanner.scan(json.as_bytes()).unwrap().json(), json);
}

#[test]
fn the_compact_json_begins_with_the_type_even_if_a_list_omits_it() {
    let metadata = r#""metadata":{"name":"web","labels":{"a":"b"}}"#;
    assert_eq!(compact(&format!("{{{metadata}}}")), format!("{{{TYPES},{metadata}}}"));
    assert_eq!(
        compact(&format!(r#"{{{metadata},"apiVersion":"v1"}}"#)),
        format!("{{{TYPES},{metadata}}}"),
        "a listed object has the same JSON as a watched one"
    );

    let json = format!("{{{metadata}}}");
    let pod = scanner().scan(json.as_bytes()).unwrap().decode::<Lazy<Pod>>().unwrap();
    assert_eq!(pod.labels().get("a").map(String::as_str), Some("b"), "labels are found after the added type");
}

#[test]
fn the_scanner_refuses_an_object_of_another_kind() {
    let error = scan_error(r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"web"}}"#);
    assert_eq!(error.to_string(), "web: expected v1, Pod, found v1, Node");

    let error = scan_error(r#"{"apiVersion":"v2","metadata":{"name":"web"}}"#);
    assert_eq!(error.to_string(), "web: expected v1, Pod, found v2, Pod");
}

#[test]
fn an_empty_type_is_replaced_by_the_expected_one() {
    for types in [r#""kind":"","apiVersion":null,"#, r#""apiVersion":"", "kind":null ,"#] {
        let json = format!(r#"{{{types}"metadata":{{"name":"web"}}}}"#);
        assert_eq!(compact(&json), format!(r#"{{{TYPES},"metadata":{{"name":"web"}}}}"#));
    }
}

#[test]
fn a_scanner_without_an_expected_type_accepts_any_type() {
    let mut scanner = Scanner::new(TypeMeta::default());

    let raw = scanner.scan(br#"{"metadata":{"name":"web"}}"#).unwrap();
    assert_eq!(raw.json(), r#"{"metadata":{"name":"web"}}"#);
    let raw = scanner.scan(br#"{"kind":"Pod","metadata":{"name":"web"}}"#).unwrap();
    assert_eq!((raw.types().api_version.as_str(), raw.types().kind.as_str()), ("", "Pod"));
}

#[test]
fn the_scanner_refuses_duplicate_fields_of_the_identity() {
    for (json, field) in [
        (r#"{"metadata":{"name":"a","name":"b"}}"#, "metadata.name"),
        (r#"{"metadata":{"name":"a","na\u006de":"b"}}"#, "metadata.name"),
        (r#"{"metadata":{"name":"a","namespace":"b","namespace":"b"}}"#, "metadata.namespace"),
        (r#"{"metadata":{"name":"a","uid":"b","uid":"c"}}"#, "metadata.uid"),
        (r#"{"metadata":{"name":"a","resourceVersion":"1","resourceVersion":null}}"#, "metadata.resourceVersion"),
        (r#"{"metadata":{"name":"a","labels":{},"labels":{}}}"#, "metadata.labels"),
        (r#"{"metadata":{"name":"a"},"metadata":{}}"#, "metadata"),
        (r#"{"kind":"Pod","kind":"Pod","metadata":{"name":"a"}}"#, "kind"),
        (r#"{"apiVersion":"v1","apiVersion":"v1","metadata":{"name":"a"}}"#, "apiVersion"),
    ] {
        let error = scan_error(json);
        let DecodeError::DuplicateField { field: found, .. } = error else { panic!("{json}: {error}") };
        assert_eq!(found, field);
    }
    let error = scan_error(r#"{"metadata":{"namespace":"shop","name":"web","name":"api"}}"#);
    assert_eq!(error.to_string(), "shop/web: metadata.name appears twice, again at byte 52");
}

#[test]
fn the_scanner_refuses_metadata_of_a_wrong_type() {
    for (json, message) in [
        (
            r#"{"metadata":{"namespace":"n","name":5}}"#,
            "object without a readable name: metadata.name must be a string, at byte 36",
        ),
        (r#"{"metadata":{"name":"a","labels":[]}}"#, "a: metadata.labels must be an object of strings, at byte 33"),
        (
            r#"{"metadata":{"name":"a","namespace":"n","labels":{"x":1}}}"#,
            "n/a: metadata.labels must be an object of strings, at byte 54",
        ),
        (
            r#"{"metadata":{"name":"a","namespace":"n","annotations":{"x":null}}}"#,
            "n/a: metadata.annotations must be an object of strings, at byte 59",
        ),
        (r#"{"metadata":[]}"#, "object without a readable name: metadata must be an object, at byte 12"),
        (
            r#"{"metadata":{"annotations":{"x":1},"name":"a","namespace":"n"}}"#,
            "n/a: metadata.annotations must be an object of strings, at byte 32",
        ),
        (
            r#"{"metadata":{"ownerReferences":5,"name":"a"}}"#,
            "a: metadata.ownerReferences must be an array, at byte 31",
        ),
        (r#"{"metadata":{"finalizers":{},"name":"a"}}"#, "a: metadata.finalizers must be an array, at byte 26"),
        (r#"{"metadata":{"generateName":5,"name":"a"}}"#, "a: metadata.generateName must be a string, at byte 28"),
        (
            r#"{"metadata":{"deletionTimestamp":[],"name":"a"}}"#,
            "a: metadata.deletionTimestamp must be a string, at byte 33",
        ),
        (r#"{"metadata":{"generation":"1","name":"a"}}"#, "a: metadata.generation must be a number, at byte 26"),
        (
            r#"{"metadata":{"creationTimestamp":7,"name":"a"}}"#,
            "a: metadata.creationTimestamp must be a string, at byte 33",
        ),
        (r#"{"metadata":{"name":"a/b"}}"#, "a/b: metadata.name must be a string without a slash, at byte 20"),
        (r#"{"metadata":{}}"#, "object without metadata.name"),
        (r#"{"metadata":{"name":""}}"#, "object without metadata.name"),
        (r#"{"metadata":{"name":null}}"#, "object without metadata.name"),
        ("{}", "object without metadata.name"),
    ] {
        assert_eq!(scan_error(json).to_string(), message, "{json}");
    }
}

#[test]
fn a_syntax_error_has_the_key_and_the_offset() {
    let named = r#"{"metadata":{"namespace":"n","name":"a"},"x":"#;
    for (rest, problem) in [
        ("", SyntaxProblem::Truncated),
        ("\"", SyntaxProblem::Truncated),
        ("tru", SyntaxProblem::Truncated),
        ("trux", SyntaxProblem::UnexpectedByte),
        ("1", SyntaxProblem::Truncated),
        ("01}", SyntaxProblem::BadNumber),
        ("-}", SyntaxProblem::BadNumber),
        ("1.}", SyntaxProblem::BadNumber),
        ("1e+}", SyntaxProblem::BadNumber),
        ("1.2.3}", SyntaxProblem::BadNumber),
        ("+1}", SyntaxProblem::UnexpectedByte),
        ("[1,]}", SyntaxProblem::UnexpectedByte),
        ("{\"a\":1,}}", SyntaxProblem::UnexpectedByte),
        ("{\"a\" 1}}", SyntaxProblem::UnexpectedByte),
        ("{1:1}}", SyntaxProblem::UnexpectedByte),
        ("\"\\x\"}", SyntaxProblem::BadEscape),
        ("\"\\u12\"}", SyntaxProblem::BadEscape),
        ("\"\\ud800\"}", SyntaxProblem::BadEscape),
        ("\"\\ud800\\n\"}", SyntaxProblem::BadEscape),
        ("\"\\udc00\"}", SyntaxProblem::BadEscape),
        ("\"\n\"}", SyntaxProblem::ControlCharacter),
        ("1}{", SyntaxProblem::TrailingData),
        ("1} x", SyntaxProblem::TrailingData),
    ] {
        let json = format!("{named}{rest}");
        let error = scan_error(&json);
        let DecodeError::Syntax { key, offset, problem: found } = error else { panic!("{rest}: {error}") };
        assert_eq!((key, found), (Some(Key::namespaced("n", "a")), problem), "{rest}");
        assert!((named.len()..=json.len()).contains(&offset), "{rest}: at {offset}");
    }
    assert_eq!(scan_error(&format!("{named}?}}")).to_string(), "n/a: unexpected byte at byte 45");
    assert_eq!(scan_error("[]").to_string(), "object without a readable name: expected a JSON object at byte 0");
    assert_eq!(scan_error("").to_string(), "object without a readable name: JSON ends too early at byte 0");
    let invalid = scanner().scan(b"{\"metadata\":{\"name\":\"\xff\"}}").map(drop).unwrap_err();
    assert_eq!(invalid.to_string(), "object without a readable name: invalid UTF-8 at byte 21");
    let invalid = scanner().scan(b"{\"metadata\":{\"name\":\"a\"},\"x\":\"\xff\"}").map(drop).unwrap_err();
    assert_eq!(invalid.to_string(), "a: invalid UTF-8 at byte 30");
}

#[test]
fn a_syntax_error_has_no_key_while_the_namespace_may_follow() {
    assert!(scan_error(r#"{"metadata":{"name":"web","#).key().is_none());
    assert_eq!(scan_error(r#"{"metadata":{"name":"web"},"#).key(), Some(&Key::cluster_scoped("web")));
}

#[test]
fn the_scanner_accepts_nesting_up_to_the_limit_of_serde_json() {
    let nested =
        |depth: usize| format!(r#"{{"metadata":{{"name":"a"}},"x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));

    let deepest = compact(&nested(126));
    assert!(serde_json::from_str::<Value>(&deepest).is_ok());

    assert!(serde_json::from_str::<Value>(&nested(127)).is_err());
    assert_eq!(scan_error(&nested(127)).to_string(), "a: nested deeper than 127 levels at byte 155");
    assert!(scan_error(&nested(1_000_000)).to_string().contains("nested deeper"));
}

#[test]
fn the_scanner_accepts_huge_numbers_and_decoding_fails_on_them() {
    let json = format!(r#"{{"metadata":{{"name":"a"}},"spec":{{"containers":[],"priority":1{}}}}}"#, "0".repeat(5000));

    let pod = scanner().scan(json.as_bytes()).unwrap().decode::<Lazy<Pod>>().unwrap();

    let error = pod.get().unwrap_err();
    assert_eq!(error.to_string(), "a: cannot decode spec.priority");
}

/// JSON with its spelling.
#[derive(Clone)]
enum Tree {
    Plain(&'static str),
    Number(String),
    Text(Text),
    Array(Vec<Tree>),
    Object(Vec<(Text, Tree)>),
}

/// Characters, each with a flag: true if it is spelled as `\u…`.
#[derive(Clone)]
struct Text(Vec<(char, bool)>);

impl Text {
    fn write(&self, out: &mut String) {
        out.push('"');
        for (character, is_escaped) in &self.0 {
            if *is_escaped || matches!(character, '"' | '\\' | '\0'..='\x1f') {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            } else {
                out.push(*character);
            }
        }
        out.push('"');
    }

    fn value(&self) -> String {
        self.0.iter().map(|(character, _)| *character).collect()
    }
}

impl Tree {
    /// Writes the tree, with white space from `space` wherever JSON allows it.
    fn write(&self, out: &mut String, space: &mut impl FnMut() -> &'static str) {
        out.push_str(space());
        match self {
            Self::Plain(text) => out.push_str(text),
            Self::Number(number) => out.push_str(number),
            Self::Text(text) => text.write(out),
            Self::Array(items) => {
                out.push('[');
                for (position, item) in items.iter().enumerate() {
                    out.push_str(if position > 0 { "," } else { "" });
                    item.write(out, space);
                }
                out.push_str(space());
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (position, (name, value)) in members.iter().enumerate() {
                    out.push_str(if position > 0 { "," } else { "" });
                    out.push_str(space());
                    name.write(out);
                    out.push_str(space());
                    out.push(':');
                    value.write(out, space);
                }
                out.push_str(space());
                out.push('}');
            }
        }
        out.push_str(space());
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write(&mut out, &mut || "");
        f.write_str(&out)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write(&mut out);
        f.write_str(&out)
    }
}

/// Texts that look like JSON, need escapes, or are field names that the scanner looks for.
fn text() -> impl Strategy<Value = Text> {
    let names = ["metadata", "name", "namespace", "uid", "resourceVersion", "managedFields", "labels", "kind", "spec"];
    let odd = [
        "",
        "}",
        "{\"metadata\":{\"name\":\"x\"}}",
        "\\",
        "\"",
        "a\"b",
        "ünï",
        "𝄞",
        "\u{7f}",
        "\u{0}",
        "12345678",
        "1234567\"8",
    ];
    let known = proptest::sample::select([&names[..], &odd].concat()).prop_map(str::to_owned);
    let any_text =
        proptest::collection::vec(any::<char>(), 0..20).prop_map(|text| text.into_iter().collect::<String>());
    spelled(prop_oneof![3 => known, 1 => any_text])
}

fn spelled(text: impl Strategy<Value = String>) -> impl Strategy<Value = Text> {
    (text, any::<u64>()).prop_map(|(text, escapes)| {
        // Few escapes, so that long runs without escapes are common.
        let escaped = |position: usize| (escapes >> (position % 32)) & 0b11 == 0 && escapes & 1 == 0;
        Text(text.chars().enumerate().map(|(position, character)| (character, escaped(position))).collect())
    })
}

fn named(name: &'static str) -> impl Strategy<Value = Text> {
    spelled(Just(name.to_owned()))
}

fn number() -> impl Strategy<Value = Tree> {
    let spelling = proptest::sample::select(vec!["0", "-0", "1.5", "-12e3", "1E-2", "1e+5", "18446744073709551616"]);
    prop_oneof![spelling.prop_map(str::to_owned), any::<i64>().prop_map(|number| number.to_string())]
        .prop_map(Tree::Number)
}

fn tree() -> impl Strategy<Value = Tree> {
    let plain = proptest::sample::select(vec!["null", "true", "false"]).prop_map(Tree::Plain);
    let leaf = prop_oneof![plain, number(), text().prop_map(Tree::Text)];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Tree::Array),
            proptest::collection::vec((text(), inner), 0..5).prop_map(Tree::Object),
        ]
    })
}

fn texts() -> impl Strategy<Value = Tree> {
    let map = proptest::collection::vec((text(), text().prop_map(Tree::Text)), 0..4).prop_map(Tree::Object);
    prop_oneof![3 => map, 1 => Just(Tree::Plain("null"))]
}

/// The members of an object, some of them missing, in any order.
type Members = Vec<(Text, Tree)>;

fn maybe(name: &'static str, value: impl Strategy<Value = Tree>) -> impl Strategy<Value = Members> {
    prop_oneof![2 => (named(name), value).prop_map(|member| vec![member]), 1 => Just(Vec::new())]
}

fn others(taken: &'static [&'static str]) -> impl Strategy<Value = Members> {
    let is_free = move |name: &Text| !taken.contains(&name.value().as_str());
    proptest::collection::vec((text().prop_filter("another name", is_free), tree()), 0..4)
}

fn metadata() -> impl Strategy<Value = Tree> {
    const TAKEN: &[&str] = &["name", "namespace", "uid", "resourceVersion", "labels", "annotations", "managedFields"];
    let value = |text: &'static str| named(text).prop_map(Tree::Text);
    let managed_fields = proptest::collection::vec((named("managedFields"), tree()), 0..3);
    let identity = (
        (named("name"), value("web")).prop_map(|member| vec![member]),
        maybe("namespace", value("shop")),
        maybe("uid", value("0b7d2f1e-9a54")),
        maybe("resourceVersion", value("42")),
    );
    let rest = (maybe("labels", texts()), maybe("annotations", texts()), managed_fields, others(TAKEN));
    (identity, rest)
        .prop_map(|((a, b, c, d), (e, f, g, h))| [a, b, c, d, e, f, g, h].concat())
        .prop_shuffle()
        .prop_map(Tree::Object)
}

fn pod() -> impl Strategy<Value = Members> {
    let api_version = maybe("apiVersion", named("v1").prop_map(Tree::Text));
    let kind = maybe("kind", named("Pod").prop_map(Tree::Text));
    let metadata = (named("metadata"), metadata()).prop_map(|member| vec![member]);
    let parts = (api_version, kind, metadata, others(&["apiVersion", "kind", "metadata"]));
    parts.prop_map(|(a, b, c, d)| [a, b, c, d].concat()).prop_shuffle()
}

/// Pseudorandom white space, the same for the same seed.
fn spaces(seed: u64) -> impl FnMut() -> &'static str {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ["", "", "", " ", "\n  ", "\t", "\r\n"][(state >> 33) as usize % 7]
    }
}

fn written(members: &Members, space: &mut impl FnMut() -> &'static str) -> String {
    let mut out = String::new();
    Tree::Object(members.clone()).write(&mut out, space);
    out
}

/// The exact bytes that the compact JSON of a pod must have.
fn expected_compact(pod: &Members) -> String {
    let mut pod = pod.clone();
    for (name, value) in &mut pod {
        if let (Tree::Object(members), "metadata") = (value, name.value().as_str()) {
            members.retain(|(name, _)| name.value() != "managedFields");
        }
    }
    pod.retain(|(name, _)| !["apiVersion", "kind"].contains(&name.value().as_str()));
    let tight = written(&pod, &mut || "");
    format!("{{{TYPES},{}", &tight[1..])
}

fn full_parse(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

#[test]
fn the_scanner_finds_the_identity_and_labels_of_a_full_parse() {
    random::check(3000, (pod(), any::<u64>()), |(pod, seed)| {
        let json = written(&pod, &mut spaces(seed));
        let mut scanner = scanner();
        let raw = scanner.scan(json.as_bytes()).unwrap();

        assert_eq!(raw.json(), expected_compact(&pod));
        let mut parsed = full_parse(&json);
        let metadata = parsed["metadata"].as_object_mut().unwrap();
        metadata.remove("managedFields");
        let field = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
        assert_eq!(raw.identity().key, Key::namespaced(field("namespace"), field("name")));
        assert_eq!(raw.identity().uid.to_string(), field("uid"));
        assert_eq!(raw.identity().version.as_str(), field("resourceVersion"));
        let labels = serde_json::from_value::<Option<_>>(metadata.get("labels").cloned().unwrap_or_default()).unwrap();
        parsed["apiVersion"] = "v1".into();
        parsed["kind"] = "Pod".into();
        assert_eq!(full_parse(raw.json()), parsed);

        let lazy = raw.decode::<Lazy<Pod>>().unwrap();
        assert_eq!(lazy.labels(), labels.unwrap_or_default());
    });
}

fn fields(paths: &[&str]) -> Vec<FieldPath> {
    paths.iter().map(|path| path.parse().unwrap()).collect()
}

/// The compact JSON of a pod without these fields.
fn cut(json: &str, paths: &[&str]) -> String {
    scanner().cut(&fields(paths)).scan(json.as_bytes()).unwrap().json().to_owned()
}

#[test]
fn cut_removes_the_named_fields_and_no_others() {
    let pod = |metadata: &str, rest: &str| format!(r#"{{{TYPES},"metadata":{{{metadata}"name":"web"}}{rest}}}"#);
    let json = pod(
        r#""annotations":{"a.b/c":"1","d":"2"},"labels":{"x":"1","y":"2"},"finalizers":["f"],"#,
        r#","spec":{"env":1,"containers":[{"env":[1],"name":"c"},{"name":"d","env":{}},{"env":0},7]},"status":{"spec":{"env":2}}"#,
    );

    let of_metadata = cut(&json, &[r"metadata.annotations.a\.b/c", "metadata.labels.y", "metadata.finalizers"]);
    assert!(
        of_metadata.contains(r#""metadata":{"annotations":{"d":"2"},"labels":{"x":"1"},"name":"web"}"#),
        "{of_metadata}"
    );
    let within = cut(&json, &["spec.containers.env", "status.spec"]);
    assert!(
        within.ends_with(r#""spec":{"env":1,"containers":[{"name":"c"},{"name":"d"},{},7]},"status":{}}"#),
        "{within}"
    );
    assert!(cut(&json, &["status.spec.env.deeper", "spec.nothing", "annotations"]) == compact(&json));
    let both = cut(&json, &["status.spec", "status", "spec", "metadata.labels", "metadata.annotations"]);
    assert_eq!(both, pod(r#""finalizers":["f"],"#, ""));
}

#[test]
fn cut_fields_are_still_checked() {
    let wrong = r#"{"metadata":{"name":"web","labels":{"x":1}}}"#;
    let mut scanner = scanner().cut(&fields(&["metadata.labels", "spec"]));
    assert!(matches!(scanner.scan(wrong.as_bytes()), Err(DecodeError::BadMetadata { .. })));
    let broken = r#"{"metadata":{"name":"web"},"spec":{"a":}}"#;
    assert!(matches!(scanner.scan(broken.as_bytes()), Err(DecodeError::Syntax { .. })));
}

/// Cut fields are not in the compact JSON, whose encoding is checked as a whole.
#[test]
fn invalid_utf8_in_a_cut_field_is_refused() {
    let managed_fields = b"{\"metadata\":{\"name\":\"web\",\"managedFields\":[\"\xff\"]}}";
    let spec = b"{\"metadata\":{\"name\":\"web\"},\"spec\":{\"a\":\"\xc3(\"}}";
    let mut scanner = scanner().cut(&fields(&["spec"]));

    let mut refuse = |json: &[u8], message: &str| {
        assert_eq!(scanner.scan(json).map(drop).unwrap_err().to_string(), message);
        let first = scanner.scan_first(json).map(drop).unwrap_err();
        assert!(matches!(first, DecodeError::Syntax { problem: SyntaxProblem::InvalidUtf8, .. }), "{first}");
    };
    refuse(managed_fields, "object without a readable name: invalid UTF-8 at byte 44");
    refuse(spec, "web: invalid UTF-8 at byte 40");
}

/// The reference implementation of a cut.
fn cut_tree(tree: &mut Tree, path: &[&str]) {
    match (tree, path) {
        (Tree::Object(members), [name]) => members.retain(|(other, _)| other.value() != *name),
        (Tree::Object(members), [name, rest @ ..]) => {
            let of_name = members.iter_mut().filter(|(other, _)| other.value() == *name);
            of_name.for_each(|(_, value)| cut_tree(value, rest));
        }
        (Tree::Array(items), path) => items.iter_mut().for_each(|item| cut_tree(item, path)),
        (Tree::Plain(_) | Tree::Number(_) | Tree::Text(_) | Tree::Object(_), _) => {}
    }
}

#[test]
fn cut_fields_leave_the_other_fields_unchanged() {
    let names =
        ["metadata", "labels", "annotations", "spec", "kind", "name", "ünï", "a\"b", "managedFields", "12345678"];
    let path = proptest::collection::vec(proptest::sample::select(names.to_vec()), 1..4);
    let values = (pod(), any::<u64>(), proptest::collection::vec(path, 1..4));
    random::check(3000, values, |(pod, seed, paths)| {
        let parsed: Vec<_> = paths.iter().map(|path| (path, path.join(".").parse::<FieldPath>())).collect();
        // Paths of the identity are refused.
        let paths: Vec<_> = parsed.into_iter().filter_map(|(path, parsed)| Some((path, parsed.ok()?))).collect();
        let json = written(&pod, &mut spaces(seed));
        let mut scanner = scanner().cut(paths.iter().map(|(_, parsed)| parsed));
        let raw = scanner.scan(json.as_bytes()).unwrap();

        let mut expected = Tree::Object(pod);
        paths.iter().for_each(|(path, _)| cut_tree(&mut expected, path));
        let Tree::Object(expected) = expected else { unreachable!() };
        assert_eq!(raw.json(), expected_compact(&expected));
        let lazy = raw.decode::<Lazy<Pod>>().unwrap();
        let labels = full_parse(&lazy.json().unwrap())["metadata"].get("labels").cloned().unwrap_or_default();
        assert_eq!(lazy.labels(), serde_json::from_value::<Option<_>>(labels).unwrap().unwrap_or_default());
    });
}

/// The values at a path of a pod, as text, unless the scanner cuts them.
fn values_at(path: &FieldPath, cut: Option<&FieldPath>, pod: &Members) -> Vec<String> {
    fn add(tree: &Tree, names: &[&str], to_cut: Option<&[&str]>, values: &mut Vec<String>) {
        match (tree, names) {
            _ if to_cut.is_some_and(<[_]>::is_empty) => {}
            (Tree::Array(items), _) => items.iter().for_each(|item| add(item, names, to_cut, values)),
            (Tree::Object(members), [first, rest @ ..]) => {
                let to_cut = to_cut.and_then(|names| names.strip_prefix(&[*first]));
                let members = members.iter().filter(|(name, _)| name.value() == *first);
                members.for_each(|(_, member)| add(member, rest, to_cut, values));
            }
            (Tree::Text(text), []) => values.push(text.value()),
            (Tree::Number(number), []) => values.push(full_parse(number).to_string()),
            (Tree::Plain(word @ ("true" | "false")), []) => values.push((*word).to_owned()),
            (Tree::Plain(_) | Tree::Object(_) | Tree::Text(_) | Tree::Number(_), _) => {}
        }
    }
    let (names, cut): (Vec<_>, Option<Vec<_>>) = (path.names().collect(), cut.map(|path| path.names().collect()));
    let mut values = Vec::new();
    add(&Tree::Object(pod.clone()), &names, cut.as_deref(), &mut values);
    values
}

#[test]
fn noted_fields_have_the_values_that_the_json_has() {
    const PATHS: [&str; 16] = [
        "spec",
        "name",
        "kind",
        "ünï",
        "12345678",
        r#"a"b"#,
        "metadata",
        "metadata.labels",
        "metadata.spec",
        "metadata.kind",
        "metadata.ünï",
        "metadata.labels.spec",
        "metadata.labels.12345678",
        "metadata.annotations.name",
        "spec.name",
        "uid.labels",
    ];
    let indexes = PATHS.map(|path| index::field::<Lazy<Pod>>(path).unwrap());
    let with_values = std::cell::Cell::new([0; PATHS.len()]);
    random::check(3000, (pod(), any::<u64>(), 0..2 * PATHS.len()), |(pod, seed, cut)| {
        let json = written(&pod, &mut spaces(seed));
        let cut = PATHS.get(cut).and_then(|path| path.parse::<FieldPath>().ok());
        let object = scanner().cut(&cut).scan(json.as_bytes()).unwrap().decode::<Lazy<Pod>>().unwrap();

        let mut counts = with_values.get();
        for ((index, path), count) in indexes.iter().zip(PATHS).zip(&mut counts) {
            let Ok(parsed) = path.parse::<FieldPath>() else { continue };
            let expected = values_at(&parsed, cut.as_ref(), &pod);
            assert_eq!(index(&object), expected, "{path} of {json}");
            *count += usize::from(!expected.is_empty());
        }
        with_values.set(counts);
        assert!(full_parse(&object.json().unwrap()).is_object(), "notes are no part of the JSON");
    });
    let with_values = with_values.get().into_iter().filter(|count| *count > 0).count();
    assert!(with_values >= 10, "{with_values} fields had values");
}

/// A random change of the bytes.
#[derive(Debug, Clone)]
enum Damage {
    Cut(usize),
    Remove(usize),
    Insert(usize, u8),
    Overwrite(usize, u8),
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let place = |at: usize| at % bytes.len().max(1);
        match *self {
            Self::Cut(at) => bytes.truncate(place(at)),
            Self::Insert(at, byte) => bytes.insert(place(at), byte),
            Self::Remove(_) | Self::Overwrite(..) if bytes.is_empty() => {}
            Self::Remove(at) => drop(bytes.remove(place(at))),
            Self::Overwrite(at, byte) => {
                let at = place(at);
                bytes[at] = byte;
            }
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let byte = || prop_oneof![proptest::sample::select(b"{}[]:,\"\\ 0-+.eEtfnu\n\x00\xff\xc3".to_vec()), any::<u8>()];
    prop_oneof![
        1 => any::<usize>().prop_map(Damage::Cut),
        2 => any::<usize>().prop_map(Damage::Remove),
        2 => (any::<usize>(), byte()).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        2 => (any::<usize>(), byte()).prop_map(|(at, byte)| Damage::Overwrite(at, byte)),
    ]
}

#[test]
fn the_scanner_accepts_damaged_bytes_exactly_if_a_full_parse_does() {
    let values = (pod(), any::<u64>(), proptest::collection::vec(damage(), 1..4));
    random::check(5000, values, |(pod, seed, damages)| {
        let mut bytes = written(&pod, &mut spaces(seed)).into_bytes();
        damages.iter().for_each(|damage| damage.apply(&mut bytes));
        let parsed = std::str::from_utf8(&bytes).map(serde_json::from_str::<Value>);

        let is_syntax_good = match scanner().scan(&bytes) {
            Ok(_) => true,
            Err(DecodeError::Syntax { problem: SyntaxProblem::NotAnObject, .. }) => return,
            Err(DecodeError::Syntax { .. }) => false,
            // The metadata is bad; the scanner did not read further.
            Err(_) => return,
        };

        let is_parsed = match &parsed {
            Ok(Ok(_)) => true,
            // The parser fails on a number that it cannot represent; the scanner only skips it.
            Ok(Err(error)) if error.to_string().starts_with("number out of range") => return,
            Ok(Err(_)) | Err(_) => false,
        };
        assert_eq!(is_syntax_good, is_parsed, "{:?}: {parsed:?}", String::from_utf8_lossy(&bytes));
    });
}

#[test]
fn noted_fields_of_odd_json_have_the_values_that_the_json_has() {
    let paths = ["data.deep", "data.huge", "data.mixed"];
    let indexes = paths.map(|path| index::field::<Lazy<Pod>>(path).unwrap());
    let deep = |depth| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let values: [(String, &[&str]); 6] = [
        (deep(1), &["1"]),
        (deep(124), &["1"]),
        (deep(125), &["1"]),
        ("1e400".to_owned(), &[]),
        ("[1,1e400,2]".to_owned(), &["1", "2"]),
        ("[{\"mixed\":1},2]".to_owned(), &["2"]),
    ];
    for (value, expected) in values {
        let json = format!(r#"{{"metadata":{{"name":"a"}},"data":{{"deep":{value},"huge":{value},"mixed":{value}}}}}"#);
        let object = Scanner::of_kind::<Pod>().scan(json.as_bytes()).unwrap().decode::<Lazy<Pod>>().unwrap();
        for (path, index) in paths.iter().zip(&indexes) {
            assert_eq!(index(&object), expected, "{json} at {path}");
        }
    }
}

#[test]
fn objects_of_a_type_that_the_scanner_does_not_know_share_it() {
    let mut scanner = Scanner::new(TypeMeta::default());
    let mut decoded = |kind| {
        let json = format!(r#"{{"apiVersion":"v1","kind":"{kind}","metadata":{{"name":"a"}}}}"#);
        scanner.scan(json.as_bytes()).unwrap().decode::<Lazy<Pod>>().unwrap()
    };
    let [one, same, other] = ["Pod", "Pod", "Node"].map(&mut decoded);

    assert!(std::ptr::eq(one.types(), same.types()));
    assert_eq!((&*one.types().kind, &*other.types().kind), ("Pod", "Node"));
    assert!(other.json().unwrap().contains("Node"));
}
