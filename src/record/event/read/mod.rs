//! Reads events from the output of other programs.
//!
//! - `item` is an event that was read, `error` the error for anything else.
//! - `scan` splits a stream of JSON into documents within `limits`, `nesting` tracks the brackets.
//! - `document` extracts the events from a document, `halves` repairs lone surrogates.
//! - `reader` is the iterator over all of this.

mod document;
mod error;
mod halves;
mod item;
mod limits;
mod nesting;
mod reader;
mod scan;

pub use error::{EventReadError, EventReadErrorKind};
pub use item::ReadEvent;
pub use reader::EventReader;
