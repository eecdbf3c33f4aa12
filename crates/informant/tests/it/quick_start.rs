//! Builds and runs the quick start of the README in a new project.

use std::{fs, path::Path, process::Command};

/// The first code block of a language in the README.
fn block(readme: &str, language: &str) -> String {
    let begin = format!("```{language}\n");
    let start = readme.find(&begin).unwrap_or_else(|| panic!("the README has no {language} block")) + begin.len();
    let end = start + readme[start..].find("```").unwrap();
    readme[start..end].to_owned()
}

/// The project has the dependencies of the README; the crates of this repository are patched to their paths.
#[test]
fn the_quick_start_of_the_readme_is_twenty_lines_that_compile_and_run_in_a_new_project() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let (dependencies, program) = (block(&readme, "toml"), block(&readme, "rust"));
    assert_eq!(program.lines().count(), 20);
    // The project stays in the target folder, so that the next run reuses its build.
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
    // The lock file of this repository names crates that are downloaded already.
    fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock")).unwrap();

    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--manifest-path"])
        .arg(project.join("Cargo.toml"))
        .env("CARGO_TARGET_DIR", project.join("target"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .output()
        .unwrap();

    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert_eq!(stdout, "+ n1 (InitialList)\n1 nodes in zone a\n", "{stderr}");
    assert_eq!(stderr, "", "the build and the program print no warnings");
}
