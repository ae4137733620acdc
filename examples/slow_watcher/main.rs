//! One slow reader under each overflow policy, side by side: what each reader lost, where, and who
//! had to wait for it.
//!
//! ```sh
//! cargo run --release --example slow_watcher
//! cargo run --release --example slow_watcher -- --rate 20000 --handler 500us --queue 256 --for 3s
//! ```
//!
//! Four buses get the same events at the same time. Each bus has a reader that is too slow, with
//! one of the policies, and a neighbour that keeps up. A policy that drops costs the slow reader
//! its events. A policy that waits costs the neighbour time and the publisher its room. At the end
//! the program compares all counts.
#![cfg_attr(test, allow(dead_code, reason = "the tests include this program and do not call its main"))]

mod lane;
mod reader;
#[path = "../support/mod.rs"]
mod support;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use eventcast::OverflowPolicy;
use lexopt::prelude::{Long, Short};
use signal_hook::consts::TERM_SIGNALS;

use lane::{Lane, Outcome};
use support::flags::{self, Parser};
use support::output::{complain, say};
use support::{duration, table};

const HELP: &str = "\
Shows one slow reader under each overflow policy, side by side: what each reader lost, and
at which places.

Usage: slow_watcher [OPTIONS]

Options:
      --rate N               Events a second; 0 is as many as possible [default: 2000]
      --handler DURATION     The time that a slow reader takes for an event
                             [default: 2ms]
      --queue N              The length of each reader's queue and of the bus's queue,
                             in events [default: 64]
      --wait-for DURATION    The limit of the policy wait-for [default: 1ms]
      --for DURATION         Publish for this time [default: 2s]
      --events N             Publish this many events and no more
      --grace DURATION       At the end, how long the readers may read what is queued for
                             them [default: 5s]
  -h, --help                 Print this

A DURATION is numbers with units: 500us, 2ms, 5s, 1m30s. Ctrl-C ends the publishing early, a
second one ends the program.

Exit status: 0 when everything adds up, 1 when not, 2 for bad usage.
";

/// The longest pause before the program looks for Ctrl-C.
const NAP: Duration = Duration::from_millis(20);

struct Settings {
    /// The pause between two events, or zero for none.
    pause: Duration,
    handler: Duration,
    queue: usize,
    wait_for: Duration,
    length: Duration,
    events: u64,
    grace: Duration,
}

fn main() -> ExitCode {
    flags::main("slow_watcher", HELP, read, run)
}

fn read(mut parser: Parser) -> Result<Option<Settings>, String> {
    let mut settings = Settings {
        pause: Duration::from_micros(500),
        handler: Duration::from_millis(2),
        queue: 64,
        wait_for: Duration::from_millis(1),
        length: Duration::from_secs(2),
        events: u64::MAX,
        grace: Duration::from_secs(5),
    };
    let mut length = None;
    while let Some(argument) = flags::next(&mut parser)? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("rate") => {
                let rate = flags::number(&mut parser, "--rate", 0..=1_000_000_000)?;
                settings.pause = Duration::from_nanos(1_000_000_000_u64.checked_div(rate).unwrap_or(0));
            }
            Long("handler") => settings.handler = flags::duration(&mut parser, "--handler")?,
            Long("queue") => settings.queue = flags::number(&mut parser, "--queue", 1..=1 << 24)? as usize,
            Long("wait-for") => settings.wait_for = flags::duration(&mut parser, "--wait-for")?,
            Long("for") => length = Some(flags::duration(&mut parser, "--for")?),
            Long("grace") => settings.grace = flags::duration(&mut parser, "--grace")?,
            Long("events") => settings.events = flags::number(&mut parser, "--events", 1..=u64::MAX)?,
            _ => return Err(flags::unknown(argument)),
        }
    }
    match length {
        Some(length) => settings.length = length,
        None if settings.events < u64::MAX => settings.length = Duration::MAX,
        None => {}
    }
    Ok(Some(settings))
}

/// Publishes, ends, and compares. Returns whether everything adds up.
fn run(settings: &Settings) -> Result<bool, Box<dyn Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in TERM_SIGNALS {
        // The second signal finds the flag set, and ends the program.
        signal_hook::flag::register_conditional_shutdown(*signal, 130, stop.clone())?;
        signal_hook::flag::register(*signal, stop.clone())?;
    }
    let policies = [
        OverflowPolicy::DropIncoming,
        OverflowPolicy::DropOldest,
        OverflowPolicy::WaitFor(settings.wait_for),
        OverflowPolicy::Wait,
    ];
    let mut lanes = Vec::new();
    for policy in policies {
        lanes.push(Lane::start(policy, settings.queue, settings.handler)?);
    }

    complain("publishing; Ctrl-C ends it early");
    let start = Instant::now();
    let published = publish(&mut lanes, settings, &stop)?;
    let took = duration::show(Duration::from_millis(start.elapsed().as_millis() as u64));
    if stop.load(Ordering::Relaxed) {
        complain("stopping");
    }
    lanes.iter().for_each(Lane::close);
    let end = Instant::now() + settings.grace;
    let outcomes: Vec<Outcome> =
        lanes.into_iter().map(|lane| lane.end(end.saturating_duration_since(Instant::now()))).collect();

    let mut rows = vec![Outcome::HEAD.map(str::to_owned).to_vec()];
    rows.extend(outcomes.iter().map(Outcome::row));
    let sums: Vec<String> = outcomes.iter().map(Outcome::sums).collect();
    let faults: Vec<String> = outcomes.iter().flat_map(Outcome::faults).collect();
    say(&format!(
        "{published} events in {took} to each; a slow reader takes {} for one, {} may wait for it\n\n{}\n{}\n{}\n",
        format_args!("{:?}", settings.handler),
        settings.queue,
        table::render(&rows),
        sums.join("\n"),
        if faults.is_empty() { "everything adds up".to_owned() } else { faults.join("\n") },
    ))?;
    Ok(faults.is_empty())
}

/// Publishes to all buses, in step, until it is time to stop. Returns the number of events
/// published to each.
fn publish(lanes: &mut [Lane], settings: &Settings, stop: &AtomicBool) -> Result<u64, Box<dyn Error>> {
    let start = Instant::now();
    let (mut published, mut due) = (0, start);
    while published < settings.events && !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        if now.duration_since(start) >= settings.length {
            break;
        }
        if now < due {
            thread::sleep((due - now).min(NAP));
            continue;
        }
        for lane in &mut *lanes {
            lane.publish(now)?;
        }
        published += 1;
        due += settings.pause;
    }
    Ok(published)
}
