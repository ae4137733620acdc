//! Exercises every feature at the same time, for as long as you like, and continuously checks
//! order, accounting, gaps and memory.
//!
//! ```sh
//! cargo run --release -p eventcast-soak -- --for 60s
//! cargo run --release -p eventcast-soak -- --for 8h --seed 7
//! ```
//!
//! Threads and tasks publish at varying rates. Watchers with all policies are created and dropped.
//! The watchers are read in every possible way, their readers and handlers panic, and they have
//! filters, hooks and prefixes that panic. Some events have a `Clone` or a `Drop` that panics.
//! Recorders write to a store and to a sink that fails. Every two seconds, the publishers pause,
//! and the bus's counts must equal the program's own counts. `docs/verification.md` describes what
//! this program can and cannot detect.

mod args;
mod checker;
mod dice;
mod ledger;
mod memory;
mod output;
mod plan;
mod publish;
mod record;
mod tasks;
mod tick;
mod visit;

use std::error::Error;
use std::panic;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy};
use signal_hook::consts::TERM_SIGNALS;

use args::Args;
use checker::MAX_BATCH;
use ledger::{Ledger, add, get};
use memory::mebibytes;
use output::{complain, say};
use publish::Source;
use record::Recording;
use tick::Tick;
use visit::{PATIENCE, Visitor};

/// The time between two memory samples, and between two pauses of the publishers.
const SAMPLE: Duration = Duration::from_millis(1000 / memory::RATE);
const LULL: Duration = Duration::from_secs(2);

const INCOMING: u64 = 64;
const JOURNAL: u64 = 256;

/// The numbers of publishers and visitors on threads. The same numbers of publishers and visitors
/// run in tasks.
const SOURCES: usize = 2;
const VISITORS: u64 = 5;

