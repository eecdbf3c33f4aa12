//! Which modules of the library import which others: read from every path in the code, nested and relative ones included.

use std::collections::BTreeMap;

/// The types and helpers that every module may import. They import nothing but each other.
const SHARED: [&str; 10] =
    ["delta", "event", "key", "known", "metrics", "object", "panics", "random", "slots", "version"];

/// What the other modules may import besides [`SHARED`]: a stage nothing, a module that joins stages only what is listed.
const MAY_IMPORT: [(&str, &[&str]); 11] = [
    ("listwatch", &[]),
    ("queue", &[]),
    ("store", &[]),
    ("index", &["store"]),
    ("subscribers", &[]),
    ("process_loop", &["listwatch", "queue"]),
    ("informer", &["listwatch", "queue", "store", "subscribers"]),
    ("view", &["listwatch", "store", "subscribers", "informer"]),
    ("factory", &["listwatch", "store", "subscribers", "informer", "view"]),
    ("derived", &["informer", "subscribers", "view"]),
    ("kube_runtime", &["informer", "subscribers", "view"]),
];

/// Modules that name parts of all others: the root, the errors, and pages and lists of names.
const NAMES_ALL: [&str; 6] = ["", "error", "guide", "pipeline", "prelude", "testing"];

/// The words and signs of a source text, without comments and without the content of literals.
fn tokens(mut text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    while let Some(first) = text.chars().next() {
        let word = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
        let length = if text.starts_with("//") {
            text.find('\n').unwrap_or(text.len())
        } else if text.starts_with("/*") {
            text.find("*/").unwrap() + 2
        } else if let Some(length) = literal(text) {
            length
        } else {
            let length = if text.starts_with("::") { 2 } else { word.max(first.len_utf8()) };
            if !first.is_whitespace() {
                found.push(&text[..length]);
            }
            length
        };
        text = &text[length..];
    }
    found
}

/// The length of the string or character with which a text begins.
fn literal(text: &str) -> Option<usize> {
    if let Some(raw) = text.strip_prefix("br").or(text.strip_prefix('r')) {
        let hashes = &raw[..raw.len() - raw.trim_start_matches('#').len()];
        if let Some(content) = raw[hashes.len()..].strip_prefix('"') {
            let end = format!("\"{hashes}");
            return Some(text.len() - content.len() + content.find(&end).unwrap() + end.len());
        }
    }
    let mut letters = text.char_indices().skip(1);
    match text.chars().next()? {
        '"' => loop {
            match letters.next().unwrap() {
                (_, '\\') => {
                    letters.next();
                }
                (at, '"') => return Some(at + 1),
                _ => {}
            }
        },
        '\'' if text.starts_with("'\\") => Some(3 + text[3..].find('\'').unwrap() + 1),
        // Otherwise it is a lifetime.
        '\'' => letters.nth(1).filter(|(_, letter)| *letter == '\'').map(|(at, _)| at + 1),
        _ => None,
    }
}

/// Reads paths, such as `crate::a::{b, self, super::c::*}`, from the tokens of a file.
struct Paths<'t> {
    tokens: &'t [&'t str],
    found: Vec<Vec<&'t str>>,
}

impl<'t> Paths<'t> {
    /// All paths in imports and code, each from the root of the crate. A path that begins in another crate seems to begin in `module`.
    fn of(tokens: &'t [&'t str], module: &[&'t str]) -> Vec<Vec<&'t str>> {
        let mut paths = Self { tokens, found: Vec::new() };
        let mut module = module.to_vec();
        // For each open brace, the depth of the module around it.
        let mut braces = Vec::new();
        while let [first, rest @ ..] = paths.tokens {
            match (*first, rest) {
                ("use", _) => {
                    paths.tokens = rest;
                    paths.tree(module.clone());
                    continue;
                }
                ("crate" | "self" | "super", ["::", ..]) => {
                    paths.tree(module.clone());
                    continue;
                }
                ("mod", [name, "{", ..]) => {
                    braces.push(module.len());
                    module.push(name);
                    paths.tokens = &rest[2..];
                    continue;
                }
                ("{", _) => braces.push(module.len()),
                ("}", _) => module.truncate(braces.pop().unwrap()),
                _ => {}
            }
            paths.tokens = rest;
        }
        paths.found
    }

    fn tree(&mut self, mut path: Vec<&'t str>) {
        while let [first, rest @ ..] = self.tokens {
            match *first {
                "crate" => path.clear(),
                "super" => {
                    path.pop();
                }
                "self" | "::" => {}
                "{" => {
                    self.tokens = rest;
                    while self.tokens[0] != "}" {
                        self.tree(path.clone());
                        self.tokens = match self.tokens {
                            ["as", _, ",", rest @ ..] | ["as", _, rest @ ..] | [",", rest @ ..] => rest,
                            rest => rest,
                        };
                    }
                    self.tokens = &self.tokens[1..];
                    return;
                }
                name if name == "*" || name.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_') => {
                    path.push(name);
                }
                _ => break,
            }
            self.tokens = rest;
            // A path goes on after `::` only.
            if *first != "::" && rest.first() != Some(&"::") {
                break;
            }
        }
        self.found.push(path);
    }
}

