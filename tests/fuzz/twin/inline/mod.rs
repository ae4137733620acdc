//! The inline bus against a model of its rules: each publish offers its events itself, no event is
//! ever in transit, and the code that runs inside a call may publish.
//!
//! The model is written from the documentation of `Broadcaster::new_inline`, `Publisher`,
//! `OverflowPolicy` and from G13. If the documentation leaves the order of two watchers open, the
//! model reports it, and the program skips the step.

mod calls;
mod model;

pub use self::model::Inline;
