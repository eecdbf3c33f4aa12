//! What every good command does: help, completions, clear complaints.

use crate::support::ELSEWHERE;
use crate::support::informant;
use crate::support::text;

#[test]
fn what_is_asked_wrongly_is_said_and_exits_with_2() {
    for (arguments, said) in [
        (&["demo", "--pods", "0"][..], "0 is not in 1..=100000"),
        (&["demo", "--duration", "soon"][..], "invalid value 'soon' for '--duration"),
        (&["demo", "--duration", "0s"][..], "must be longer than 0s"),
        (&["demo", "--faults", "few"][..], "possible values: none, some, storm"),
        (&["dance"][..], "unrecognized subcommand 'dance'"),
        (&["watch"][..], "<RESOURCE>"),
        (&["watch", "pods,nodes"][..], "several kinds"),
        (&["watch", "pods/"][..], "as in pod/web"),
        (&["watch", "pod/web", "api"][..], "\"web\" and \"api\" are two names"),
        (&["watch", "pods", "--no-object"][..], "say -o json, too"),
        (&["watch", "pods", "--resync", "10ms"][..], "must be at least 1s"),
        (&["watch", "pods", "--exit-after", "0"][..], "0 is not in 1.."),
        (&["watch", "pods", "-n", "shop", "-A"][..], "cannot be used with"),
        (&["watch", "pods", "--server", "ftp://x"][..], "write it as http://127.0.0.1:8080"),
        (&["watch", "pods", "--server", "x:1", "--context", "y"][..], "cannot be used with"),
        (&["watch", "pods", "-o", "few"][..], "possible values: table, wide, json, yaml, name, diff"),
        (&["get", "pods", "-o", "jsonpath={.items}"][..], "tip: -o json has everything"),
        (&["get", "pods", "-w"][..], "tip: `informant watch` follows objects"),
        (&["get", "pods", "--as", "me"][..], "tip: who asks whom is said in the kubeconfig"),
        (&["get", "pods", "--sort-by=.metadata.name"][..], "tip: -o json has everything"),
        (&["get", "pods", "a", "b"][..], "tip: one object at a time"),
        (&["demo", "pods"][..], "unexpected argument 'pods' found\n\nUsage"),
        (&["get", "pods", "--sync-timeout", "soon"][..], "write it as in 200ms, 30s or 2m"),
        (&["apiserver", "--faults", "list=delay:soon"][..], "write it as in 200ms, 30s or 2m"),
        (&["apiserver", "--load", "pods=1,po=2"][..], "po is there twice"),
        (&["watch", "pods", "--metrics", "here"][..], "write a port"),
        (&["get", "pods", "--index", "color=red"][..], "there are label=KEY, field=PATH and namespace"),
        (&["get", "pods", "--value", "x"][..], "--index"),
        (&["apiserver", "--load", "pods"][..], "write it as in pods=1000"),
        (&["apiserver", "--faults", "few"][..], "is no rule"),
        (&["apiserver", "--listen", "nowhere"][..], "write a port"),
        (&["apiserver", "--listen", "0.0.0.0:0"][..], "loopback addresses alone"),
        (&["apiserver", "--load", "podz=5"][..], "--load: there is no kind \"podz\""),
        (&["apiserver", "--faults", "podz/list=503"][..], "--faults: there is no kind \"podz\""),
        (&["get", "pods", ""][..], "a value is required"),
        (&["get", "pods", "-n", ""][..], "a value is required"),
        (&["get", "pods", "-n", "a/b", "--server", "127.0.0.1:1"][..], "is not a valid name of a namespace"),
        (&["get", "pods", "--server", "http://me:secret@x"][..], "credentials in a URL are not sent"),
        (&["get", "pods", "--server", "127.0.0.1:99999"][..], "write it as http://127.0.0.1:8080"),
    ] {
        let output = informant().args(arguments).output().unwrap();
        let complaints = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaints}");
        assert!(complaints.contains(said), "{complaints}");
        assert!(complaints.matches("tip:").count() <= 1, "{complaints}");
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

/// Nobody may be there to hear a complaint, or to read a result.
#[test]
fn whoever_does_not_listen_is_no_failure() {
    let shell = |script: &str| {
        let script = script.replace("informant", env!("CARGO_BIN_EXE_informant"));
        let mut command = std::process::Command::new("bash");
        for name in ELSEWHERE {
            command.env_remove(name);
        }
        command.args(["-c", &script]).env("HOME", crate::support::nowhere());
        command.output().unwrap().status.code()
    };

    assert_eq!(shell("informant completions bash | head -1 >/dev/null; exit ${PIPESTATUS[0]}"), Some(0));
    assert_eq!(shell("informant completions bash >/dev/full 2>/dev/full"), Some(1));
    assert_eq!(shell("informant get pods 2>&-"), Some(1));
    assert_eq!(shell("informant get pods 2>&1 | true; exit ${PIPESTATUS[0]}"), Some(1));
}

#[test]
fn completions_are_there_for_every_shell() {
    for (shell, says) in [
        ("bash", "_informant()"),
        ("zsh", "#compdef informant"),
        ("fish", "complete -c informant"),
        ("elvish", "edit:completion:arg-completer[informant]"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let output = informant().args(["completions", shell]).output().unwrap();

        assert!(output.status.success());
        assert!(text(&output.stdout).contains(says), "{shell}");
        assert!(text(&output.stdout).contains("faults"), "{shell}: options are completed, too");
    }
}
