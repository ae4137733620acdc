//! Reads events from the output of other programs.
//!
//! - `item` defines the type for an event that was read, and `error` defines the error for any
//!   other input.
//! - `scan` splits a stream of JSON into documents, enforcing the `limits`. `nesting` tracks the
//!   brackets.
//! - `document` extracts the events from a document, and `halves` repairs lone surrogates.
//! - `reader` combines these modules into an iterator over events and errors.

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
