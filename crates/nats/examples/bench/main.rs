//! Measures the bridge and the bare client in the same run. To run the program, use `cargo run
//! --release -p eventcast-nats --example bench`. This program starts the server on a free port, and
//! stops it at the end.
//!
//! With `--example bench -- 0.1`, the program does a tenth of the work, and with `-- 1 reading`
//! only this part. The figures are meaningful only relative to each other, because the server runs
//! on the same machine. The `lone` and `reading` parts therefore alternate between the bare client
//! and the bridge.

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
/// The number of rounds in which contenders take turns.
const ROUNDS: usize = 15;

/// Prints a line. A failed write is ignored, because a reader that stops early, as in `| head -1`,
/// must not end the program while a server is running.
macro_rules! say {
    ($($text:tt)*) => { _ = writeln!(io::stdout(), $($text)*) };
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let factor = arguments.next().and_then(|factor| factor.parse().ok()).unwrap_or(1.0_f64);
    let part = arguments.next();
    let times = |events: u64| ((events as f64 * factor) as u64).max(100);
    if let Some(missing) = server::missing() {
        say!("{missing}");
        return;
    }
    let server = Server::start("");
    let url = server.url();
    let wants = |name: &str| part.as_ref().is_none_or(|part| part == name);
    if wants("publishing") {
        publishing(&url, times);
    }
    if wants("reading") {
        reading(&url, times);
    }
    if wants("lone") {
        lone(&url, times);
    }
    if wants("local") {
        local_costs(&url, times(2_000));
    }
}

/// A name, and a function that runs once and returns a measurement.
type Contender<'a> = (&'a str, Box<dyn FnMut() -> f64 + 'a>);

/// Lets the contenders take turns. Shows the median of each contender's measurements, and the
/// quartiles of the ratio to each preceding contender's measurement in the same round.
fn compare<const N: usize>(mut contenders: [Contender<'_>; N]) {
    let rounds = [(); ROUNDS].map(|()| contenders.each_mut().map(|(_, run)| run()));
    let quartiles = |value: &dyn Fn(&[f64; N]) -> f64| {
        let mut values = rounds.each_ref().map(value);
        values.sort_by(f64::total_cmp);
        [1, 2, 3].map(|quarter| values[(ROUNDS - 1) * quarter / 4])
    };
    for (at, (name, _)) in contenders.iter().enumerate() {
        let ratio = |other: usize| {
            let [low, middle, high] = quartiles(&|round| round[at] / round[other]);
            format!("{middle:>9.2} ({low:.2} to {high:.2})")
        };
        let ratios: String = (0..at).map(ratio).collect();
        say!("{name:<44}{:>14.1}{ratios}", quartiles(&|round| round[at])[1]);
    }
}

fn publishing(url: &str, times: impl Fn(u64) -> u64) {
    say!("publishing, events a second that are acknowledged");
    say!("{:<44}{:>14}{:>14}", "", "64 bytes", "400 bytes");
    let row = |name: &str, rates: [f64; 2]| say!("{name:<44}{:>14.0}{:>14.0}", rates[0], rates[1]);
    for storage in ["memory", "file"] {
        let bare = |window: usize, events| {
            SIZES.map(|size| bare::publish(url, storage, window, (events, size), false))
        };
        row(&format!("bare client, {storage}, 1 in flight"), bare(1, times(5_000)));
        row(&format!("bare client, {storage}, 1024 in flight"), bare(1024, times(50_000)));
        for (batch, events) in [(1, times(5_000)), (16, times(50_000)), (256, times(1_000_000))] {
            let rates =
                SIZES.map(|size| bridged::publish(url, storage, (batch, Duration::ZERO), events, size));
            row(&format!("bridge, {storage}, up to {batch} in a message"), rates);
        }
        let rates = SIZES.map(|size| {
            bridged::publish(url, storage, (4096, Duration::from_millis(1)), times(1_000_000), size)
        });
        row(&format!("bridge, {storage}, up to 4096, linger 1 ms"), rates);
    }
}

fn reading(url: &str, times: impl Fn(u64) -> u64) {
    for (batch, events) in [(1, times(20_000)), (256, times(400_000))] {
        for size in SIZES {
            say!("\nreading, events of {} bytes a second, {batch} in a message", size + 2);
            bridged::fill(url, batch, events, size);
            compare([
                ("bare ordered consumer, bytes only", Box::new(|| bare::read(url, events, false))),
                ("bare ordered consumer, decoding", Box::new(|| bare::read(url, events, true))),
                ("bridge into a bus with 1 watcher", Box::new(|| bridged::read(url, events, 1))),
                ("bridge into a bus with 4 watchers", Box::new(|| bridged::read(url, events, 4))),
            ]);
        }
    }
}

/// Measures events that are sent one by one.
fn lone(url: &str, times: impl Fn(u64) -> u64) {
    for size in SIZES {
        say!("\npublishing with 1 in flight, acknowledged events of {} bytes a second", size + 2);
        let events = times(1_000);
        compare([
            ("bare client, memory", Box::new(|| bare::publish(url, "memory", 1, (events, size), false))),
            (
                "bare client, memory, the bridge's headers",
                Box::new(|| bare::publish(url, "memory", 1, (events, size), true)),
            ),
            (
                "bridge, memory, 1 in a message",
                Box::new(|| bridged::publish(url, "memory", (1, Duration::ZERO), events, size)),
            ),
        ]);
    }
    say!("\nlatency of a lone event, from publish to receive, in microseconds: median of each round");
    let rounds = times(200);
    let (mut bare_times, mut apart_times, mut bridge_times) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bare, mut apart) = (bare::lone(url), bare::lone_between_threads(url));
    let mut bridge = bridged::lone(url);
    let run = |lone: &mut dyn FnMut() -> Duration, all: &mut Vec<Duration>| {
        let mut round: Vec<_> = (0..rounds).map(|_| lone()).collect();
        round.sort();
        all.extend_from_slice(&round);
        round[round.len() / 2].as_nanos() as f64 / 1e3
    };
    compare([
        ("bare client to its ordered consumer", Box::new(|| run(&mut bare, &mut bare_times))),
        ("the same between threads, bridge's headers", Box::new(|| run(&mut apart, &mut apart_times))),
        ("bus to bus over the bridge", Box::new(|| run(&mut bridge, &mut bridge_times))),
    ]);
    for (name, mut times) in
        [("bare client", bare_times), ("between threads", apart_times), ("bridge", bridge_times)]
    {
        times.sort();
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_micros();
        say!("{:<44}{:>14}{:>14}", format!("{name}, all rounds: median and 99 %"), at(0.5), at(0.99));
    }
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
