//! Events: core/v1's `Event`, field for field, as plain data.
//!
//! The code here does not depend on buses or stores.
//!
//! - `text` and `timestamp` define the basic types from which the others are built.
//! - `core_v1` defines the event itself.
//! - `parts` holds the values that the caller of a recorder supplies. `name` generates event names.
//!   `timed` converts an event to the form that events.k8s.io/v1 requires.
//! - `wire` and `wire_events_v1` define the two document formats of an event, and `json_writer` and
//!   `json` convert events to and from JSON text.
//! - `read` reads events from the output of other programs.
//! - `patch` defines the only change that is made to a stored event.
//! - `stored` holds the fields of a stored event that a recording needs.

mod core_v1;
mod json;
mod json_writer;
mod metadata;
pub(crate) mod name;
mod parts;
mod patch;
mod read;
mod reference;
mod stored;
mod text;
pub(crate) mod timed;
mod timestamp;
mod wire;
mod wire_events_v1;
mod wire_fields;

pub use core_v1::{Event, EventSeries, EventType};
pub use json::EventJsonError;
pub use metadata::ObjectMeta;
pub(crate) use parts::{DEFAULT_NAMESPACE, EventParts, complete};
pub(crate) use patch::changed_series;
pub use read::{EventReadError, EventReadErrorKind, EventReader, ReadEvent};
pub use reference::{EventSource, ObjectReference};
pub use stored::Stored;
pub use text::Text;
pub use timed::EventField;
pub use timestamp::Timestamp;
