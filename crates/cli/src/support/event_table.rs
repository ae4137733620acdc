//! The table of events, in the form that suits stdout.

use std::io;
use std::time::SystemTime;

#[cfg(unix)]
use eventcast::Event;
use eventcast::Timestamp;
use eventcast::sink::EventTable;

use super::color::ColorArgs;
use super::terminal;

/// Returns a table for stdout, with ages as of now.
pub(crate) fn event_table(color: ColorArgs) -> EventTable {
    EventTable::new(Timestamp::from(SystemTime::now())).color(color.is_on(&io::stdout()))
}

/// Returns the width of the terminal that stdout is, in columns. Nothing else has a limit.
pub(crate) fn stdout_width() -> usize {
    terminal::width(io::stdout()).unwrap_or(usize::MAX)
}

/// Returns the table of these events. The table has the column for the namespace if it needs it.
#[cfg(unix)]
pub(crate) fn table_of(events: &[Event], color: ColorArgs) -> String {
    let is_several =
        events.windows(2).any(|events| events[0].metadata.namespace != events[1].metadata.namespace);
    event_table(color).width(stdout_width()).namespaces(is_several).rows(events)
}
