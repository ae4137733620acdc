//! Test doubles for a program's tests, and the parts for building a model of the program.
//!
//! * [`FakeClock`] is a clock that a test advances.
//! * `FakeRecorder` (with the `recorder` feature) keeps the events that a component recorded,
//!   without a bus.
//!
//! # Models of your program
//!
//! A model consists of a bus, your code around it, and [loom](https://docs.rs/loom), which runs the
//! bus and your code in every order of their steps, up to a bound. The following parts exist only
//! with `--cfg eventcast_loom`. `docs/model-checking.md` in the repository explains how to get
//! started, and `examples/bus/model_checking.rs` contains a model that finds a bug.
//!
//! * `Exploration` runs a model, and rejects a model that explored nothing, or less than it claims.
//! * `rest`, `begin` and `finish` exclude a model's set-up and end from the exploration.
//! * `Payload` is an event that loom reports if it leaks.
//! * `block_on` polls a future, but never spuriously.
//! * `Select` (with the `select` feature) replaces crossbeam's `Select` and waits for watchers.
//! * `Sign` and `Gone` let a model wait until the holder of a `Sign` is dropped.
//!
//! No signature contains a loom type. A model uses loom's own threads and atomics. The model and
//! eventcast must use the same loom version. eventcast works with any 0.7 version.
//!
//! A model from `examples/bus/model_checking.rs`:
//!
//! ```ignore
//! /// Explores everything: the start, a job, and the stop.
//! #[test]
//! fn a_stop_is_never_lost() {
//!     let explored = Exploration::default().run(|| {
//!         let agent = small_agent();
//!         let accepted = u64::from(agent.submit(1));
//!         assert_eq!(agent.stop(), accepted);
//!     });
//!     println!("a_stop_is_never_lost: {explored}");
//! }
//! ```

#[cfg(eventcast_loom)]
#[doc(hidden)]
pub use crate::sync::park;
#[cfg(eventcast_loom)]
#[doc(hidden)]
pub use crate::sync::parker::{Parker, Unparker};
#[cfg(eventcast_loom)]
pub use crate::sync::pushed::Popped;
#[cfg(eventcast_loom)]
mod exploration;
#[cfg(eventcast_loom)]
mod failure;
#[cfg(eventcast_loom)]
mod parts;
#[cfg(eventcast_loom)]
mod task;

#[cfg(eventcast_loom)]
pub use self::exploration::{Exploration, Explored};
#[cfg(eventcast_loom)]
pub use self::parts::{Gone, Payload, Sign, begin, finish, rest};
#[cfg(eventcast_loom)]
pub use self::task::block_on;
pub use crate::clock::FakeClock;
#[cfg(feature = "recorder")]
#[doc(alias = "IncludeObject")]
#[doc(alias = "mock")]
pub use crate::record::recorder::FakeRecorder;
#[cfg(all(feature = "select", eventcast_loom))]
pub use crate::sync::Select;
