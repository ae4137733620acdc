//! Reads events from the output of other programs.
//!
//! - `item` holds an event that was read, and `error` is the error for any other input.
//! - `scan` splits a stream of JSON into documents within `limits`, and `nesting` tracks the
//!   brackets.
//! - `document` extracts the events from a document, and `halves` repairs lone surrogates.
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
