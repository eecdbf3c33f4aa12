//! Colours of texts on stdout. By default they are used only in a terminal, and only if `NO_COLOR` is not set.

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use clap::ValueEnum;

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// In a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Colours texts, or returns them unchanged if colours are off.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    is_on: bool,
}

impl Paint {
    /// Decides whether texts on stdout are coloured.
    pub fn new(color: Color) -> Self {
        let is_on = match color {
            Color::Auto => AutoStream::choice(&std::io::stdout()) != ColorChoice::Never,
            Color::Always => true,
            Color::Never => false,
        };
        Self { is_on }
    }

    pub fn green(self, text: &str) -> String {
        self.with(AnsiColor::Green.on_default(), text)
    }

    pub fn red(self, text: &str) -> String {
        self.with(AnsiColor::Red.on_default(), text)
    }

    pub fn yellow(self, text: &str) -> String {
        self.with(AnsiColor::Yellow.on_default(), text)
    }

    pub fn bold(self, text: &str) -> String {
        self.with(Style::new().bold(), text)
    }

    pub fn faint(self, text: &str) -> String {
        self.with(Style::new().dimmed(), text)
    }

    fn with(self, style: Style, text: &str) -> String {
        if self.is_on { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}
