//! Colours words that should stand out on a terminal.

use std::env;
use std::io::IsTerminal;

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    // This is not a doc comment, because a doc comment would make the help longer.
    #[default]
    Auto,
    Always,
    Never,
}

/// The `--color` option.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct ColorArgs {
    /// When to use colours for the type Warning and the reason Failed. With auto, colours are used
    /// on a terminal unless `NO_COLOR` is set or `TERM` is dumb
    #[arg(long = "color", value_name = "WHEN", value_enum, default_value_t)]
    when: When,
}

impl ColorArgs {
    /// Returns whether to use colours when writing to this stream.
    pub(crate) fn is_on(self, stream: &impl IsTerminal) -> bool {
        match self.when {
            When::Always => true,
            When::Never => false,
            When::Auto => stream.is_terminal() && allows_color(|name| env::var(name).ok()),
        }
    }
}

/// Returns whether the environment allows colours. Colours are not allowed if `NO_COLOR` is set and
/// not empty, or if `TERM` is `dumb`.
fn allows_color(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_refused = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    !is_refused && variable("TERM").as_deref() != Some("dumb")
}

/// Returns whether the environment allows colours on a terminal.
#[cfg(feature = "top")]
pub(crate) fn is_allowed() -> bool {
    allows_color(|name| env::var(name).ok())
}

/// Returns whether the terminal only prints text, and cannot move the cursor.
#[cfg(feature = "top")]
pub(crate) fn is_dumb() -> bool {
    env::var("TERM").as_deref() == Ok("dumb")
}

/// Returns an event's type in the colour of this type, or unchanged if the type has no colour.
pub(crate) fn paint_type(word: &str) -> String {
    paint(word, "Warning", AnsiColor::Yellow)
}

/// Returns an event's reason in the colour of this reason, or unchanged if the reason has no
/// colour.
pub(crate) fn paint_reason(word: &str) -> String {
    paint(word, "Failed", AnsiColor::Red)
}

/// Returns a log line with its type and its reason in their colours, if they have colours. The line
/// must begin with a time, a type and a reason, separated by two spaces.
pub(crate) fn paint_line(line: &str) -> String {
    let mut cells: Vec<String> = line.splitn(4, "  ").map(str::to_owned).collect();
    if let [_, type_, reason, ..] = &mut cells[..] {
        (*type_, *reason) = (paint_type(type_), paint_reason(reason));
    }
    cells.join("  ")
}

fn paint(word: &str, painted: &str, color: AnsiColor) -> String {
    // The word may be padded to the width of its column.
    if word.trim() != painted {
        return word.to_owned();
    }
    let style = Style::new().fg_color(Some(color.into()));
    word.replace(painted, &format!("{style}{painted}{style:#}"))
}

#[cfg(test)]
mod tests {
    use super::{allows_color, paint_line};

    #[test]
    fn the_environment_can_refuse_colors() {
        let allows = |set: &[(&str, &str)]| {
            let set: Vec<_> = set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            allows_color(|name| set.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone()))
        };
        assert!(allows(&[]) && allows(&[("TERM", "xterm")]) && allows(&[("NO_COLOR", "")]));
        assert!(!allows(&[("NO_COLOR", "1")]) && !allows(&[("NO_COLOR", "1"), ("TERM", "xterm")]));
        assert!(!allows(&[("TERM", "dumb")]));
    }

    #[test]
    fn a_line_of_the_log_keeps_its_text() {
        for (line, painted) in [
            ("T  Warning  BackOff  a/b  x  y", "T  \u{1b}[33mWarning\u{1b}[0m  BackOff  a/b  x  y"),
            (
                "T  Warning  Failed  a/b  Failed",
                "T  \u{1b}[33mWarning\u{1b}[0m  \u{1b}[31mFailed\u{1b}[0m  a/b  Failed",
            ),
            ("T  Normal   Failed  a/b  m", "T  Normal   \u{1b}[31mFailed\u{1b}[0m  a/b  m"),
            ("T  Normal   Created  a/b  Warning", "T  Normal   Created  a/b  Warning"),
            ("3 events were lost", "3 events were lost"),
        ] {
            assert_eq!(paint_line(line), painted);
        }
    }
}
