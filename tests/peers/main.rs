//! Test cases from comparable libraries, rewritten for this project: apimachinery's `watch`,
//! tokio's broadcast channel, crossbeam's bounded channel and async-broadcast. `crates/kube` has
//! the conformance tests of Kubernetes.
//!
//! Each test names its source. A test of the bus itself runs on both kinds of bus. Where this
//! library differs on purpose, the test asserts its own behaviour, and a comment that begins with
//! *Difference* gives the reason.
//!
//! The cases of client-go's `tools/record` and `tools/events` are in `tests/record`:
//!
//! | client-go | here |
//! |---|---|
//! | `TestEventf`, `TestMultiSinkCache` | `delivery::outcome` |
//! | `TestEventfNoNamespace`, `tools/events`: `TestEventf` | `recorder::handle`, `recorder::event_time` |
//! | `TestGenerateEventName` | `recorder::names` |
//! | `TestWriteEventError`, `TestUpdateExpiredEvent`, `TestLotsOfEvents` | `delivery::attempts` |
//! | `TestCancelEvent` | `delivery::end` |
//! | `TestBroadcasterShutdown`, `TestNonRacyShutdown` | `broadcaster::shutdown` |
//! | `TestEventCorrelator`, `TestEventAggregatorByReasonFunc`, `TestEventSpamFilter` | `correlator` |
//! | `TestEventSeriesf`, `TestFinishSeries`, `TestRecordEventToSink` | `series::timers` |
//! | `TestRefreshExistingEventSeries` | `series::ttl`, and with an error `series::timers` |
//!
//! `bus::dispatch::controls` tests the burst for which client-go's `maxQueuedEvents` has space.

mod async_broadcast;
mod broadcast;
mod crossbeam;
mod kinds;
mod lag;
mod mux;
mod support;
mod tasks;
