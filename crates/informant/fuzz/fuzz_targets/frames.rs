//! Any bytes, in any chunks: what is cut is what a parse of the whole finds, or an error.
#![no_main]

use bytes::Bytes;
use informant::pipeline::{CutPart, LineCutter, ListCutter, ListPart, Scanner, WatchEvent};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const LIMIT: usize = 1 << 16;

fuzz_target!(|input: (u8, Vec<u8>)| {
    let (chunk, body) = input;
    let chunk = usize::from(chunk) + 1;
    list(&body, chunk);
    one_pass(&body, chunk);
    lines(&body, chunk);
});

fn list(body: &[u8], chunk: usize) {
    let mut cutter = ListCutter::with_limit(LIMIT);
    let mut items = Vec::new();
    for chunk in body.chunks(chunk) {
        cutter.push(Bytes::copy_from_slice(chunk));
        loop {
            match cutter.next() {
                Err(_) => return,
                Ok(None) => break,
                Ok(Some(ListPart::Item(item))) => items.push(item),
                // The items are incomplete.
                Ok(Some(ListPart::ItemOutline(_))) => return,
                Ok(Some(ListPart::End(_))) => {}
            }
        }
    }
    // What stands inside of an item is for the scanner to check.
    let items = items.iter().map(|item| serde_json::from_slice::<Value>(item)).collect::<Result<Vec<_>, _>>();
    if let (Ok(()), Ok(items)) = (cutter.finish(), items) {
        let whole: Value = serde_json::from_slice(body).expect("a body that is cut into good items is good");
        let found = whole.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        assert_eq!(items, found);
    }
}

/// Items that are read where they stand are those that are cut.
fn one_pass(body: &[u8], chunk: usize) {
    let [cut, read] = [false, true].map(|in_place| {
        let mut cutter = ListCutter::with_limit(LIMIT);
        let mut scanner = Scanner::new(Default::default());
        let mut items = Vec::new();
        for chunk in body.chunks(chunk) {
            cutter.push(Bytes::copy_from_slice(chunk));
            loop {
                let part = cutter.next_unless(|bytes| {
                    let (raw, length) = scanner.scan_first(bytes).ok().filter(|_| in_place)?;
                    items.push(Some(raw.json().to_owned()));
                    Some(length)
                });
                match part.ok()? {
                    None => break,
                    Some(ListPart::Item(item) | ListPart::ItemOutline(item)) => items.push(scanner.scan(&item).ok().map(|raw| raw.json().to_owned())),
                    Some(ListPart::End(_)) => {}
                }
            }
        }
        cutter.finish().ok().map(|()| items)
    });
    assert_eq!(cut, read);
}

fn lines(body: &[u8], chunk: usize) {
    let mut cutter = LineCutter::with_limit(LIMIT);
    let mut lines = Vec::new();
    for chunk in body.chunks(chunk) {
        cutter.push(Bytes::copy_from_slice(chunk));
        while let Ok(Some(CutPart::Whole(line) | CutPart::Outline(line))) = cutter.next() {
            lines.push(line);
        }
    }
    for line in &lines {
        let Ok(event) = WatchEvent::read(line) else { continue };
        if let Ok(object) = serde_json::from_slice::<Value>(event.object) {
            let whole: Value = serde_json::from_slice(line).expect("a line with a good object is good");
            assert_eq!(whole["object"], object);
        }
    }
}
