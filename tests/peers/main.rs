//! The cases of the peers' own tests, in this project's words: apimachinery's `watch`, client-go's
//! `tools/record` and `tools/events`, and tokio's broadcast channel.
//!
//! Each test names its source. Where this library differs on purpose, the test asserts what it does
//! instead, and a comment that begins with *Difference* gives the reason.

mod async_broadcast;
mod broadcast;
mod cache;
mod conformance;
mod crossbeam;
mod event;
mod events;
mod kinds;
mod lag;
mod mux;
mod series;
mod shutdown;
#[cfg(feature = "tracing")]
mod structured;
mod support;
mod tasks;
mod writes;
