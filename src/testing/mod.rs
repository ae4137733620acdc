//! Helpers for a model of your own program: a bus, your code around it, and
//! [loom](https://docs.rs/loom), which runs the two in every order of their steps up to a bound.
//!
//! The module exists only with `--cfg eventcast_loom`. `docs/model-checking.md` in the repository
//! says how to begin, and `examples/model_checked` is a crate with a model that finds a bug.
//!
//! * [`Exploration`] runs a model, and refuses one that explored nothing, or less than it says.
//! * [`rest`], [`begin`] and [`finish`] exclude the set-up and the end of a model from the
//!   exploration.
//! * [`Payload`] is an event whose leak loom reports.
//! * [`block_on`] polls a future, each time for a reason.
//! * `Select`, with the feature `select`, waits for watchers in place of crossbeam's.
//! * [`Sign`] and [`Gone`] let a model wait until the holder of a [`Sign`] is dropped.
//!
//! No signature names a type of loom. A model uses loom's own threads and atomics, and they must
//! come from the loom that eventcast has: any 0.7.
//!
//! # Examples
//!
//! A model of `examples/model_checked`:
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
//!     assert!(explored.whole);
//! }
//! ```

mod exploration;
mod failure;
mod parts;
mod task;

pub use self::exploration::{Exploration, Explored};
pub use self::parts::{Gone, Payload, Sign, begin, finish, rest};
pub use self::task::block_on;
#[cfg(feature = "select")]
pub use crate::sync::Select;
