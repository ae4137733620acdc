//! Utilities that are shared by the tests of several commands.
#![allow(dead_code, reason = "a system or a set of features uses its part")]

#[cfg(target_os = "linux")]
pub(crate) mod full_screen;
pub(crate) mod output;
pub(crate) mod running;
#[cfg(target_os = "linux")]
pub(crate) mod terminal;
