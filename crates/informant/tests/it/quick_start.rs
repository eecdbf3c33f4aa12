//! The quick start of the README, copied into a project of its own, works.

use std::{fs, path::Path, process::Command};

/// The text of the README's first block of a language.
fn block(readme: &str, language: &str) -> String {
    let begin = format!("```{language}\n");
    let start = readme.find(&begin).unwrap_or_else(|| panic!("a block of {language}")) + begin.len();
    let end = start + readme[start..].find("```").unwrap();
    readme[start..end].to_owned()
}

/// As somebody would do it who reads the README: with its dependencies, of which ours are taken from here.
#[test]
fn the_readmes_quick_start_is_twenty_lines_that_compile_and_run_in_a_new_project() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let (dependencies, program) = (block(&readme, "toml"), block(&readme, "rust"));
    assert_eq!(program.lines().count(), 20);
    // Beside the other things that are built, and kept, so that the next time is quick.
    let project = Path::new(env!("CARGO_TARGET_TMPDIR")).join("quick-start");
    fs::create_dir_all(project.join("src")).unwrap();
    let ours = ["informant", "informant-apiserver"];
    let here = ours.map(|name| format!("{name} = {{ path = {:?} }}\n", root.join("crates").join(name)));
    let manifest = format!(
        "[package]\nname = \"quick-start\"\nedition = \"2024\"\n[workspace]\n{dependencies}\n[patch.crates-io]\n{}",
        here.concat()
    );
    fs::write(project.join("Cargo.toml"), manifest).unwrap();
    fs::write(project.join("src/main.rs"), program).unwrap();
    // What is locked here is there already, and is known to work.
    fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock")).unwrap();

    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--manifest-path"])
        .arg(project.join("Cargo.toml"))
        .env("CARGO_TARGET_DIR", project.join("target"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .output()
        .unwrap();

    let (said, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{complaints}");
    assert_eq!(said, "+ n1 (InitialList)\n1 nodes in zone a\n", "{complaints}");
    assert_eq!(complaints, "", "no warnings");
}
