//! Where the events are kept: in memory, or in a file that outlives the program.
#![cfg_attr(
    not(feature = "sqlite-system"),
    allow(clippy::unnecessary_wraps, reason = "only a file can fail")
)]

use std::error::Error;
use std::path::Path;

use eventcast::{EventBroadcaster, MemorySink};
#[cfg(feature = "sqlite-system")]
use eventcast::{EventQuery, SqliteSink, Timestamp};

/// How many events of earlier runs are shown.
#[cfg(feature = "sqlite-system")]
const SHOWN: usize = 10;

pub(crate) enum Store {
    Memory(MemorySink),
    /// The file, and the second in which this run began: what was seen since is shown as its own.
    #[cfg(feature = "sqlite-system")]
    File(SqliteSink, Timestamp),
}

impl Store {
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Box<dyn Error>> {
        match path {
            None => Ok(Self::Memory(MemorySink::new())),
            #[cfg(feature = "sqlite-system")]
            Some(path) => {
                // Events carry whole seconds.
                let start = Timestamp::from(std::time::SystemTime::now()).whole_seconds();
                Ok(Self::File(SqliteSink::open(path)?, start))
            }
            #[cfg(not(feature = "sqlite-system"))]
            Some(_) => Err("this program was built without the feature `sqlite`".into()),
        }
    }

    /// What earlier runs have left, if they have.
    pub(crate) fn left(&self) -> Result<Option<String>, Box<dyn Error>> {
        match self {
            Self::Memory(_) => Ok(None),
            #[cfg(feature = "sqlite-system")]
            Self::File(store, _) => {
                let count = store.len()?;
                if count == 0 {
                    return Ok(None);
                }
                let last = if count > SHOWN { format!(", the last {SHOWN} of them") } else { String::new() };
                let events = if count == 1 { "event" } else { "events" };
                let table = store.table_of(&EventQuery::new().limit(SHOWN))?;
                Ok(Some(format!("earlier runs left {count} {events}{last}:\n{table}")))
            }
        }
    }

    /// Lets everything recorded be kept here.
    pub(crate) fn start(&self, events: &EventBroadcaster) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Memory(store) => events.start_recording_to_sink(store.clone())?,
            #[cfg(feature = "sqlite-system")]
            Self::File(store, _) => events.start_recording_to_sink(store.clone())?,
        };
        Ok(())
    }

    /// The events of this run, for people.
    pub(crate) fn table(&self) -> Result<String, Box<dyn Error>> {
        match self {
            Self::Memory(store) => Ok(store.table()),
            #[cfg(feature = "sqlite-system")]
            Self::File(store, start) => Ok(store.table_of(&EventQuery::new().since(*start))?),
        }
    }

    /// The events of this run, as a core/v1 `EventList`.
    pub(crate) fn json(&self) -> Result<String, Box<dyn Error>> {
        match self {
            Self::Memory(store) => Ok(store.to_list_json()),
            #[cfg(feature = "sqlite-system")]
            Self::File(store, start) => {
                let events = store.find(&EventQuery::new().since(*start))?;
                let items: Vec<String> = events.iter().map(eventcast::Event::to_json).collect();
                let items = items.join(",");
                Ok(format!(r#"{{"kind":"EventList","apiVersion":"v1","metadata":{{}},"items":[{items}]}}"#))
            }
        }
    }
}
