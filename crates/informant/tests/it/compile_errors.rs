//! What the compiler says about types and calls that do not fit.
//!
//! `compile_fail` doctests cannot check it: a stable compiler ignores their error codes.

use std::{env, fs, path::PathBuf, process::Command};

const PROGRAM: &str = r#"
    use informant::{Cached, SharedInformer, SharedInformerFactory, kube::core::{ApiResource, DynamicObject}};

    struct Mine;

    fn requests(factory: SharedInformerFactory, resource: ApiResource) {
        factory.informer::<Mine>();
        factory.informer::<DynamicObject>();
        factory.request_dynamic::<Mine>(&resource);
    }

    fn callbacks(things: SharedInformer<Mine>) {
        things.subscribe().on_synced(|| ()).stream();
    }

    fn index(things: SharedInformer<DynamicObject>) {
        things.add_index("by resource", |thing: &Cached<DynamicObject>| thing.key().name());
    }

    fn main() {}
"#;

/// What the compiler writes about the program, which uses the newest library beside this test.
fn messages() -> String {
    let folder = env::current_exe().unwrap().parent().unwrap().to_owned();
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("libinformant-") && name.ends_with(".rlib")
    };
    let libraries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).filter(is_library);
    let library = libraries.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).unwrap();
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("compile_errors.rs");
    fs::write(&program, PROGRAM).unwrap();
    let mut compiler = Command::new("rustc");
    compiler
        .args(["--edition=2024", "--emit=metadata", "--out-dir", env!("CARGO_TARGET_TMPDIR")])
        .arg(format!("-Ldependency={}", folder.display()))
        .arg(format!("--extern=informant={}", library.display()))
        .arg(&program);
    String::from_utf8(compiler.output().unwrap().stderr).unwrap()
}

#[test]
fn the_compiler_names_what_to_use_instead_of_a_type_or_call_that_does_not_fit() {
    let messages = messages();

    let expected = [
        "the kind of `Mine` is not known at compile time",
        "the kind of `DynamicObject` is not known at compile time",
        "`informant::projection!(YourStruct of Pod);`",
        "call `dynamic`, `request_dynamic` or `discover` of the factory",
        "`Mine` is not an object type",
        "wrap a function that returns strings borrowed from the object in `index::text` or `index::texts`",
        "no method named `stream` found for struct `Subscribe<'_, Mine, informant::Key, HasCallbacks>`",
    ];
    for text in expected {
        assert!(messages.contains(text), "no {text:?} in:\n{messages}");
    }
    assert!(messages.contains("due to 5 previous errors") && !messages.contains("APIService"), "{messages}");
}
