//! Measures how long an event takes to get from one thread to another, and how much it costs to
//! send an event. Rounds of eventcast, raw channels and two rivals alternate.
//!
//! ```sh
//! cargo run --release -p eventcast-benches --bin latency
//! ```
//!
//! Events are sent at fixed rates from a thousand to a million per second. Each latency is measured
//! from the time at which the event was due, so blocking the sender increases a contender's own
//! figures. The tables also show how late the sender was. Every round checks that the events arrive
//! in order, or counts the lost events.
#![allow(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "figures for people")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what it finds is its output")]

mod args;
mod report;

use std::process::ExitCode;
use std::time::Duration;

use eventcast::{BusOptions, OverflowPolicy};
use eventcast_benches::cost::{self, State};
use eventcast_benches::load::{Arrived, Contender, Load};
use eventcast_benches::quiet::Observation;
use eventcast_benches::rounds::take_turns;
use eventcast_benches::table::progress;
use eventcast_benches::threads::Switches;
use eventcast_benches::timed::{Schedule, Stopwatch, Timed};
use eventcast_benches::{ours, recorded, rivals};

use args::{HELP, Part, Settings, read};
use report::{CostRow, LatencyRow, Section, TWO_HOPS};

fn contenders() -> Vec<Contender<Timed>> {
    let one = |name, manner, round| Contender { name, manner, can: |_| true, round };
    vec![
        one("eventcast handler", "lossless; parks", ours::handlers),
        one("eventcast recv_ref", "lossless; parks", ours::references),
        one("eventcast recorder", "lossless, records a refused event again; parks", recorded::handled),
        one("eventcast, filter", "lossless; parks", |load| filtered(load, ours::options())),
        one("eventcast, DropOldest", "loses the oldest; parks", |load| {
            ours::references_with(load, oldest(), |builder| builder)
        }),
        one("eventcast inline", "lossless; parks", |load| {
            ours::references_with(load, ours::options().inline(true), |builder| builder)
        }),
        one("eventcast inline, filter", "lossless; parks", |load| {
            filtered(load, ours::options().inline(true))
        }),
        one("eventcast inline, DropOldest", "loses the oldest; parks", |load| {
            ours::references_with(load, oldest().inline(true), |builder| builder)
        }),
        one("crossbeam channel, one hop", "lossless; parks", rivals::crossbeam),
        one(TWO_HOPS, "lossless; parks", rivals::two_hops),
        one("tokio broadcast", "loses the oldest; parks; blocking_recv on a thread", rivals::tokio_broadcast),
        one("bus", "lossless; wakes by the clock", rivals::bus),
    ]
}

/// Runs a round with `recv_ref` on a watcher whose filter accepts all events.
fn filtered(load: &Timed, options: BusOptions) -> Arrived<Stopwatch> {
    ours::references_with(load, options, |builder| builder.filter(|_| true))
}

fn oldest() -> BusOptions {
    ours::options().overflow(OverflowPolicy::DropOldest)
}

/// The idle time before each event in the measurement of one event at a time.
const PAUSE: Duration = Duration::from_micros(500);

fn main() -> ExitCode {
    let names: Vec<_> = contenders().iter().map(|contender| contender.name).collect();
    let settings = match read(lexopt::Parser::from_env(), names) {
        Ok(Some(settings)) => settings,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("latency: {error}\nTry `latency --help`.");
            return ExitCode::from(2);
        }
    };
    if let Err(error) = end_on_signals() {
        eprintln!("latency: cannot listen for signals: {error}");
        return ExitCode::FAILURE;
    }
    let observation = Observation::begin();
    let sections: Vec<Section> = settings.parts.iter().map(|part| measure(*part, &settings)).collect();
    progress("");
    print!("{}", report::render(&sections, &observation.conditions(), &settings));
    ExitCode::SUCCESS
}

/// Makes signals clear the progress line and terminate the program immediately. A partial
/// measurement is not shown.
fn end_on_signals() -> std::io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new(signal_hook::consts::TERM_SIGNALS)?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            progress("");
            eprintln!("latency: interrupted; nothing to show before the end");
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

fn measure(part: Part, settings: &Settings) -> Section {
    match part {
        Part::Rate(rate) => {
            let events = ((rate as f64 * settings.seconds) as u64).max(1);
            Section::Latency(part, latencies(part, settings, Schedule::Rate(rate), events))
        }
        Part::Idle => {
            // Sending this number of events takes about `settings.seconds`.
            let events = ((settings.seconds / PAUSE.as_secs_f64() / 1.2) as u64).max(1);
            Section::Latency(part, latencies(part, settings, Schedule::AfterPause(PAUSE), events))
        }
        Part::Cost => Section::Cost(costs(settings)),
    }
}

fn latencies(part: Part, settings: &Settings, schedule: Schedule, events: u64) -> Vec<LatencyRow> {
    let contenders = contenders();
    let mut running: Vec<_> = contenders
        .iter()
        .filter(|contender| contender.name.contains(&settings.only))
        .map(|contender| (contender, LatencyRow::new(contender.name, contender.manner, events)))
        .collect();
    let base = running.iter().position(|(contender, _)| contender.name == TWO_HOPS);
    let p50 = |(_, row): &(_, LatencyRow)| row.p50().to_vec();
    take_turns(&mut running, base, settings.rounds, p50, |round, (contender, row)| {
        progress(&format!("{part}: round {round} of {} or more, {}", settings.rounds, contender.name));
        let load = Timed::new(schedule, events);
        debug_assert_eq!(load.total(), events);
        let switches = Switches::of_process();
        let arrived = (contender.round)(&load);
        row.add(&load.result(arrived), Switches::of_process().since(switches));
    });
    running.into_iter().map(|(_, row)| row).collect()
}

fn costs(settings: &Settings) -> Vec<CostRow> {
    // Use fewer runs that begin parked, because each such run has to wait until all threads are
    // asleep.
    let runs = |a_second: f64| ((a_second * settings.seconds) as usize).clamp(10, 20_000);
    let mut running: Vec<_> = cost::CONTENDERS
        .iter()
        .filter(|contender| contender.name.contains(&settings.only))
        .map(|contender| (contender, CostRow::new(contender.name)))
        .collect();
    let awake = |(_, row): &(_, CostRow)| row.p50().to_vec();
    take_turns(&mut running, None, settings.rounds, awake, |round, (contender, row)| {
        progress(&format!(
            "{}: round {round} of {} or more, {}",
            Part::Cost,
            settings.rounds,
            contender.name
        ));
        row.awake(&(contender.measure)(State::Awake, runs(4000.0)));
        row.parked(&(contender.measure)(State::Parked, runs(500.0)));
    });
    running.into_iter().map(|(_, row)| row).collect()
}
