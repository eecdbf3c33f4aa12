//! What every good command does: help, completions, clear complaints.

use crate::support::informant;
use crate::support::text;

#[test]
fn what_is_asked_wrongly_is_said_and_exits_with_2() {
    for (arguments, said) in [
        (&["demo", "--pods", "0"][..], "0 is not in 1..=100000"),
        (&["demo", "--duration", "soon"][..], "invalid value 'soon' for '--duration"),
        (&["demo", "--duration", "0s"][..], "it takes some time"),
        (&["demo", "--faults", "few"][..], "possible values: none, some, storm"),
        (&["dance"][..], "unrecognized subcommand 'dance'"),
    ] {
        let output = informant().args(arguments).output().unwrap();
        let complaints = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaints}");
        assert!(complaints.contains(said), "{complaints}");
        assert_eq!(text(&output.stdout), "");
    }
}

#[test]
fn help_has_examples() {
    let output = informant().args(["demo", "--help"]).output().unwrap();

    assert!(output.status.success());
    assert!(text(&output.stdout).contains("informant demo --faults storm"));
}

#[test]
fn completions_are_there_for_every_shell() {
    for (shell, says) in [("bash", "_informant()"), ("zsh", "#compdef informant"), ("fish", "complete -c informant")] {
        let output = informant().args(["completions", shell]).output().unwrap();

        assert!(output.status.success());
        assert!(text(&output.stdout).contains(says), "{shell}");
        assert!(text(&output.stdout).contains("faults"), "{shell}: options are completed, too");
    }
}
