//! `ListCutter` and `LineCutter`: chunks are cut into the same parts that a parse of the whole body finds, or into an error.

use bytes::Bytes;
use informant::{
    ResourceVersion,
    pipeline::{
        CutPart, EventType, FrameError, FramePart, LineCutter, ListCutter, ListHead, ListPart, Scanner, WatchEvent,
    },
};
use kube::core::TypeMeta;
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use crate::random;

/// Cuts a body that arrives in chunks of these lengths; the lengths repeat.
fn cut(body: &[u8], chunks: &[usize]) -> Result<(Vec<Bytes>, ListHead), FrameError> {
    cut_with(ListCutter::with_limit(64 << 20), body, chunks)
}

fn cut_with(mut cutter: ListCutter, body: &[u8], chunks: &[usize]) -> Result<(Vec<Bytes>, ListHead), FrameError> {
    let (mut items, mut head) = (Vec::new(), None);
    for chunk in in_chunks(body, chunks) {
        cutter.push(chunk);
        while let Some(part) = cutter.next()? {
            match part {
                ListPart::Item(item) | ListPart::ItemOutline(item) => items.push(item),
                ListPart::End(end) => head = Some(end),
            }
        }
    }
    cutter.finish()?;
    Ok((items, head.expect("a finished list has an end")))
}

fn in_chunks(body: &[u8], chunks: &[usize]) -> Vec<Bytes> {
    let mut rest = Bytes::copy_from_slice(body);
    let mut cut = Vec::new();
    for length in chunks.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        cut.push(rest.split_to(rest.len().min((*length).max(1))));
    }
    cut
}

/// Items, version and continue token according to a parse of the whole body.
fn parse_whole(body: &[u8]) -> Option<(Vec<Value>, String, String)> {
    let whole: Value = serde_json::from_slice(body).ok()?;
    let items = match whole.get("items") {
        Some(Value::Array(items)) => items.clone(),
        None | Some(Value::Null) => Vec::new(),
        Some(_) => return None,
    };
    let text = |pointer: &str| whole.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some((items, text("/metadata/resourceVersion"), text("/metadata/continue")))
}

fn values() -> impl Strategy<Value = Value> {
    let text = prop_oneof!["[a-z]{0,6}", Just("\"\\{}[],:\n\u{1F600}".to_owned()), Just("]}".to_owned())];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        text.clone().prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 24, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((text.clone(), inner), 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect()))
        ]
    })
}

/// Lists as text, with fields in any order and white space anywhere.
fn lists() -> impl Strategy<Value = String> {
    let fields = vec((0..7_usize, values()), 0..3);
    (vec(values(), 0..6), fields, any::<bool>(), 0..24_usize, 0..4_usize).prop_map(
        |(items, others, has_metadata, rotation, space)| {
            let mut fields = vec![("kind".to_owned(), json!("PodList")), ("items".to_owned(), Value::from(items))];
            if has_metadata {
                let metadata = json!({"resourceVersion": "77", "continue": "tok\"en", "other": [1]});
                fields.push(("metadata".to_owned(), metadata));
            }
            fields.extend(others.into_iter().map(|(number, value)| (format!("other{number}"), value)));
            let count = fields.len();
            fields.rotate_left(rotation % count);
            let space = [" ", "", "\n", "\t \r\n"][space];
            let members = fields.iter().map(|(name, value)| {
                let value = if space.is_empty() { value.to_string() } else { format!("{value:#}") };
                format!("{}{space}:{space}{value}", Value::from(name.as_str()))
            });
            format!("{space}{{{space}{}{space}}}{space}", members.collect::<Vec<_>>().join(&format!("{space},{space}")))
        },
    )
}

