//! Helpers for the tests of the workspace: waits that fail instead of hanging, tests that run in a
//! process of their own, and a harness for tests that not every machine can run.

pub mod child;
mod needs;
mod wait;

pub use needs::{Group, Test, run};
pub use wait::{LONG, until, watched};
