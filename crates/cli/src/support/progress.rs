//! A line on a terminal that shows how far a command is.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use super::terminal;
use super::text::cut;

/// The shortest time from one text to the next.
const PAUSE: Duration = Duration::from_millis(100);
/// The width if the terminal does not report its own, in columns.
const WIDTH: usize = 80;

/// The line, on stderr. It is hidden unless stderr is a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    is_hidden: bool,
    shown: Cell<Option<Instant>>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { is_hidden: !io::stderr().is_terminal(), shown: Cell::new(None) }
    }

    /// Returns a line that is never shown.
    pub(crate) fn hidden() -> Self {
        Self { is_hidden: true, shown: Cell::new(None) }
    }

    pub(crate) fn is_hidden(&self) -> bool {
        self.is_hidden
    }

    /// Shows the text instead of the previous one, which stays for `PAUSE` at least.
    pub(crate) fn show(&self, text: impl FnOnce() -> String) {
        let is_early = || self.shown.get().is_some_and(|shown| shown.elapsed() < PAUSE);
        if !self.is_hidden && !is_early() {
            self.shown.set(Some(Instant::now()));
            let width = terminal::width(io::stderr()).unwrap_or(WIDTH);
            write(&frame(&text(), width));
        }
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        if self.shown.take().is_some() {
            write(&frame("", 1));
        }
    }
}

/// An error does not leave half a line on the terminal.
impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Returns the bytes that replace the line by the text. The text is cut, because a line that is as
/// wide as the terminal would continue in the next one.
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
