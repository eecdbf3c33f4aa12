//! Stages that change the content of a response.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::faults::{
    CutEnding,
    wire::{Piece, Shape, Stage},
};

/// Adds a line after a number of lines.
pub(super) struct Insert {
    pub(super) after: usize,
    pub(super) line: Bytes,
    /// Ends the response after the line.
    pub(super) then: Option<CutEnding>,
}

impl Insert {
    fn insert(&mut self, out: &mut Vec<Piece>) {
        out.push(Piece::Data(self.line.clone()));
        out.extend(self.then.map(Piece::Stop));
    }
}

impl Stage for Insert {
    fn start(&mut self, out: &mut Vec<Piece>) {
        if self.after == 0 {
            self.insert(out);
        }
    }

    fn feed(&mut self, data: Bytes, out: &mut Vec<Piece>) {
        out.push(Piece::Data(data));
        if self.after > 0 {
            self.after -= 1;
            self.start(out);
        }
    }
}

/// Sends the error page of a proxy.
pub(super) struct Garbage {
    pub(super) shape: Shape,
}

const HTML: &str = "<html><body><h1>502 Bad Gateway</h1></body></html>\n";

impl Stage for Garbage {
    fn start(&mut self, out: &mut Vec<Piece>) {
        out.push(Piece::Data(Bytes::from_static(HTML.as_bytes())));
    }

    fn feed(&mut self, data: Bytes, out: &mut Vec<Piece>) {
        match self.shape {
            Shape::Lines => out.push(Piece::Data(data)),
            Shape::Document => {}
        }
    }
}

/// Changes objects.
pub(super) struct Rewrite {
    rewriter: Rewriter,
    shape: Shape,
    /// The document so far; it is decoded as a whole.
    held: Vec<u8>,
}

pub(super) enum Rewriter {
    WrongKind,
    BadItem { field: String, done: bool },
}

impl Rewrite {
    pub(super) fn new(rewriter: Rewriter, shape: Shape) -> Self {
        Self { rewriter, shape, held: Vec::new() }
    }
}

impl Stage for Rewrite {
    fn feed(&mut self, data: Bytes, out: &mut Vec<Piece>) {
        match self.shape {
            Shape::Lines => out.push(Piece::Data(self.rewriter.line(data))),
            Shape::Document => self.held.extend_from_slice(&data),
        }
    }

    fn finish(&mut self, out: &mut Vec<Piece>) {
        if self.shape == Shape::Document {
            out.push(Piece::Data(self.rewriter.document(std::mem::take(&mut self.held))));
        }
    }
}

impl Rewriter {
    fn line(&mut self, line: Bytes) -> Bytes {
        let Ok(mut event) = serde_json::from_slice::<Value>(&line) else { return line };
        // Bookmarks and errors are not changed.
        if !matches!(event["type"].as_str(), Some("ADDED" | "MODIFIED" | "DELETED")) {
            return line;
        }
        self.object(&mut event["object"]);
        format!("{event}\n").into()
    }

    fn document(&mut self, document: Vec<u8>) -> Bytes {
        let Ok(mut read) = serde_json::from_slice::<Value>(&document) else { return document.into() };
        match read.get_mut("items").and_then(Value::as_array_mut) {
            None => self.object(&mut read),
            Some(items) => {
                items.iter_mut().for_each(|item| self.object(item));
                if let Self::WrongKind = self {
                    read["kind"] = json!("WrongList");
                    read["apiVersion"] = json!("example.com/v1");
                }
            }
        }
        read.to_string().into()
    }

    fn object(&mut self, object: &mut Value) {
        match self {
            Self::WrongKind => {
                object["kind"] = json!("Wrong");
                object["apiVersion"] = json!("example.com/v1");
            }
            Self::BadItem { done: true, .. } => {}
            Self::BadItem { field, done } => {
                let mut place = object;
                for part in field.split('.') {
                    if !place.is_object() {
                        *place = json!({});
                    }
                    place = &mut place[part];
                }
                *place = Value::Bool(false);
                *done = true;
            }
        }
    }
}
