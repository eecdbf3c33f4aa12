//! Arguments: errors and tips for invalid ones, help and completions.

use crate::support::{CLEARED_VARIABLES, informant, text};

#[test]
fn invalid_arguments_are_reported_with_exit_code_2() {
    for (arguments, message) in [
        (&["demo", "--pods", "0"][..], "0 is not in 1..=100000"),
        (&["demo", "--duration", "soon"][..], "invalid value 'soon' for '--duration"),
        (&["demo", "--duration", "0s"][..], "must be longer than 0s"),
        (&["demo", "--faults", "few"][..], "possible values: none, some, storm"),
        (&["dance"][..], "unrecognized subcommand 'dance'"),
        (&["watch"][..], "<RESOURCE>"),
        (&["watch", "pods,nodes"][..], "several kinds"),
        (&["watch", "pods/"][..], "such as pod/web"),
        (&["watch", "pod/web", "api"][..], "two names, \"web\" and \"api\""),
        (&["watch", "pods", "--no-object"][..], "--no-object requires -o json"),
        (&["watch", "pods", "--resync", "10ms"][..], "must be at least 1s"),
        (&["watch", "pods", "--exit-after", "0"][..], "0 is not in 1.."),
        (&["watch", "pods", "-n", "shop", "-A"][..], "cannot be used with"),
        (&["watch", "pods", "--server", "ftp://x"][..], "expected a URL such as http://127.0.0.1:8080"),
        (&["watch", "pods", "--server", "x:1", "--context", "y"][..], "cannot be used with"),
        (&["watch", "pods", "-o", "few"][..], "possible values: table, wide, json, yaml, name, diff"),
        (&["get", "pods", "-o", "jsonpath={.items}"][..], "tip: -o json prints whole objects"),
        (&["get", "pods", "-w"][..], "tip: use `informant watch` to follow changes"),
        (&["get", "pods", "--as", "me"][..], "tip: clusters and users are configured in the kubeconfig"),
        (&["get", "pods", "--sort-by=.metadata.name"][..], "tip: -o json prints whole objects"),
        (&["get", "pods", "a", "b"][..], "tip: only one name is accepted"),
        (&["demo", "pods"][..], "unexpected argument 'pods' found\n\nUsage"),
        (&["get", "pods", "--sync-timeout", "soon"][..], "expected a duration such as 200ms, 30s or 2m"),
        (&["apiserver", "--faults", "list=delay:soon"][..], "expected a duration such as 200ms, 30s or 2m"),
        (&["apiserver", "--load", "pods=1,po=2"][..], "po is given twice"),
        (&["watch", "pods", "--metrics", "here"][..], "expected a port"),
        (&["get", "pods", "--index", "color=red"][..], "expected label=KEY, field=PATH or namespace"),
        (&["get", "pods", "--value", "x"][..], "--index"),
        (&["apiserver", "--load", "pods"][..], "such as pods=1000"),
        (&["apiserver", "--faults", "few"][..], "is not a fault level or rule"),
        (&["apiserver", "--listen", "nowhere"][..], "expected a port"),
        (&["apiserver", "--listen", "0.0.0.0:0"][..], "loopback addresses only"),
        (
            &["apiserver", "--load", "podz=5"][..],
            "--load: the server has no kind named \"podz\"; did you mean \"pods\"?",
        ),
        (&["apiserver", "--faults", "podz/list=503"][..], "--faults: the server has no kind named \"podz\"; did you"),
        (&["apiserver", "--faults", "deploymets.apps/list=503"][..], "did you mean \"deployments.apps\"?"),
        (&["get", "pods", ""][..], "a value is required"),
        (&["get", "pods", "-n", ""][..], "a value is required"),
        (&["get", "pods", "-n", "a/b", "--server", "127.0.0.1:1"][..], "is not a valid name of a namespace"),
        (&["get", "pods", "--server", "http://me:secret@x"][..], "credentials in the URL would not be sent"),
        (&["get", "pods", "--server", "127.0.0.1:99999"][..], "expected a URL such as http://127.0.0.1:8080"),
    ] {
        let output = informant().args(arguments).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(message), "{stderr}");
        assert!(stderr.matches("tip:").count() <= 1, "{stderr}");
        assert_eq!(text(&output.stdout), "");
    }
}

#[test]
fn help_has_examples_and_fits_a_terminal() {
    for command in ["demo", "watch", "get", "apiserver"] {
        let output = informant().args([command, "--help"]).env("COLUMNS", "80").output().unwrap();

        let help = text(&output.stdout);
        assert!(output.status.success() && help.contains(&format!("Examples:\n  informant {command}")), "{help}");
        let examples = help.split("Examples:").nth(1).unwrap();
        assert!(examples.lines().all(|line| line.chars().count() < 80), "{examples}");
    }
}

#[test]
fn a_closed_stdout_or_stderr_does_not_change_the_exit_code() {
    let shell = |script: &str| {
        let script = script.replace("informant", env!("CARGO_BIN_EXE_informant"));
        let mut command = std::process::Command::new("bash");
        for name in CLEARED_VARIABLES {
            command.env_remove(name);
        }
        command.args(["-c", &script]).env("HOME", crate::support::missing_folder());
        command.output().unwrap().status.code()
    };

    assert_eq!(shell("informant completions bash | head -1 >/dev/null; exit ${PIPESTATUS[0]}"), Some(0));
    assert_eq!(shell("informant completions bash >/dev/full 2>/dev/full"), Some(1));
    assert_eq!(shell("informant get pods 2>&-"), Some(1));
    assert_eq!(shell("informant get pods 2>&1 | true; exit ${PIPESTATUS[0]}"), Some(1));
}

#[test]
fn completions_exist_for_every_shell() {
    for (shell, expected) in [
        ("bash", "_informant()"),
        ("zsh", "#compdef informant"),
        ("fish", "complete -c informant"),
        ("elvish", "edit:completion:arg-completer[informant]"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let output = informant().args(["completions", shell]).output().unwrap();

        assert!(output.status.success());
        assert!(text(&output.stdout).contains(expected), "{shell}");
        assert!(text(&output.stdout).contains("faults"), "{shell}: options are completed");
    }
}
