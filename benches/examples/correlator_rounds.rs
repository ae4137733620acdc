//! Runs rounds of the correlator benchmark without the benchmark harness, for example to count
//! instructions or to run under a profiler. The usage is `correlator_rounds [calm|flooded]
//! [ROUNDS]`.
//!
//! `valgrind --tool=callgrind --toggle-collect='*correlate_all*'
//! target/release/examples/correlator_rounds calm 1`

#![allow(clippy::print_stdout, clippy::missing_panics_doc, reason = "a tool for whoever measures")]

use eventcast_benches::correlation::{cluster, flooded, round};

fn main() {
    let mut args = std::env::args().skip(1);
    let is_flooded = args.next().is_some_and(|which| which == "flooded");
    let rounds: u32 = args.next().map_or(1, |rounds| rounds.parse().expect("a number of rounds"));
    let (name, stream) = cluster();
    let stream = if is_flooded { flooded(&stream) } else { stream };
    let mut times: Vec<_> = (0..rounds).map(|_| round(&stream)).collect();
    times.sort_unstable_by_key(|(elapsed, _)| *elapsed);
    let nanos = |elapsed: std::time::Duration| elapsed.as_nanos() / stream.len() as u128;
    if let [(best, sums), ..] = times.as_slice() {
        println!("{name}: {} events, {}", stream.len(), sums.stats);
        let median = times[times.len() / 2].0;
        println!("{} ns an event at best, {} in the middle of {rounds} rounds", nanos(*best), nanos(median));
    }
}