/// Lists of objects with names, and of some values without.
fn lists_of_objects() -> impl Strategy<Value = String> {
    let named = (values(), "[a-z]{1,8}", 0..3_usize).prop_map(|(value, name, space)| {
        let object = json!({"metadata": {"name": name, "managedFields": [value.clone()]}, "spec": value});
        if space == 0 { format!("{object:#}") } else { object.to_string() }
    });
    let item = prop_oneof![4 => named, 1 => values().prop_map(|value| value.to_string())];
    vec(item, 0..8).prop_map(|items| format!(r#"{{"kind":"PodList","items":[{}]}}"#, items.join(" , ")))
}

/// The compact JSON of an item, or the error of its scan.
type Scanned = Result<String, String>;

fn scan(scanner: &mut Scanner, item: &[u8]) -> Scanned {
    scanner.scan(item).map(|raw| raw.json().to_owned()).map_err(|error| error.to_string())
}

/// Scans items in place where that is possible, as the reflector does.
fn read_in_one_pass(body: &[u8], chunks: &[usize]) -> Result<Vec<Scanned>, String> {
    let mut scanner = Scanner::new(TypeMeta::default());
    let mut cutter = ListCutter::with_limit(64 << 20);
    let mut items = Vec::new();
    for chunk in in_chunks(body, chunks) {
        cutter.push(chunk);
        loop {
            let part = cutter.next_unless(|bytes| {
                let (raw, length) = scanner.scan_first(bytes).ok()?;
                items.push(Ok(raw.json().to_owned()));
                Some(length)
            });
            match part.map_err(|error| error.to_string())? {
                None => break,
                Some(ListPart::Item(item) | ListPart::ItemOutline(item)) => items.push(scan(&mut scanner, &item)),
                Some(ListPart::End(_)) => {}
            }
        }
    }
    cutter.finish().map_err(|error| error.to_string())?;
    Ok(items)
}

fn chunkings() -> impl Strategy<Value = Vec<usize>> {
    vec(prop_oneof![1..4_usize, 1..40_usize, Just(10_000)], 1..6)
}

#[test]
fn list_cutter_finds_the_items_and_the_head_of_a_whole_parse() {
    random::check(3000, (lists(), chunkings()), |(list, chunks)| {
        let (items, version, token) = parse_whole(list.as_bytes()).expect("a list");

        let (cut, head) = cut(list.as_bytes(), &chunks).unwrap();

        let cut = cut.iter().map(|item| serde_json::from_slice::<Value>(item).unwrap()).collect::<Vec<_>>();
        assert_eq!(cut, items);
        assert_eq!((head.metadata.resource_version.as_str(), head.metadata.continue_token), (&*version, token));
        assert_eq!(head.kind, "PodList");
    });
}

#[test]
fn list_cutter_finds_the_items_of_a_whole_parse_or_fails_on_a_damaged_list() {
    let damage =
        (any::<prop::sample::Index>(), prop_oneof![any::<u8>(), prop::sample::select(b"{}[]\",:\\ n0".to_vec())]);
    let cases = (lists(), vec(damage, 1..4), any::<Option<prop::sample::Index>>(), chunkings());
    random::check(6000, cases, |(list, damage, end, chunks)| {
        let mut body = list.into_bytes();
        for (place, byte) in damage {
            let place = place.index(body.len());
            body[place] = byte;
        }
        if let Some(end) = end {
            body.truncate(end.index(body.len()));
        }

        let Ok((cut, _)) = cut(&body, &chunks) else { return };

        // The cutter does not check the inside of items.
        let cut = cut.iter().map(|item| serde_json::from_slice::<Value>(item)).collect::<Result<Vec<_>, _>>();
        if let Ok(cut) = cut {
            let (items, _, _) = parse_whole(&body).expect("a body that is cut into valid items is valid");
            assert_eq!(cut, items);
        }
    });
}

#[test]
fn list_cutter_and_watch_event_do_not_panic_on_any_bytes() {
    random::check(3000, (vec(any::<u8>(), 0..200), chunkings()), |(body, chunks)| {
        let _ = cut(&body, &chunks);
        let _ = WatchEvent::read(&body);
    });
}

#[test]
fn list_cutter_accepts_fields_in_any_order() {
    let body = br#"{"items":[{"a":1}],"metadata":{"resourceVersion":"7","continue":"t","remainingItemCount":3},
        "kind":"PodList","apiVersion":"v1"}"#;

    let (items, head) = cut(body, &[7]).unwrap();

    assert_eq!(items, [r#"{"a":1}"#]);
    assert_eq!((&*head.api_version, &*head.kind), ("v1", "PodList"));
    assert_eq!(head.metadata.resource_version, ResourceVersion::new("7"));
    assert_eq!(head.metadata.continue_token, "t");
}

#[test]
fn list_cutter_accepts_lists_without_items() {
    for body in [r#"{"kind":"PodList"}"#, r#"{"kind":"PodList","items":null}"#, r#"{"items":[]}"#, r#"{"items": [ ] }"#]
    {
        assert_eq!(cut(body.as_bytes(), &[1]).unwrap().0.len(), 0, "{body}");
    }
}

#[test]
fn list_cutter_accepts_escaped_field_names() {
    let (items, _) = cut(br#"{"\u0069tems":[1],"kind":null}"#, &[3]).unwrap();

    assert_eq!(items, ["1"]);
}

#[test]
fn list_cutter_names_the_reason_why_a_body_is_not_a_list() {
    let message = |body: &str| cut(body.as_bytes(), &[5]).unwrap_err().to_string();

    assert_eq!(message(r#"{"kind":"Status","code":500}"#), "the response is a \"Status\", not a list");
    assert_eq!(message("<html>no</html>"), "byte 0 of the response is '<'; expected the start of an object");
    assert_eq!(message("[]"), "byte 0 of the response is '['; expected the start of an object");
    assert_eq!(message(r#"{"items":{}}"#), "byte 9 of the response is '{'; expected an array of items");
    assert_eq!(message(r#"{"items":[],"items":[]}"#), "items appears twice, again before byte 19 of the response");
    let metadata = "expected the metadata of a list";
    assert_eq!(message(r#"{"metadata":7,"items":[]}"#), format!("byte 12 of the response is '7'; {metadata}"));
    assert_eq!(message(r#"{"metadata":["7"],"items":[]}"#), format!("byte 12 of the response is '['; {metadata}"));
    assert_eq!(message(r#"{"items":[]}x"#), "byte 12 of the response is 'x'; expected the end of the response");
    let invalid = message(r#"{"items":[],"x":{]}}"#);
    assert!(invalid.starts_with("x, before byte 18 of the response, cannot be parsed: "), "{invalid}");
    assert_eq!(
        message(r#"{"items":[1 2]}"#),
        "byte 12 of the response is '2'; expected a comma or the end of the items"
    );
}

#[test]
fn list_cutter_returns_no_parts_after_an_error_or_the_end() {
    let mut failed = ListCutter::with_limit(64 << 20);
    failed.push(Bytes::from_static(br#"{"metadata":7,"items":[1]}"#));
    assert!(failed.next().is_err());
    assert_eq!(failed.next().unwrap(), None);
    assert!(failed.finish().is_err());

    let mut ended = ListCutter::with_limit(64 << 20);
    ended.push(Bytes::from_static(br#"{"items":[]} x"#));
    assert!(matches!(ended.next().unwrap(), Some(ListPart::End(_))));
    let error = ended.finish().unwrap_err().to_string();
    assert_eq!(error, "byte 13 of the response is 'x'; expected the end of the response");
}

#[test]
fn list_cutter_fails_on_a_truncated_body() {
    let whole = r#"{"kind":"PodList","items":[{"a":1}],"metadata":{}}"#;
    for length in 0..whole.len() {
        let error = cut(&whole.as_bytes()[..length], &[4]).unwrap_err();

        assert!(
            matches!(error, FrameError::Truncated { length: reported, .. } if reported == length as u64),
            "{length}: {error}"
        );
    }
    let item = cut(br#"{"items":[{"a""#, &[4]).unwrap_err();
    assert_eq!(item.to_string(), "the response ends after 14 bytes, in the middle of an item of the list");
}

#[test]
fn list_cutter_returns_the_outline_of_an_item_above_the_limit() {
    let outline = r#"{"metadata":{"name":"b","uid":"u"},"kind":"Pod"}"#;
    let large = outline.replace(r#","kind""#, &format!(r#","data":"{}","kind""#, "x".repeat(1000)));
    let body = format!(r#"{{"items":[{{"a":1}},{large},{{"c":2}}]}}"#);
    for limit in [large.len() - 1, large.len()] {
        for chunk in [1, 7, 100, 10_000] {
            let (items, _) = cut_with(ListCutter::with_limit(limit), body.as_bytes(), &[chunk]).unwrap();

            let second = if limit < large.len() { outline } else { &large };
            assert_eq!(items, [r#"{"a":1}"#, second, r#"{"c":2}"#], "limit {limit}, chunks of {chunk}");
        }
    }
}

#[test]
fn the_outline_of_an_item_has_the_identity_of_the_item() {
    random::check(2000, (lists_of_objects(), chunkings()), |(list, chunks)| {
        let mut scanner = Scanner::new(TypeMeta::default());
        let mut identities = |items: &[Bytes]| {
            items.iter().map(|item| scanner.scan(item).ok().map(|raw| raw.identity().clone())).collect::<Vec<_>>()
        };

        let (items, _) = cut(list.as_bytes(), &chunks).unwrap();
        let (outlines, _) = cut_with(ListCutter::with_limit(10), list.as_bytes(), &chunks).unwrap();

        assert_eq!(identities(&outlines), identities(&items));
    });
}

#[test]
fn list_cutter_fails_on_a_field_above_the_limit_before_it_is_complete() {
    let mut body = br#"{"items":[{"a":1}],"b":""#.to_vec();
    body.extend(std::iter::repeat_n(b'x', 1000));

    let error = cut_with(ListCutter::with_limit(100), &body, &[10]).unwrap_err();

    let FrameError::TooLarge { part, limit, offset } = error else { panic!("{error}") };
    assert_eq!((part, limit, offset), (FramePart::Field, 100, 23));
}

#[test]
fn list_cutter_returns_items_as_slices_of_their_chunk() {
    let body = Bytes::from_static(br#"{"items":[{"a":1},{"b":2}]}"#);
    let mut cutter = ListCutter::with_limit(64 << 20);
    cutter.push(body.clone());

    let Some(ListPart::Item(item)) = cutter.next().unwrap() else { panic!("an item") };

    assert_eq!(item.as_ptr(), body[10..].as_ptr());
}

fn cut_lines(body: &[u8], chunks: &[usize], limit: usize) -> Result<Vec<Bytes>, FrameError> {
    let mut cutter = LineCutter::with_limit(limit);
    let mut lines = Vec::new();
    for chunk in in_chunks(body, chunks) {
        cutter.push(chunk);
        while let Some(line) = cutter.next()? {
            lines.push(match line {
                CutPart::Whole(line) | CutPart::Outline(line) => line,
            });
        }
    }
    cutter.finish().map(|()| lines)
}

#[test]
fn line_cutter_finds_lines_in_any_chunks() {
    random::check(2000, (vec("[a-z ]{0,8}", 0..8), chunkings()), |(text, chunks)| {
        let body = text.iter().map(|line| format!("{line}\n")).collect::<String>();

        let cut = cut_lines(body.as_bytes(), &chunks, 100).unwrap();

        let expected = text.iter().filter(|line| !line.trim().is_empty()).map(String::as_str).collect::<Vec<_>>();
        assert_eq!(cut, expected);
    });
}

#[test]
fn line_cutter_returns_the_outline_of_a_watch_event_above_the_limit() {
    let outline = r#"{"type":"ADDED","object":{"metadata":{"name":"b","uid":"u"},"kind":"Pod"}}"#;
    let large = outline.replace(r#","kind""#, &format!(r#","data":"{}","kind""#, "x".repeat(1000)));
    let body = format!("one\n{large}\ntwo\n");
    for limit in [large.len() - 1, large.len()] {
        for chunk in [1, 7, 100, 10_000] {
            let lines = cut_lines(body.as_bytes(), &[chunk], limit).unwrap();

            let second = if limit < large.len() { outline } else { &large };
            assert_eq!(lines, ["one", second, "two"], "limit {limit}, chunks of {chunk}");
        }
    }
}

#[test]
fn line_cutter_fails_on_a_line_without_an_end_or_above_the_limit_that_is_not_an_event() {
    let truncated = cut_lines(b"one\ntwo", &[2], 100).unwrap_err();
    assert_eq!(truncated.to_string(), "the response ends after 7 bytes, in the middle of a line of the watch");
    let event = format!(r#"{{"type":"ADDED","object":{{"a":"{}"#, "x".repeat(1000));
    let truncated = cut_lines(event.as_bytes(), &[10], 100).unwrap_err();
    assert!(matches!(truncated, FrameError::Truncated { .. }), "{truncated}");

    let no_event = format!("{{\"kind\":\"{}\"}}\n", "x".repeat(1000));
    for line in [&[b'x'; 1000][..], no_event.as_bytes()] {
        let error = cut_lines(line, &[10], 100).unwrap_err();
        assert!(matches!(error, FrameError::TooLarge { part: FramePart::Line, limit: 100, offset: 0 }), "{error}");
    }
}

#[test]
fn watch_event_accepts_fields_in_any_order_and_white_space() {
    let read = |line: &'static str| WatchEvent::read(line.as_bytes()).map(|event| (event.kind, event.object));

    assert_eq!(read(r#"{"type":"ADDED","object":{}}"#).unwrap(), (EventType::Added, &b"{}"[..]));
    assert_eq!(read(" { \"object\" : {\"a\" : 1} , \"type\" : \"DELETED\" } ").unwrap().1, br#"{"a" : 1}"#);
    assert_eq!(read(r#"{"x":[1],"type":"BOOKMARK","object":{}}"#).unwrap().0, EventType::Bookmark);
    assert_eq!(read(r#"{"type":"MODIFI\u0045D","object":{}}"#).unwrap().0, EventType::Modified);
    assert_eq!(read(r#"{"type":"NEW","object":{}}"#).unwrap().0, EventType::Unknown("NEW".into()));
    assert_eq!(read(r#"{"type":"ERROR","object":null}"#).unwrap(), (EventType::Error, &b"null"[..]));
}

#[test]
fn watch_event_fails_on_a_line_that_is_not_an_event() {
    let bad = [
        "",
        "{}",
        "[]",
        "<html>",
        r#"{"type":"ADDED"}"#,
        r#"{"object":{}}"#,
        r#"{"type":7,"object":{}}"#,
        r#"{"type":"ADDED","object":{}"#,
        r#"{"type":"ADDED","object":{"#,
        r#"{"type":"ADDED","object":{}} x"#,
        r#"{"type":"ADDED","type":"ADDED","object":{}}"#,
        r#"{"type":"ADDED","object":{},"object":{}}"#,
        r#"{"type":"ADDED","object":{},"x":{]}}"#,
        r#"{"type":"ADDED" "object":{}}"#,
        "{\u{c}\"type\":\"ADDED\",\"object\":{}}",
        r#"{"kind":"Status","code":410}"#,
    ];
    for line in bad {
        let error = WatchEvent::read(line.as_bytes()).unwrap_err();
        let beginning = format!("a line of {} bytes is not a watch event: ", line.len());
        assert!(error.to_string().starts_with(&beginning), "{line}: {error}");
    }
}

#[test]
fn items_that_are_scanned_in_place_equal_those_that_are_cut() {
    let damage = prop::option::of((any::<prop::sample::Index>(), any::<u8>()));
    random::check(3000, (lists_of_objects(), chunkings(), damage), |(list, chunks, damage)| {
        let mut body = list.into_bytes();
        if let Some((place, byte)) = damage {
            let place = place.index(body.len());
            body[place] = byte;
        }

        let read = read_in_one_pass(&body, &chunks);

        let mut scanner = Scanner::new(TypeMeta::default());
        let cut = cut(&body, &chunks).map_err(|error| error.to_string());
        let cut = cut.map(|(items, _)| items.iter().map(|item| scan(&mut scanner, item)).collect::<Vec<_>>());
        assert_eq!(read, cut);
    });
}
