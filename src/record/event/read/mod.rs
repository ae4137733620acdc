//! Events from outside, in the forms in which people have them.
//!
//! - `item` is an event that was read, and `error` what cannot be read.
//! - `scan` splits a stream of JSON into documents within `limits`. `nesting` follows the brackets.
//! - `document` finds the events in a document. `halves` repairs what Go lets pass.
//! - `reader` puts these together.
//! - `states` knows which documents are states of one event.

mod document;
mod error;
mod halves;
mod item;
mod limits;
mod nesting;
mod reader;
mod scan;
mod states;

pub use error::{EventReadError, EventReadErrorKind};
pub use item::ReadEvent;
pub use reader::EventReader;
pub use states::{EventState, EventStates};