/// The module of a file: `store`, `table` for `store/table.rs`.
fn module_of(file: &str) -> Vec<&str> {
    file.trim_end_matches(".rs").split('/').filter(|part| !["lib", "mod"].contains(part)).collect()
}

/// The module of each name that the root re-exports; names of other crates have none.
pub(super) fn root_names(lib: &str) -> BTreeMap<String, String> {
    let paths = tokens(lib);
    let paths = Paths::of(&paths, &[]);
    let own = paths.iter().filter(|path| path.len() > 1);
    own.map(|path| (path[path.len() - 1].to_owned(), path[0].to_owned())).collect()
}

/// The imports of a file that break the rules, as lines of text.
pub(super) fn forbidden(file: &str, text: &str, root_names: &BTreeMap<String, String>) -> Vec<String> {
    let module = module_of(file);
    let own = module.first().copied().unwrap_or_default();
    if NAMES_ALL.contains(&own) {
        return Vec::new();
    }
    let allowed = match MAY_IMPORT.iter().find(|(name, _)| *name == own) {
        Some((_, allowed)) => *allowed,
        None if SHARED.contains(&own) => &[],
        None => return vec![format!("{file}: `MAY_IMPORT` does not list what `{own}` may import")],
    };
    let is_forbidden = |path: &Vec<&str>| {
        let first = root_names.get(path[0]).map_or(path[0], |module| module);
        // The error types are shared, except the one over all of them.
        let is_error = first == "error" && !path.iter().any(|name| ["Error", "Result", "*"].contains(name));
        let is_shared = SHARED.contains(&first) || first == "kube" || is_error;
        first != own && !is_shared && !allowed.contains(&first)
    };
    let tokens = tokens(text);
    let paths = Paths::of(&tokens, &module).into_iter().filter(is_forbidden);
    paths.map(|path| format!("{file} imports crate::{}", path.join("::"))).collect()
}

#[test]
fn a_forbidden_import_is_found_in_every_form() {
    let names =
        root_names("pub mod queue;\npub use key::Key;\npub use { error::Error, queue::DeltaFifo };\npub use kube;");
    let found = |text: &str| forbidden("store/table.rs", text, &names);
    let planted = [
        "use crate::queue;",
        "use crate::queue::{Batch};",
        "use crate::{Key, object::{Cached, Uid}, queue::{Batch as B}, delta::Delta};",
        "use crate::{object::Cached as C, queue as q};",
        "use super::super::queue::Batch;",
        "use super::{index::Index, super::{Key, queue::Batch}};",
        "use self::super::super::queue;",
        "mod tests { mod deep { use super::super::super::super::queue::Batch; } }",
        "mod tests { fn brace() -> char { '{' } } use super::super::queue;",
        "use crate::DeltaFifo;",
        "use crate::Error;",
        "use crate::*;",
        "fn f(a: &'static str) -> crate::queue::Batch<crate::Key> { g('\\'', \"\\\"\", r#\"\"\"#) }",
        "macro_rules! m { () => { $crate::queue::Batch::new() } }",
        "const A: &str = \"\"; use crate::listwatch::*;",
    ];
    for text in planted {
        assert_eq!(found(text).len(), 1, "{text}");
    }

    let fine = [
        "use std::{queue::Batch, sync::Arc};",
        "use crate::{Key, kube::Api, error::OneLine, object::{self, Cached}};",
        "use super::{index::Index, super::{delta::*, Key}};",
        "mod queue { use super::super::queue; } mod tests { use super::*; }",
        "// use crate::queue;\n/* crate::queue */ const A: &str = \"crate::queue\";",
        "const A: &str = r##\"crate::queue\"# crate::queue\"##;",
        "impl<'a> A<'a> { pub(crate) fn f(self) { self.queue.g() } }",
    ];
    for text in fine {
        assert_eq!(found(text), Vec::<String>::new());
    }

    let joins = "use crate::{listwatch::A, queue::B, store::C, subscribers::D};";
    assert_eq!(forbidden("informer/handle/any.rs", joins, &names), Vec::<String>::new());
    assert_eq!(forbidden("informer/any.rs", "use crate::{view::A, factory::B};", &names).len(), 2);
    assert_eq!(forbidden("delta.rs", joins, &names).len(), 4);
    assert_eq!(forbidden("unheard/of.rs", "", &names).len(), 1);
}
