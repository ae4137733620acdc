//! Test doubles for a program's tests, and the parts of a model of the program.
//!
//! * [`FakeClock`] is a clock that a test steps.
//! * `FakeRecorder`, with the feature `recorder`, keeps what a component recorded, without a bus.
//!
//! # Models of your program
//!
//! A model is a bus, your code around it, and [loom](https://docs.rs/loom), which runs the two in
//! every order of their steps up to a bound. Its parts exist only with `--cfg eventcast_loom`.
//! `docs/model-checking.md` in the repository explains how to get started, and
//! `examples/bus/model_checking.rs` has a model that finds a bug.
//!
//! * `Exploration` runs a model, and rejects a model that explored nothing, or less than it claims.
//! * `rest`, `begin` and `finish` exclude a model's set-up and end from the exploration.
//! * `Payload` is an event that loom reports if it leaks.
//! * `block_on` polls a future, but only when there is a reason to.
//! * `Select`, with the feature `select`, replaces crossbeam's and waits for watchers.
//! * `Sign` and `Gone` let a model wait until the holder of a `Sign` is dropped.
//!
//! No signature contains a loom type. A model uses loom's own threads and atomics, and they must be
//! from the loom version that eventcast uses: any 0.7.
//!
//! A model of `examples/bus/model_checking.rs`:
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
