//! Recordings against a plain model of what a store must know at the end. Random programs record a
//! few events again and again into a sink that fails in every way, while the clock moves, and end
//! at any moment. The sink notes each operation. Afterwards every event has its outcome, and the
//! store has the newest state of each event that nobody was told is lost.
//!
//! A failure prints the number of its program, which `EVENTCAST_CASE` tries alone. The number
//! repeats the program and not the timing, because a recording has threads of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unreachable_pub, reason = "the parts of one test")]

mod judge;
mod met;
mod program;
mod real;
mod sink;

use std::sync::Arc;

use crate::cases;

#[test]
fn a_store_knows_at_the_end_what_it_must_know() {
    let met = Arc::new(met::Met::default());
    let noting = met.clone();
    cases::check_each(300, program::program, move |program| real::run(&program, &noting));
    met.check();
}
