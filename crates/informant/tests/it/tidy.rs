//! A few rules of the layout, checked as any other promise.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All source files below a folder, with their texts.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // What was built is not ours.
        if path.is_dir() && !path.ends_with("target") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push((path.clone(), fs::read_to_string(path).unwrap()));
        }
    }
    found
}

fn library() -> Vec<(PathBuf, String)> {
    let library = sources(&root().join("crates/informant/src"));
    assert!(library.len() > 20, "the library was found");
    library
}

#[test]
fn every_file_opens_with_what_it_is() {
    for (path, text) in sources(&root().join("crates")) {
        assert!(text.starts_with("//! "), "{} does not open with `//!`", path.display());
    }
}

#[test]
fn no_stage_imports_another_stage_and_the_vocabulary_none() {
    let stages = ["listwatch", "queue", "store", "subscribers", "workqueue", "informer", "view", "factory"];
    let source = root().join("crates/informant/src");
    for (path, text) in library() {
        let file = path.strip_prefix(&source).unwrap();
        let room = file.components().next().and_then(|part| part.as_os_str().to_str()).unwrap();
        // The assembly joins them, what stands on it may name them, and so does the crate's own page.
        if ["informer", "view", "factory", "kube_runtime", "lib.rs"].contains(&room) {
            continue;
        }
        for other in stages.into_iter().filter(|stage| *stage != room) {
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let import = format!("crate::{other}::");
            assert!(code.clone().all(|line| !line.contains(&import)), "{} says `{import}`", file.display());
        }
    }
}

/// All words like `P3` or `INV-Q1`.
fn numbers(text: &str, prefix: &str) -> BTreeSet<String> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '-');
    let is_number =
        |word: &&str| word.strip_prefix(prefix).is_some_and(|rest| rest.ends_with(|last: char| last.is_ascii_digit()));
    words.filter(is_number).map(str::to_owned).collect()
}

#[test]
fn the_invariants_of_the_code_are_those_of_the_architecture_page() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();

    let in_code = library().iter().flat_map(|(_, text)| numbers(text, "INV-")).collect::<BTreeSet<_>>();

    assert_eq!(numbers(&page, "INV-"), in_code);
}

#[test]
fn the_promises_that_tests_name_are_those_of_the_architecture_page() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let promises: BTreeSet<_> = (1..=10).map(|number| format!("P{number}")).collect();
    let on_page: BTreeSet<_> =
        numbers(&page, "P").into_iter().filter(|word| word[1..].parse::<u32>().is_ok()).collect();
    assert_eq!(on_page, promises);

    let mut named = BTreeSet::new();
    let is_promise = |word: &String| word.len() <= 3 && word[1..].parse::<u32>().is_ok();
    for (path, text) in sources(&root().join("crates/informant")) {
        let comments = text.lines().filter(|line| line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        for promise in numbers(&comments, "P").into_iter().filter(is_promise) {
            assert!(promises.contains(&promise), "{} names {promise}", path.display());
            named.insert(promise);
        }
    }
    assert_eq!(named, promises, "each promise is named by a test that keeps it");
}
