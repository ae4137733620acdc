//! Helpers for the tests of the workspace: waits that fail instead of hanging, tests that run in a
//! process of their own, programs and their output, and a harness for tests that not every machine
//! can run.

pub mod child;
mod needs;
pub mod program;
mod wait;

pub use needs::{Group, Test, run};
pub use wait::{LONG, until, watched};
