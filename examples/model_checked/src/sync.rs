//! The one place that names atomics and threads: std's in the program, and loom's in its models.

#[cfg(eventcast_loom)]
pub(crate) use loom::{sync::Arc, sync::atomic, thread};
#[cfg(not(eventcast_loom))]
pub(crate) use std::{sync::Arc, sync::atomic, thread};
