//! Tests the inline bus against a model of its rules. Each publish call offers its own events, no
//! event is ever in transit, and code that runs inside a call may publish.
//!
//! The model is based on the documentation of `Broadcaster::new_inline`, `Publisher`,
//! `OverflowPolicy` and on G13. If the documentation does not specify the order of two watchers,
//! the model reports this, and the program skips the step.

mod calls;
mod model;

pub use self::model::Inline;
