//! Tests recordings against a simple model of the state that a store must have at the end. Random
//! programs repeatedly record a few events into a sink that fails in every possible way while the
//! clock advances. A program may end at any time. The sink takes operations one by one, in batches,
//! or as calls that it answers later, in any order and on any thread. Namespaces may hang, be slow,
//! or not be served.
//!
//! The sink logs each operation. Afterwards every event must have its outcome, and the store must
//! have the newest state of each event whose loss was not reported ([`judge`]). No group may have
//! had more operations under way or more events waiting than its share, and no event may have been
//! lost for lack of space while its group used less than its share ([`shares`]). While one
//! namespace is in trouble, events in all other namespaces must still be stored ([`others`]).
//!
//! A failure prints the number of the failing program, and `EVENTCAST_CASE` runs only the program
//! with the given number. The number reproduces the program but not the timing, because a recording
//! runs on several threads.
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
