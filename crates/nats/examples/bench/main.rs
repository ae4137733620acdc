//! Measures the bridge and the bare client in the same run. To run the program, use `cargo run
//! --release -p eventcast-nats --example bench`. This program starts the server on a free port, and
//! stops it at the end.
//!
//! With `--example bench -- 0.1`, the program does a tenth of the work. The figures are meaningful
//! only relative to each other, because the server runs on the same machine.

#![allow(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "rates need not be exact")]

mod bare;
mod bridged;
mod local;
#[path = "../../tests/nats/server.rs"]
#[allow(dead_code, unused_macros, unused_imports, reason = "the tests use more of it")]
mod server;

use std::io::{self, Write as _};
use std::time::Duration;

use server::Server;

/// The length of an event's text. The event's JSON is two bytes longer.
const SIZES: [usize; 2] = [62, 398];

/// Prints a line. A failed write is ignored, because a reader that stops early, as in `| head -1`,
/// must not end the program while a server is running.
macro_rules! say {
    ($($text:tt)*) => { _ = writeln!(io::stdout(), $($text)*) };
}

fn main() {
    let factor = std::env::args().nth(1).and_then(|factor| factor.parse().ok()).unwrap_or(1.0_f64);
    let times = |events: u64| ((events as f64 * factor) as u64).max(100);
    if let Some(missing) = server::missing() {
        say!("{missing}");
        return;
    }
    let server = Server::start("");
    let url = server.url();
    say!("publishing, events a second that are acknowledged");
    say!("{:<44}{:>14}{:>14}", "", "64 bytes", "400 bytes");
    let row = |name: &str, rates: [f64; 2]| say!("{name:<44}{:>14.0}{:>14.0}", rates[0], rates[1]);
    for storage in ["memory", "file"] {
        let bare =
            |window: usize, events| SIZES.map(|size| bare::publish(&url, storage, window, events, size));
        row(&format!("bare client, {storage}, 1 in flight"), bare(1, times(5_000)));
        row(&format!("bare client, {storage}, 1024 in flight"), bare(1024, times(50_000)));
        for (batch, events) in [(1, times(5_000)), (16, times(50_000)), (256, times(1_000_000))] {
            let rates =
                SIZES.map(|size| bridged::publish(&url, storage, (batch, Duration::ZERO), events, size));
            row(&format!("bridge, {storage}, up to {batch} in a message"), rates);
        }
        let rates = SIZES.map(|size| {
            bridged::publish(&url, storage, (4096, Duration::from_millis(1)), times(1_000_000), size)
        });
        row(&format!("bridge, {storage}, up to 4096, linger 1 ms"), rates);
    }
    say!("\nreading, events of 64 bytes a second, 256 in a message");
    let events = times(1_000_000);
    bridged::fill(&url, events);
    say!("{:<44}{:>14.0}", "bare ordered consumer, bytes only", bare::read(&url, events));
    for watchers in [1, 4] {
        let rate = bridged::read(&url, events, watchers);
        say!("{:<44}{rate:>14.0}", format!("bridge into a bus with {watchers} watchers"));
    }
    say!("\nlatency of a lone event, from publish to receive, in microseconds: median and 99 %");
    let rounds = times(2_000);
    let show = |name: &str, times: &mut Vec<Duration>| {
        times.sort();
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_micros();
        say!("{name:<44}{:>14}{:>14}", at(0.5), at(0.99));
    };
    show("bare client to its ordered consumer", &mut bare::latency(&url, rounds));
    show("bus to bus over the bridge", &mut bridged::latency(&url, rounds));
    local_costs(&url, times(2_000));
}

fn local_costs(url: &str, bursts: u64) {
    say!("\na local try_publish, nanoseconds, medians of bursts of 100: the first, and each behind it");
    for (direct, name) in [(true, ""), (false, ", no direct delivery")] {
        let costs = local::cost(url, bursts, direct);
        for (who, cost) in ["one reader", "and a second local one", "and the bridge"].iter().zip(costs) {
            say!("{:<44}{:>8}{:>6}", format!("{who}{name}"), cost.first, cost.next);
        }
    }
}
