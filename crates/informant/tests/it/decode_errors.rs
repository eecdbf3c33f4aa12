//! The field path of a decode error, for each way in which decoding a field can fail.
#![expect(dead_code, reason = "the fields are decoded and never read")]

use std::collections::BTreeMap;

use informant::{error::DecodeError, pipeline::Scanner};
use kube::core::TypeMeta;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error},
};

#[derive(Deserialize)]
struct Fleet {
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    replicas: i32,
    names: Vec<String>,
    pair: (i32, i32),
    ships: Vec<Ship>,
    mode: Option<Mode>,
    shape: Option<Shape>,
    port: Option<Port>,
    ports: Vec<Port>,
    by_port: BTreeMap<u16, i32>,
    by_name: BTreeMap<String, i32>,
    untagged: Option<Untagged>,
    tagged: Option<Tagged>,
    flattened: Option<Flattened>,
    #[serde(deserialize_with = "json_in_a_string")]
    embedded: Option<Ship>,
    #[serde(deserialize_with = "ship_with_context")]
    described: Option<Ship>,
    #[serde(deserialize_with = "ship_or_refusal")]
    refused: Option<Ship>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ship {
    name: String,
    #[serde(default)]
    port: Option<Port>,
}

#[derive(Deserialize)]
enum Mode {
    On,
}

#[derive(Deserialize)]
enum Shape {
    Circle(Port),
    Square { side: i32 },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(i32),
    Object { a: i32 },
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Tagged {
    A { x: i32 },
}

#[derive(Deserialize)]
struct Flattened {
    own: i32,
    #[serde(flatten)]
    shared: Shared,
}

#[derive(Deserialize)]
struct Shared {
    level: i32,
}

/// A number that serde_json accepts and this type may refuse.
#[derive(Deserialize)]
#[serde(try_from = "u16")]
struct Port;

impl TryFrom<u16> for Port {
    type Error = &'static str;

