//! Checks of the layout and of the numbers and links in comments and pages. Reads the files of the repository; runs nothing.

mod imports;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files below a folder with one of these extensions, with their texts.
fn files(folder: &Path, extensions: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            // Build output and hidden folders are not part of the project's text.
            if name != "target" && !name.starts_with('.') {
                found.extend(files(&path, extensions));
            }
        } else if extensions.iter().any(|extension| name.ends_with(&format!(".{extension}"))) {
            found.push((path.clone(), fs::read_to_string(path).unwrap()));
        }
    }
    found
}

fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    files(folder, &["rs"])
}

pub(crate) fn library() -> Vec<(PathBuf, String)> {
    let library = sources(&root().join("crates/informant/src"));
    assert!(library.len() > 20, "the library was found");
    library
}

/// All sources and pages of the repository, except for this file, whose comments contain examples.
fn sources_and_pages() -> Vec<(PathBuf, String)> {
    let mut texts = files(&root(), &["rs", "md"]);
    texts.retain(|(path, _)| !path.ends_with("tests/it/tidy.rs"));
    assert!(texts.len() > 100, "the repository was found");
    texts
}

fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

#[test]
fn every_source_file_opens_with_a_module_comment() {
    for (path, text) in ["crates", "conformance"].iter().flat_map(|folder| sources(&root().join(folder))) {
        assert!(text.starts_with("//! "), "{} does not open with `//!`", path.display());
    }
}

#[test]
fn no_stage_imports_another_stage() {
    let source = root().join("crates/informant/src");
    let root_names = imports::root_names(&page("crates/informant/src/lib.rs"));
    let in_file = |(path, text): (PathBuf, String)| {
        imports::forbidden(path.strip_prefix(&source).unwrap().to_str().unwrap(), &text, &root_names)
    };
    assert_eq!(library().into_iter().flat_map(in_file).collect::<Vec<_>>(), Vec::<String>::new());
}

/// Files of the folders below that are no step of the pipeline: what a step decides or stores, in a file of its own.
const NO_STEPS: [&str; 9] = [
    "informer/pipeline/stage_traits.rs",
    "listwatch/health/streaming.rs",
    "listwatch/rules/decoding_pace.rs",
    "listwatch/rules/delays.rs",
    "listwatch/rules/watchdog.rs",
    "listwatch/scripted/answers.rs",
    "store/buckets.rs",
    "store/table.rs",
    "store/write.rs",
];

#[test]
fn every_step_of_the_pipeline_states_its_inputs_its_outputs_and_what_it_knows_nothing_of() {
    let steps = ["listwatch", "queue", "store", "subscribers", "informer/pipeline", "informer/audit", "process_loop"];
    let source = root().join("crates/informant/src");
    for (path, text) in library() {
        let file = path.strip_prefix(&source).unwrap();
        let header = text.lines().map_while(|line| line.strip_prefix("//!")).collect::<Vec<_>>().join("\n");
        let places = ["In", "Out", "Knows nothing of"].map(|word| header.find(&format!("\n - **{word}:** ")));
        let is_complete = places.is_sorted() && places[0].is_some();
        let is_test = file.iter().any(|part| part == "model" || part == "model.rs" || part == "tests.rs");
        // Only the module that joins all stages knows all of them.
        let is_free = is_test || file.ends_with("error.rs") || file == Path::new("informer/mod.rs");
        if NO_STEPS.iter().any(|other| file == Path::new(other)) {
            assert!(!is_complete, "{} has a complete header: remove it from `NO_STEPS`", file.display());
        } else if !is_free && (steps.iter().any(|folder| file.starts_with(folder)) || places != [None; 3]) {
            assert!(is_complete, "{} needs the lines In, Out and Knows nothing of, in this order", file.display());
        }
    }
    for file in NO_STEPS {
        assert!(source.join(file).exists(), "{file} is gone: remove it from `NO_STEPS`");
    }
}

/// The words of a text: letters, digits and hyphens.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let separates = |character: char| !character.is_ascii_alphanumeric() && character != '-';
    text.split(separates).filter(|word| !word.is_empty())
}

