//! The inline bus against a model of its own rules: each publish offers its events itself, nothing
//! is ever on its way, and the code that runs inside a call may publish.
//!
//! The model is written from the documentation of `Broadcaster::new_inline`, `Publisher`,
//! `OverflowPolicy` and from G13. Where the documentation leaves the order of two watchers open,
//! the model says so, and the program leaves out the step.

mod calls;
mod model;

pub use self::model::Inline;
