//! A progress line on the terminal.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use super::terminal;
use super::text::cut;

/// The minimum time between two updates.
const PAUSE: Duration = Duration::from_millis(100);
/// The width in columns to use if the terminal does not report its width.
const WIDTH: usize = 80;

/// A progress line on stderr. The line is hidden unless stderr is a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    is_hidden: bool,
    shown: Cell<Option<Instant>>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { is_hidden: !io::stderr().is_terminal(), shown: Cell::new(None) }
    }

    /// Creates a progress line that is never shown.
    pub(crate) fn hidden() -> Self {
        Self { is_hidden: true, shown: Cell::new(None) }
    }

    pub(crate) fn is_hidden(&self) -> bool {
        self.is_hidden
    }

    /// Replaces the text, unless the previous text has been shown for less than `PAUSE`.
    pub(crate) fn show(&self, text: impl FnOnce() -> String) {
        let is_early = || self.shown.get().is_some_and(|shown| shown.elapsed() < PAUSE);
        if !self.is_hidden && !is_early() {
            self.shown.set(Some(Instant::now()));
            let width = terminal::width(io::stderr()).unwrap_or(WIDTH);
            write(&frame(&text(), width));
        }
    }

    /// Removes the progress line.
    pub(crate) fn clear(&self) {
        if self.shown.take().is_some() {
            write(&frame("", 1));
        }
    }
}

/// Removes the line from the terminal when the value is dropped, so that an early return does not
/// leave the line behind.
impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Returns the bytes that replace the line with the text. The text is truncated, because a line as
/// wide as the terminal would wrap onto the next line.
fn frame(text: &str, width: usize) -> String {
    let text = cut(text, width.saturating_sub(1));
    format!("\r{text}\u{1b}[K")
}

fn write(text: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

#[cfg(test)]
mod tests {
    use super::{Progress, frame};

    #[test]
    fn the_text_stays_on_its_line() {
        assert_eq!(frame("3 of 9", 80), "\r3 of 9\u{1b}[K");
        assert_eq!(frame("3 of 9", 6), "\r3 of \u{1b}[K");
        assert_eq!(frame("起動 9", 4), "\r起\u{1b}[K", "a wide character takes two columns");
        assert_eq!(frame("3 of 9", 0), "\r\u{1b}[K");
    }

    #[test]
    fn a_hidden_line_makes_no_text() {
        let progress = Progress::hidden();
        progress.show(|| panic!("nobody sees it"));
        assert!(progress.is_hidden());
    }
}