/// All words like `P3` or `INV-Q1`, by their prefix.
fn numbers(text: &str, prefix: &str) -> BTreeSet<String> {
    let is_number =
        |word: &&str| word.strip_prefix(prefix).is_some_and(|rest| rest.ends_with(|last: char| last.is_ascii_digit()));
    words(text).filter(is_number).map(str::to_owned).collect()
}

/// The rest of each line that begins with `- **WORD**`, by the word.
fn definitions(text: &str) -> BTreeMap<&str, &str> {
    let mut found = BTreeMap::new();
    for (word, rest) in text.lines().filter_map(|line| line.strip_prefix("- **")?.split_once("** ")) {
        assert!(found.insert(word, rest).is_none(), "{word} is defined twice");
    }
    found
}

#[test]
fn the_page_of_invariants_lists_those_of_the_code_where_they_are() {
    let page = page("docs/invariants.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| INV-"));
    let listed: BTreeMap<_, _> = rows.map(|row| row.split_once(" | `").unwrap()).collect();

    let source = root().join("crates/informant/src");
    for (number, rest) in &listed {
        let (file, _) = rest.split_once('`').unwrap();
        let text = fs::read_to_string(source.join(file)).unwrap_or_default();
        assert!(numbers(&text, "INV-").contains(&format!("INV-{number}")), "INV-{number} is not in {file}");
    }

    let listed: BTreeSet<_> = listed.keys().map(|number| format!("INV-{number}")).collect();
    let in_code: BTreeSet<_> = library().iter().flat_map(|(_, text)| numbers(text, "INV-")).collect();
    assert_eq!(listed, in_code);
}

#[test]
fn the_promises_that_tests_name_are_those_of_the_architecture_page() {
    let page = page("ARCHITECTURE.md");
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
    assert_eq!(named, promises, "each promise is named by a test that checks it");
}

/// Splits `DF-04` into its prefix and its number.
fn behaviour(word: &str) -> Option<(&str, u32)> {
    let (prefix, number) = word.split_once('-')?;
    let is_behaviour =
        prefix.len() == 2 && prefix.chars().all(|letter| letter.is_ascii_uppercase()) && number.len() == 2;
    if is_behaviour { Some((prefix, number.parse().ok()?)) } else { None }
}

/// All numbers of client-go behaviours in a text; `IX-25 to IX-28` are four.
fn behaviours(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let words: Vec<_> = words(text).collect();
    for (position, (prefix, first)) in words.iter().enumerate().filter_map(|(at, word)| Some((at, behaviour(word)?))) {
        let last = match words[position + 1..] {
            ["to", last, ..] => behaviour(last).filter(|(other, _)| *other == prefix).map(|(_, last)| last),
            _ => None,
        };
        found.extend((first..=last.unwrap_or(first)).map(|number| format!("{prefix}-{number:02}")));
    }
    found
}

#[test]
fn every_behaviour_number_is_explained_and_every_explained_one_is_used() {
    let page = page("docs/behaviours.md");
    let defined: BTreeSet<_> = definitions(&page).keys().map(|&word| word.to_owned()).collect();

    let mut used = BTreeSet::new();
    for (path, text) in sources_and_pages() {
        let here = behaviours(&text);
        let unknown: Vec<_> = here.difference(&defined).collect();
        assert!(unknown.is_empty(), "{} uses {unknown:?}, which docs/behaviours.md does not explain", path.display());
        if !path.ends_with("docs/behaviours.md") {
            used.extend(here);
        }
    }

    assert_eq!(defined.difference(&used).collect::<Vec<_>>(), Vec::<&String>::new(), "explained but not used");
}

#[test]
fn behaviours_that_differ_or_are_absent_are_on_the_page_about_client_go() {
    let page = page("docs/behaviours.md");
    let marked =
        definitions(&page).into_iter().filter(|(_, line)| line.contains("][")).map(|(word, _)| word.to_owned());

    let on_client_go = behaviours(&self::page("docs/client-go.md"));

    let missing: Vec<_> = marked.filter(|word| !on_client_go.contains(word)).collect();
    assert_eq!(missing, Vec::<String>::new());
}

