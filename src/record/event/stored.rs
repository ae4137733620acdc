//! The fields of a stored event that a recording needs.

use super::core_v1::Event;
use super::text::Text;
use super::timestamp::Timestamp;

/// The fields of a store's response that a correlator keeps.
///
/// A store that answers many operations together returns these fields instead of whole events. The
/// values of the fields are taken from the event as stored.
///
/// # Examples
///
/// ```
/// use eventcast::sink::Stored;
/// use eventcast::{Event, EventSink, MemorySink};
///
/// let mut event = Event::default();
/// event.metadata.name = "web-0.1".into();
/// event.count = 3;
/// let stored = Stored::from(&MemorySink::new().create(&event)?);
/// assert_eq!((stored.name.as_str(), stored.resource_version.as_str()), ("web-0.1", "1"));
/// assert_eq!((stored.count, stored.first_timestamp), (3, None));
/// # Ok::<(), eventcast::SinkError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stored {
    /// The event's name in the store.
    pub name: Text,
    /// The version assigned by the store, or an empty string if the store does not assign versions.
    pub resource_version: Text,
    /// The number of times the event was seen.
    pub count: i32,
    /// The time when the event was first seen.
    pub first_timestamp: Option<Timestamp>,
}

impl From<&Event> for Stored {
    fn from(event: &Event) -> Self {
        Self {
            name: event.metadata.name.clone(),
            resource_version: event.metadata.resource_version().clone(),
            count: event.count,
            first_timestamp: event.first_timestamp,
        }
    }
}

impl From<Event> for Stored {
    fn from(event: Event) -> Self {
        Self::from(&event)
    }
}
