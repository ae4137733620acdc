//! Helpers for the workspace's tests: waits that fail instead of hanging, tests that run in a
//! separate process, programs and their output, random choices, and a harness for tests that not
//! every machine can run.

pub mod child;
mod needs;
pub mod program;
mod rng;
mod wait;

pub use needs::{Group, Test, run};
pub use rng::{Rng, env_number};
pub use wait::{LONG, until, watched};