fn main() -> ExitCode {
    let args = match args::read() {
        Ok(args) => args,
        Err(status) => return status,
    };
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&format!("eventcast-soak: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs the soak test to completion and prints the violations. Returns whether there were no
/// violations.
fn run(args: &Args) -> Result<bool, Box<dyn Error>> {
    let seed = args.seed();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in TERM_SIGNALS {
        // When a second signal arrives, the flag is already set, so the second signal terminates
        // the program.
        signal_hook::flag::register_conditional_shutdown(*signal, 130, stop.clone())?;
        signal_hook::flag::register(*signal, stop.clone())?;
    }
    let ledger = Arc::new(Ledger::default());
    tell_only_of_other_panics(&ledger);
    complain(&format!("soaking, seed {seed}; Ctrl-C ends it early"));

    let options = BusOptions::default()
        .incoming_capacity(INCOMING as usize)
        .max_batch(MAX_BATCH as usize)
        .thread_name("soak-bus");
    let bus = Broadcaster::<Tick>::with_options(options)?;
    keep_journal(&bus, &ledger)?;
    let recording = Recording::start(&ledger, seed)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let threads = start(&bus, &ledger, seed, &runtime)?;

    let samples = watch_over(&bus, &ledger, &recording, args.length, &stop)?;

    let fine = end(&bus, &ledger, threads);
    let recorded = recording.end();
    runtime.shutdown_timeout(if fine { PATIENCE } else { Duration::ZERO });
    if fine && tick::live() != 0 {
        ledger.fault(format!("{} events were never dropped", tick::live()));
    }
    let (size, level) = memory::judge(&samples);
    if level == Some(false) {
        ledger.fault(format!("memory: the resident size does not level off: {size}"));
    }
    let faults = ledger.faults();
    say(&format!(
        "{} events published, {} received and {} missed by {} watchers that came and \
         went\n{recorded}\nresident size: {size}\n{}\n",
        get(&ledger.accepted) + get(&ledger.full) + get(&ledger.stopped),
        get(&ledger.received),
        get(&ledger.lagged),
        get(&ledger.visits),
        if faults.is_empty() {
            "nothing was violated".to_owned()
        } else {
            format!("VIOLATED, with seed {seed}:\n{}", faults.join("\n"))
        },
    ))?;
    Ok(faults.is_empty())
}

/// Sets a panic hook that only counts deliberate panics. All other panics are printed as usual and
/// count as violations.
fn tell_only_of_other_panics(ledger: &Arc<Ledger>) {
    let usual = panic::take_hook();
    let ledger = ledger.clone();
    panic::set_hook(Box::new(move |info| {
        let payload = info.payload();
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or_default();
        if text.starts_with(tick::ON_PURPOSE) {
            add(&ledger.panics, 1);
        } else {
            ledger.fault(format!("a panic: {text}"));
            usual(info);
        }
    }));
}

/// Spawns the journal, a watcher that does not lose any events and assigns a position to each
/// event.
fn keep_journal(bus: &Broadcaster<Tick>, ledger: &Arc<Ledger>) -> Result<(), Box<dyn Error>> {
    let ledger = ledger.clone();
    let (mut in_class, mut last) = ([0; tick::CLASSES], [0; 2 * SOURCES]);
    let journal = move |delivery: Delivery<&Tick>| match delivery {
        Delivery::Event(tick) => {
            if let Some(last) = tick.publisher.and_then(|publisher| last.get_mut(publisher)) {
                if tick.number <= *last {
                    ledger.fault(format!(
                        "order: {} of publisher {:?} after {last}",
                        tick.number, tick.publisher
                    ));
                }
                *last = tick.number;
            }
            in_class[tick.class] += 1;
            add(&ledger.journal, 1);
            add(&ledger.received, 1);
            tick.place.assign(get(&ledger.journal), in_class[tick.class]);
        }
        Delivery::Lagged(count) => ledger.fault(format!("the journal, which waits, has lost {count}")),
    };
    let builder = bus.watch_builder().name("journal").queue_capacity(JOURNAL as usize);
    builder.overflow(OverflowPolicy::Wait).spawn(journal)?;
    Ok(())
}

/// The number of active threads and tasks.
type Working = Arc<AtomicU64>;

/// Counts a thread or task as active until the value is dropped.
struct Worker(Working);

impl Worker {
    fn new(working: &Working) -> Self {
        add(working, 1);
        Self(working.clone())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn start(
    bus: &Broadcaster<Tick>,
    ledger: &Arc<Ledger>,
    seed: u64,
    runtime: &tokio::runtime::Runtime,
) -> Result<Working, Box<dyn Error>> {
    let working = Working::default();
    for number in 0..SOURCES {
        let worker = Worker::new(&working);
        let source = Source::new(ledger, bus.publisher(), seed, number);
        thread::Builder::new().name(format!("source-{number}")).spawn(move || {
            let _worker = worker;
            source.run();
        })?;
        let worker = Worker::new(&working);
        let source = Source::new(ledger, bus.publisher(), seed, SOURCES + number);
        runtime.spawn(async move {
            let _worker = worker;
            source.run_async().await;
        });
    }
    for number in 0..VISITORS {
        let worker = Worker::new(&working);
        let visitor = Visitor::new(ledger, bus, seed, number);
        thread::Builder::new().name(visitor.name.clone()).spawn(move || {
            let (ledger, name) = (visitor.ledger.clone(), visitor.name.clone());
            visitor.run();
            ledger.done(&name);
            drop(worker);
        })?;
        let worker = Worker::new(&working);
        let visitor = Visitor::new(ledger, bus, seed, VISITORS + number);
        runtime.spawn(async move {
            let (ledger, name) = (visitor.ledger.clone(), visitor.name.clone());
            visitor.run_async().await;
            ledger.done(&name);
            drop(worker);
        });
    }
    Ok(working)
}

/// Monitors the run until it is time to end. Prints a line every second, compares the counts every
/// two seconds, and samples memory in between. Returns the samples, in bytes.
fn watch_over(
    bus: &Broadcaster<Tick>,
    ledger: &Ledger,
    recording: &Recording,
    length: Duration,
    stop: &AtomicBool,
) -> Result<Vec<u64>, Box<dyn Error>> {
    let start = Instant::now();
    let (mut samples, mut seconds, mut lull) = (Vec::new(), 0, start + LULL);
    while start.elapsed() < length && !stop.load(Ordering::Relaxed) {
        thread::sleep(SAMPLE.min(length.saturating_sub(start.elapsed())));
        let resident = memory::resident();
        samples.extend(resident);
        look_at_live_events(ledger);
        if Instant::now() >= lull {
            if !hold_lull(bus, ledger) {
                break;
            }
            lull = Instant::now() + LULL;
        }
        if start.elapsed().as_secs() > seconds {
            seconds = start.elapsed().as_secs();
            say(&format!(
                "{seconds} s: {} accepted, {} rejected, {} received, {} missed, {} visits, {} watchers, {} panics, \
                 {} flushes, {} stored, {} live, {} resident, {} violated\n",
                get(&ledger.accepted),
                get(&ledger.full),
                get(&ledger.received),
                get(&ledger.lagged),
                get(&ledger.visits),
                bus.stats().watchers.len(),
                get(&ledger.panics),
                get(&ledger.flushes),
                recording.store.len(),
                tick::live(),
                resident.map_or("?".to_owned(), mebibytes),
                ledger.faults().len(),
            ))?;
        }
    }
    if stop.load(Ordering::Relaxed) {
        complain("stopping");
    }
    Ok(samples)
}

/// Checks that the number of live events does not exceed the bus's bound (G5) plus the events that
/// publishers and readers hold themselves.
fn look_at_live_events(ledger: &Ledger) {
    let watchers = 2 * VISITORS + 1;
    let bus = INCOMING * MAX_BATCH + JOURNAL + 2 * VISITORS * plan::QUEUE + 2 * MAX_BATCH * (watchers + 1);
    let own = 2 * VISITORS * (plan::PREFIX + 1) + 2 * SOURCES as u64 * publish::BATCH;
    let live = u64::try_from(tick::live()).unwrap_or(0);
    if live > bus + own {
        ledger.fault(format!("{live} events live, at most {} may", bus + own));
    }
}

/// Pauses the publishers until every watcher has read all of its events and the counts agree.
/// Returns `false` if the counts do not agree in time.
fn hold_lull(bus: &Broadcaster<Tick>, ledger: &Ledger) -> bool {
    let start = Instant::now();
    ledger.lull.store(true, Ordering::SeqCst);
    let wrong = loop {
        let rest = ledger.resting.load(Ordering::SeqCst) == 2 * SOURCES as u64;
        let wrong =
            if rest { ledger.compare(&bus.stats()) } else { vec!["a publisher does not pause".to_owned()] };
        if wrong.is_empty() || start.elapsed() > PATIENCE {
            break wrong;
        }
        thread::sleep(Duration::from_millis(1));
    };
    ledger.lull.store(false, Ordering::SeqCst);
    for text in &wrong {
        ledger.fault(format!("in a lull of {PATIENCE:?}, {text}; running: {}", ledger.working().join(", ")));
    }
    wrong.is_empty()
}

/// Closes the bus and waits for all threads and tasks. Returns whether all of them have ended.
fn end(bus: &Broadcaster<Tick>, ledger: &Ledger, working: Working) -> bool {
    ledger.over.store(true, Ordering::SeqCst);
    let report = bus.shutdown_timeout(PATIENCE);
    if !report.complete {
        ledger.fault(format!("the shutdown is not complete: {report}"));
    }
    let start = Instant::now();
    while working.load(Ordering::SeqCst) > 0 {
        if start.elapsed() > PATIENCE {
            ledger.fault(format!("these do not end: {}", ledger.working().join(", ")));
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    drop(working);
    for text in ledger.compare(&bus.stats()) {
        ledger.fault(format!("at the end, {text}"));
    }
    true
}