    fn try_from(number: u16) -> Result<Self, &'static str> {
        if number < 1024 { Err("a reserved port") } else { Ok(Self) }
    }
}

fn json_in_a_string<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Ship>, D::Error> {
    let text = String::deserialize(deserializer)?;
    serde_json::from_str(&text).map(Some).map_err(Error::custom)
}

fn ship_with_context<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Ship>, D::Error> {
    Ship::deserialize(deserializer).map(Some).map_err(|error| Error::custom(format!("the ship: {error}")))
}

fn ship_or_refusal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Ship>, D::Error> {
    Ship::deserialize(deserializer).map(Some).map_err(|_| Error::custom("not a ship"))
}

/// The path and the source of the error of decoding an object with these members.
fn decode_error<T: DeserializeOwned>(members: &str) -> (String, String) {
    let json = format!(r#"{{"metadata":{{"name":"a"}},{members}}}"#);
    let mut scanner = Scanner::new(TypeMeta::default());
    let raw = scanner.scan(json.as_bytes()).unwrap();
    match raw.fields::<T>() {
        Err(DecodeError::Field { path, source, .. }) => (path, source.to_string()),
        Err(error) => panic!("{members}: {error}"),
        Ok(_) => panic!("{members}: decoding succeeded"),
    }
}

#[test]
fn a_decode_error_has_the_path_of_the_field() {
    let long_name = "x".repeat(500);
    let cases = [
        // Values of a wrong type.
        (r#""spec":5"#, "spec"),
        (r#""spec":{"replicas":"x"}"#, "spec.replicas"),
        (r#""spec":{"replicas":{}}"#, "spec.replicas"),
        (r#""spec":{"replicas":[{}],"names":[]}"#, "spec.replicas"),
        (r#""spec":{"names":["a",7,"c"]}"#, "spec.names[1]"),
        (r#""spec":{"names":[{"a":"b"}]}"#, "spec.names[0]"),
        (r#""spec":{"names":["a",["b"]]}"#, "spec.names[1]"),
        (r#""spec":{"pair":[1,2,3]}"#, "spec.pair"),
        (r#""spec":{"pair":[1]}"#, "spec.pair"),
        // Numbers out of range.
        (r#""spec":{"replicas":99999999999}"#, "spec.replicas"),
        (r#""spec":{"replicas":1e400}"#, "spec.replicas"),
        // Missing, unknown and duplicate fields.
        (r#""other":1"#, "."),
        (r#""spec":{"ships":[{"name":"a"},{"port":8080}]}"#, "spec.ships[1]"),
        (r#""spec":{"ships":[{"name":"a","sails":3}]}"#, "spec.ships[0].sails"),
        (r#""spec":{"ships":[{"name":"a","name":"b"}]}"#, "spec.ships[0].name"),
        // Enums.
        (r#""spec":{"mode":"Off"}"#, "spec.mode"),
        (r#""spec":{"mode":7}"#, "spec.mode"),
        (r#""spec":{"mode":[{}]}"#, "spec.mode"),
        (r#""spec":{"shape":{"Line":1}}"#, "spec.shape.Line"),
        (r#""spec":{"shape":{"Circle":80}}"#, "spec.shape.Circle"),
        (r#""spec":{"shape":{"Square":{"side":"x"}}}"#, "spec.shape.Square.side"),
        (r#""spec":{"shape":{"Circle":8080,"Square":1}}"#, "spec.shape"),
        // Values that a type refuses after serde_json has accepted them.
        (r#""spec":{"port":80}"#, "spec.port"),
        (r#""spec":{"port":80,"names":[]}"#, "spec.port"),
        (r#""spec":{"ports":[8080,808,8080]}"#, "spec.ports[1]"),
        (r#""spec":{"ports":[8080,8080,808]}"#, "spec.ports[2]"),
        (r#""spec":{"ships":[{"name":"a","port":80}]}"#, "spec.ships[0].port"),
        // Names of members.
        (r#""spec":{"byPort":{"80":1,"http":2}}"#, "spec.byPort.http"),
        (r#""spec":{"byPort":{"70000":1}}"#, "spec.byPort.70000"),
        (r#""spec":{"byPort":{"80":"x"}}"#, "spec.byPort.80"),
        (r#""spec":{"byName":{"a.b/\u003cü\"":"x"}}"#, "spec.byName.a.b/<ü\""),
        // Values that serde decodes from a copy: the path is that of the copied value.
        (r#""spec":{"untagged":{"a":"x"}}"#, "spec.untagged"),
        (r#""spec":{"untagged":{"a":"x"},"names":[]}"#, "spec.untagged"),
        (r#""spec":{"tagged":{"type":"A","x":"y"}}"#, "spec.tagged"),
        (r#""spec":{"flattened":{"level":"x","own":1}}"#, "spec.flattened"),
        (r#""spec":{"flattened":{"level":1,"own":"x"}}"#, "spec.flattened.own"),
        // Errors that a type makes from other errors: with more text, with the position in another text, without the cause.
        (r#""spec":{"described":{"name":5},"names":[]}"#, "spec.described.name"),
        (r#""spec":{"described":{"port":8080}}"#, "spec.described"),
        (r#""spec":{"embedded":"{\"name\":5}","names":[]}"#, "spec.embedded"),
        (r#""spec":{"embedded":"{"}"#, "spec.embedded"),
        (&format!(r#""spec":{{"embedded":"{{\"name\":\"{long_name}\"","names":[]}}"#), "spec.embedded"),
        (r#""spec":{"refused":{"port":8080},"names":[]}"#, "spec.refused"),
    ];

    for (members, expected) in cases {
        let (path, source) = decode_error::<Fleet>(members);
        assert_eq!(path, expected, "{members}: {source}");
    }
}

#[test]
fn a_decode_error_of_a_type_that_is_no_object_has_the_path_of_the_whole_object() {
    assert_eq!(decode_error::<String>(r#""spec":{}"#).0, ".");
    assert_eq!(decode_error::<Vec<String>>(r#""spec":{}"#).0, ".");
    assert_eq!(decode_error::<Mode>(r#""spec":{}"#).0, "metadata", "the first field name is not a variant");
}

#[test]
fn the_path_of_a_decode_error_does_not_depend_on_white_space() {
    let json = b"{ \"metadata\": {\n \"name\": \"a\" },\n \"spec\": {\n  \"ships\": [\n { \"name\": \"\xc3\xbc\" },\n { \"name\": 5 } ] } }";
    let mut scanner = Scanner::new(TypeMeta::default());

    let error = scanner.scan(json).unwrap().fields::<Fleet>().map(drop).unwrap_err();

    assert_eq!(error.to_string(), "a: cannot decode spec.ships[1].name");
}