/// The numbers after the word "decision": `Decision 16 and 18` are two.
fn decisions(text: &str) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut follows = false;
    for word in words(text) {
        match word.parse() {
            Ok(number) if follows => {
                found.insert(number);
            }
            _ => follows = ["decision", "decisions"].contains(&&*word.to_lowercase()) || (follows && word == "and"),
        }
    }
    found
}

#[test]
fn every_decision_that_is_named_is_listed() {
    let list = page("docs/decisions/README.md");
    let listed: BTreeSet<u32> = definitions(&list).keys().map(|number| number.parse().unwrap()).collect();
    assert!(listed.iter().copied().eq(1..=listed.len() as u32), "decisions have the numbers from 1 on");

    let mut named = BTreeSet::new();
    for (path, text) in sources_and_pages() {
        let here = decisions(&text);
        let unknown: Vec<_> = here.difference(&listed).collect();
        assert!(unknown.is_empty(), "{} names decisions {unknown:?}, which are not listed", path.display());
        named.extend(here);
    }
    assert!(named.len() > 10, "decisions were found in the code");
}

#[test]
fn every_decision_note_is_linked_from_its_decision() {
    let list = page("docs/decisions/README.md");
    let listed = definitions(&list);
    for (path, text) in files(&root().join("docs/decisions"), &["md"]) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if name == "README.md" {
            continue;
        }
        let number = name.split('-').next().unwrap().trim_start_matches('0');
        assert!(text.starts_with(&format!("# {number}: ")), "the title of {name} begins with its number");
        let is_linked = listed.get(number).is_some_and(|line| line.contains(&format!("]({name})")));
        assert!(is_linked, "decision {number} does not link to {name}");
    }
}

/// A page without its fenced code.
fn without_code(page: &str) -> String {
    let mut is_code = false;
    let is_prose = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_fence && !is_code
    };
    page.lines().filter(is_prose).collect::<Vec<_>>().join("\n")
}

/// The targets of the links of a page: `[text](target)` and `[name]: target`.
fn links(page: &str) -> Vec<String> {
    let prose = without_code(page);
    let inline = prose.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    let defined =
        prose.lines().filter(|line| line.starts_with('[')).filter_map(|line| Some(line.split_once("]: ")?.1.trim()));
    inline.chain(defined).map(str::to_owned).collect()
}

/// The names by which the headings of a page can be linked to.
fn anchors(page: &str) -> BTreeSet<String> {
    let prose = without_code(page);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        let kept: String =
            kept.chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter)).collect();
        kept.replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn links_of_all_pages_into_the_repository_lead_to_existing_files_and_headings() {
    for (path, text) in files(&root(), &["md"]) {
        for link in links(&text) {
            let (file, anchor) = link.split_once('#').map_or((&*link, None), |(file, anchor)| (file, Some(anchor)));
            // Links to other servers, and to items of the crate, which rustdoc checks.
            if file.contains(':') {
                continue;
            }
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(target.exists(), "{} links to {link}, which does not exist", path.display());
            if let Some(anchor) = anchor {
                let headings = anchors(&fs::read_to_string(&target).unwrap());
                assert!(headings.contains(anchor), "{} links to {link}; there is no such heading", path.display());
            }
        }
    }
}

/// Words that hide who acts. They slip in easily and are hard to read, so the test allows a few only.
#[test]
fn texts_name_their_subjects() {
    let vague = [
        "nobody",
        "somebody",
        "anybody",
        "whoever",
        "everybody",
        "hear",
        "hears",
        "heard",
        "told",
        "tell",
        "tells",
        "says",
        "is said",
        "what comes",
        "what came",
        "let go",
        "lets go",
    ];
    let (mut lines, mut found) = (0, Vec::new());
    for (path, text) in files(&root(), &["rs", "md"]) {
        if path.ends_with("tests/it/tidy.rs") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            lines += 1;
            let words =
                line.to_lowercase().split(|c: char| !c.is_alphanumeric() && c != '_').collect::<Vec<_>>().join(" ");
            let padded = format!(" {words} ");
            if vague.iter().any(|word| padded.contains(&format!(" {word} "))) {
                found.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    assert!(lines > 10_000, "the pages and sources were found");
    assert!(found.len() * 1000 <= lines, "{} of {lines} lines: {found:#?}", found.len());
}
