//! The cases of the peers' own tests, in this project's words: apimachinery's `watch`, client-go's
//! `tools/record` and `tools/events`, tokio's broadcast channel, crossbeam's bounded channel and
//! async-broadcast. `crates/kube` has the conformance tests of Kubernetes.
//!
//! Each test names its source. A test of the bus itself runs on both kinds of bus. Where this
//! library differs on purpose, the test asserts what it does instead, and a comment that begins
//! with *Difference* gives the reason.

mod async_broadcast;
mod broadcast;
mod cache;
mod crossbeam;
mod event;
mod events;
mod kinds;
mod lag;
mod mux;
mod series;
mod shutdown;
mod support;
mod tasks;
mod writes;
