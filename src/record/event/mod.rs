//! Defines core/v1's `Event` as plain data, with the same fields as in Kubernetes.
//!
//! The code in this module does not depend on buses or stores.
//!
//! - `text` and `timestamp` define the basic types on which the other event types are built.
//! - `core_v1` defines the event type itself. `display` formats an event as one line.
//! - `parts` holds the values that a recorder's caller supplies. `name` generates event names.
//!   `timed` converts an event to the form that events.k8s.io/v1 requires.
//! - `wire` and `wire_events_v1` define the two document formats for events. `json_writer` and
//!   `json` convert events to and from JSON text.
//! - `read` reads events from the output of other programs.
//! - `patch` defines the patch that updates a stored event. Stored events are not changed in any
//!   other way.
//! - `stored` holds the fields of a stored event that a recording needs.

mod core_v1;
mod display;
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
