//! The event store, either in memory or in a file that outlives the program.
#![cfg_attr(
    not(feature = "sqlite-system"),
    allow(
        clippy::unnecessary_wraps,
        unused_variables,
        reason = "only a file can fail, and holds other runs"
    )
)]

use std::error::Error;
use std::path::Path;
use std::time::Duration;

#[cfg(feature = "sqlite-system")]
use eventcast::sink::EventQuery;
use eventcast::sink::MemorySinkOptions;
use eventcast::{Event, EventBroadcaster, MemorySink};
#[cfg(feature = "sqlite-system")]
use eventcast_sqlite::{SqliteSink, SqliteSinkOptions};

use crate::support::color::ColorArgs;
use crate::support::event_table::table_of;
use crate::support::store::expired_events;

/// The maximum number of events from earlier runs to show.
#[cfg(feature = "sqlite-system")]
const SHOWN: usize = 10;

pub(crate) enum Store {
    Memory(MemorySink),
    /// The file, and the number of the last write to the file when this run started.
    #[cfg(feature = "sqlite-system")]
    File(SqliteSink, u64),
}

impl Store {
    /// Opens the file, or creates an in-memory store if there is no path. The store keeps each
    /// event for `keep` after the event's last write.
    pub(crate) fn open(path: Option<&Path>, keep: Duration) -> Result<Self, Box<dyn Error>> {
        match path {
            None => Ok(Self::Memory(MemorySink::with_options(MemorySinkOptions::default().ttl(keep))?)),
            #[cfg(feature = "sqlite-system")]
            Some(path) => {
                let store = SqliteSink::with_options(path, SqliteSinkOptions::default().ttl(keep))?;
                let start = store.version()?;
                Ok(Self::File(store, start))
            }
            #[cfg(not(feature = "sqlite-system"))]
            Some(_) => Err(crate::support::feature::missing("--store", "sqlite").into()),
        }
    }

    /// Returns a table of the events from earlier runs. If all of these events have expired,
    /// returns a line with their number. Returns `None` if there were no such events.
    pub(crate) fn left(&self, color: ColorArgs) -> Result<Option<String>, Box<dyn Error>> {
        match self {
            Self::Memory(_) => Ok(None),
            #[cfg(feature = "sqlite-system")]
            Self::File(store, _) => {
                let count = store.len()?;
                if count == 0 {
                    let expired = store.stats()?.expired;
                    return Ok((expired > 0)
                        .then(|| format!("earlier runs left no events: {}\n", expired_events(expired))));
                }
                let last = if count > SHOWN { format!(", the last {SHOWN} of them") } else { String::new() };
                let events = if count == 1 { "event" } else { "events" };
                let table = table_of(&store.find(&EventQuery::default().last(SHOWN))?, color);
                Ok(Some(format!("earlier runs left {count} {events}{last}:\n{table}")))
            }
        }
    }

    /// Starts recording all events to this store.
    pub(crate) fn start(&self, events: &EventBroadcaster) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Memory(store) => events.record_to(store.clone())?,
            #[cfg(feature = "sqlite-system")]
            Self::File(store, _) => events.record_to(store.clone())?,
        };
        Ok(())
    }

    /// Returns the events of this run as a human-readable table.
    pub(crate) fn table(&self, run: &str, color: ColorArgs) -> Result<String, Box<dyn Error>> {
        let events = self.own(run)?;
        let expired = match self {
            Self::Memory(store) => store.stats().expired,
            #[cfg(feature = "sqlite-system")]
            Self::File(store, _) => store.stats()?.expired,
        };
        if events.is_empty() && expired > 0 {
            return Ok(format!("no events: {}\n", expired_events(expired)));
        }
        Ok(table_of(&events, color))
    }

    /// Returns the events of this run as a core/v1 `EventList`.
    pub(crate) fn json(&self, run: &str) -> Result<String, Box<dyn Error>> {
        let items: Vec<String> = self.own(run)?.iter().map(Event::to_json).collect();
        let items = items.join(",");
        Ok(format!(r#"{{"kind":"EventList","apiVersion":"v1","metadata":{{}},"items":[{items}]}}"#))
    }

    /// Returns only the events of this run. Another run may be writing to the same file at the same
    /// time.
    fn own(&self, run: &str) -> Result<Vec<Event>, Box<dyn Error>> {
        match self {
            Self::Memory(store) => Ok(store.events()),
            #[cfg(feature = "sqlite-system")]
            Self::File(store, start) => {
                let mut events = store.find(&EventQuery::default().after(*start))?;
                events.retain(|event| {
                    event.involved_object.uid.strip_prefix(run).is_some_and(|rest| rest.starts_with('-'))
                });
                Ok(events)
            }
        }
    }
}
