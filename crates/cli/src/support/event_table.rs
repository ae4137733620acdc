//! The table of events, in the form that suits stdout.

use std::io;
use std::time::SystemTime;

#[cfg(unix)]
use eventcast::Event;
use eventcast::sink::EventTable;

use super::color::ColorArgs;
use super::terminal;

/// Returns a table for stdout, with ages as of now.
pub(crate) fn event_table(color: ColorArgs) -> EventTable {
    EventTable::new(SystemTime::now()).color(color.is_on(&io::stdout()))
}

/// Returns the width in columns if stdout is a terminal. Other outputs have no limit.
pub(crate) fn stdout_width() -> usize {
    terminal::width(io::stdout()).unwrap_or(usize::MAX)
}

/// Returns the table of these events. The table has the column for the namespace if it needs it.
#[cfg(unix)]
pub(crate) fn table_of(events: &[Event], color: ColorArgs) -> String {
    event_table(color).width(stdout_width()).rows(events)
}
