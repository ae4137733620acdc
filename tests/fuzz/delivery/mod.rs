//! Recordings against a plain model of what a store must know at the end. Random programs record a
//! few events again and again into a sink that fails in every way, while the clock moves, and end
//! at any moment. The sink takes operations one by one, in batches, or as calls that it answers
//! later, in any order and on any thread. Namespaces hang, are slow, or are not served.
//!
//! The sink notes each operation. Afterwards every event has its outcome, and the store has the
//! newest state of each event whose loss was not reported ([`judge`]). No group had more operations
//! under way or more events waiting than its share, and no event was lost for want of space while
//! its group had less than that ([`shares`]). While one namespace is in trouble, the events of all
//! others are stored ([`others`]).
//!
//! A failure prints the number of its program, which `EVENTCAST_CASE` tries alone. The number
//! repeats the program and not the timing, because a recording has threads of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unreachable_pub, reason = "the parts of one test")]

mod evidence;
mod judge;
mod met;
mod ops;
mod others;
mod program;
mod real;
mod shares;
mod sink;
mod store;

use std::sync::Arc;

use crate::cases;

#[test]
fn a_store_knows_at_the_end_what_it_must_know() {
    let met = Arc::new(met::Met::default());
    let noting = met.clone();
    cases::check_each(1200, program::program, move |program| real::run(&program, &noting));
    met.check();
}
