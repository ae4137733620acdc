//! Helpers for the tests of the workspace: waits that fail instead of hanging, tests that run in a
//! process of their own, and a report of the tests that are skipped. The standard library is
//! enough for them.

pub mod child;
mod skip;
mod wait;

pub use skip::skipped;
pub use wait::{LONG, until, watched};
