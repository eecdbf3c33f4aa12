//! `informant::Error`: every error type of the library converts into it.

use std::{error::Error as StdError, fmt::Debug, path::Path};

use informant::{
    Error,
    error::{
        DecodeError, IndexError, ListWatchError, NotFound, ParseError, RequestError, SourceError, StopError, SyncError,
        WaitError,
    },
    pipeline::{Closed, FrameError, ProcessError},
};

use crate::tidy::library;

/// Lists types that convert into [`Error`] by `?` and that an error type of the user can hold; returns their names.
macro_rules! names_of {
    ($($type:ident,)+) => {{
        fn converts<E: Into<Error> + StdError + Debug + Send + Sync + 'static>() {}
        $(converts::<$type>();)+
        [$(stringify!($type),)+]
    }};
}

#[test]
fn every_error_type_of_the_library_converts_into_its_error() {
    // The texts of these are parts of those of `DecodeError`; no call returns them.
    let parts = ["SyntaxProblem"];
    let names = names_of![
        Closed,
        DecodeError,
        Error,
        FrameError,
        IndexError,
        ListWatchError,
        NotFound,
        ParseError,
        ProcessError,
        RequestError,
        SourceError,
        StopError,
        SyncError,
        WaitError,
    ];

    let declared = library().into_iter().flat_map(|(path, text)| error_types(&path, &text));
    for name in declared.filter(|name| !parts.contains(&name.as_str())) {
        assert!(names.contains(&name.as_str()), "{name} does not convert into `informant::Error`");
    }
}

/// The public error types that a file declares.
fn error_types(path: &Path, text: &str) -> Vec<String> {
    let derives = text.match_indices("thiserror::Error)]\n").map(|(position, _)| &text[position..]);
    let declarations = derives.map(|rest| {
        let line = rest.lines().find(|line| line.contains("enum ") || line.contains("struct "));
        line.unwrap_or_else(|| panic!("{} derives an error for no type", path.display())).to_owned()
    });
    let public = declarations.filter_map(|line| line.strip_prefix("pub ").map(str::to_owned));
    let name = |line: String| line.split(|character: char| !character.is_alphanumeric()).nth(1).map(str::to_owned);
    public.filter_map(name).collect()
}

/// A failing `unwrap` shows which variant to match.
#[test]
fn the_debug_text_of_an_error_names_its_variant() {
    let error = SourceError::expired();

    let debug = format!("{error:?}");
    assert!(debug.starts_with("Status { status: Status { "), "{debug}");
    assert_eq!(format!("{:?}", SourceError::other(error)).split_once(' ').unwrap().0, "Other");
}
