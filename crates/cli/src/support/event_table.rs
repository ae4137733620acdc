//! The event table, formatted for stdout.

use std::io;
use std::time::SystemTime;

#[cfg(unix)]
use eventcast::Event;
use eventcast::sink::EventTable;

use super::color::ColorArgs;
use super::terminal;

/// Returns a table for stdout, in which ages are relative to the current time.
pub(crate) fn event_table(color: ColorArgs) -> EventTable {
    EventTable::new(SystemTime::now()).color(color.is_on(&io::stdout()))
}

/// Returns the width of stdout in columns. The width is unlimited if stdout is not a terminal.
pub(crate) fn stdout_width() -> usize {
    terminal::width(io::stdout()).unwrap_or(usize::MAX)
}

/// Formats these events as a table, which includes the namespace column only if it is needed.
#[cfg(unix)]
pub(crate) fn table_of(events: &[Event], color: ColorArgs) -> String {
    event_table(color).width(stdout_width()).rows(events)
}
