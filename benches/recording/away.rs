//! Measures a recording whose store is unavailable while repeats of the waiting events keep
//! arriving.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use eventcast::correlator::EventCorrelator;
use eventcast::record::RecordingHandle;
use eventcast::{CorrelatorOptions, EventBroadcaster, OverflowPolicy};
use eventcast_benches::recorded::{events_about, pods};
use eventcast_benches::threads::Others;

use crate::ledger::Ledger;
use crate::row::{Figure, Load, processor_time_so_far};
use crate::slow::record_all;
use crate::way::LONG;

/// The capacity of the recording's queue and of the correlator's caches, which is enough for two
/// events per key with space to spare.
const ROOM: usize = 1 << 18;

/// Measures how many repeats a recording absorbs per second while 100 to 100,000 keys wait for an
/// unavailable store.
pub(crate) fn waiting(load: &Load) -> Vec<Figure> {
    let events = load.events(500_000);
    let sizes: &[u64] = if load.quick { &[100, 1000] } else { &[100, 1000, 10_000, 100_000] };
    let rounds: Vec<_> = sizes.iter().map(|keys| (*keys, absorbed(*keys, events))).collect();
    let rate = |(keys, (elapsed, _)): &(u64, Absorbed)| {
        let rate = events as f64 / elapsed.as_secs_f64();
        Figure::new(format!("store away, repeats of {keys} waiting keys"), rate, "events/s")
    };
    let processor = |(keys, (_, time)): &(u64, Absorbed)| {
        let name = format!("store away, repeats of {keys} waiting keys, processor");
        time.map(|time| Figure::new(name, time.as_secs_f64() * 1e6 / events as f64, "us"))
    };
    let alone = |keys: &u64| {
        let name = format!("the correlator alone, repeats of {keys} objects, processor");
        Figure::new(name, correlated(*keys, events).as_secs_f64() * 1e6 / events as f64, "us")
    };
    let mut figures: Vec<_> = rounds.iter().map(rate).chain(rounds.iter().filter_map(processor)).collect();
    figures.extend(sizes.iter().map(alone));
    if let [(_, few), .., (_, many)] = &rounds[..] {
        let ratio = many.0.as_secs_f64() / few.0.as_secs_f64();
        figures.push(Figure::new("store away, rate with the fewest by the most", ratio, "times"));
        // The system measures CPU time in steps, and a short round may fit into a single step.
        if let (Some(few), Some(many)) = (few.1.filter(|time| !time.is_zero()), many.1) {
            let ratio = many.as_secs_f64() / few.as_secs_f64();
            figures.push(Figure::new("store away, processor with the most by the fewest", ratio, "times"));
        }
    }
    figures
}

/// The time for all repeats, and the CPU time that the library's threads used during this time.
type Absorbed = (Duration, Option<Duration>);

fn absorbed(keys: u64, events: u64) -> Absorbed {
    let pods = pods(keys);
    let ledger = Arc::new(Ledger::default());
    let broadcaster = EventBroadcaster::new().expect("the defaults are in range");
    let options = CorrelatorOptions::default().spam_filter(None).cache_size(ROOM);
    let recording = broadcaster.recording().queue_capacity(ROOM).overflow(OverflowPolicy::Wait);
    let recording = recording.correlator(options).start(ledger.clone()).expect("the system gives a thread");
    let recorder = broadcaster.recorder("kubelet");
    let record_round = || pods.iter().for_each(|pod| record_all(&recorder, pod));
    record_round();
    broadcaster.flush(LONG).expect("the store answers");

    // While two repeats of each key are waiting, each further repeat is absorbed.
    ledger.set_away(true);
    record_round();
    record_round();
    let lag = settled(&recording, 3 * keys);
    let threads = Others::of_this_thread();
    let (before, start) = (processor_time_so_far(&threads), Instant::now());
    for number in 0..events {
        record_all(&recorder, &pods[(number % keys) as usize]);
    }
    // An event that arrives while its key is being retried may have to wait as well.
    let most = lag + keys / 20 + 8;
    let absorbs = || {
        let watcher = recording.stats().watcher;
        watcher.offered < 3 * keys + events || watcher.lag > most
    };
    while absorbs() {
        assert!(start.elapsed() < LONG, "repeats of waiting keys are not absorbed");
        thread::yield_now();
    }
    let elapsed = start.elapsed();
    let processor =
        processor_time_so_far(&threads).zip(before).map(|(after, before)| after.saturating_sub(before));

    ledger.set_away(false);
    // The shutdown does not wait for the next attempt.
    broadcaster.shutdown();
    let stats = recording.stats();
    assert_eq!((stats.created, stats.updated, stats.lost()), (keys, 2 * keys + events, 0), "{stats}");
    ledger.checked(&pods, |at| 3 + events / keys + u64::from(at < events % keys));
    (elapsed, processor)
}

/// Returns the CPU time of correlating the same number of repeats, without a recording. The CPU
/// time increases with the number of objects, because the objects' entries do not remain in the
/// processor's caches.
fn correlated(keys: u64, events: u64) -> Duration {
    let about = events_about(&pods(keys));
    let options = CorrelatorOptions::default().spam_filter(None).cache_size(ROOM);
    let correlator = EventCorrelator::new(options).expect("the options are in range");
    for event in &about {
        correlator.correlate(event);
    }
    let before = ThreadTime::now();
    for number in 0..events {
        correlator.correlate(&about[(number % keys) as usize]);
    }
    let elapsed = before.elapsed();
    let stats = correlator.stats();
    assert_eq!((stats.created, stats.updated), (keys, events));
    elapsed
}

/// Waits until the recording has accepted the given number of events, and returns how many of the
/// events still take up queue capacity.
fn settled(recording: &RecordingHandle, events: u64) -> u64 {
    let mut last = None;
    loop {
        let watcher = recording.stats().watcher;
        let state = (watcher.offered == events).then_some(watcher.lag);
        if state.is_some() && state == last {
            return watcher.lag;
        }
        last = state;
        thread::sleep(Duration::from_millis(20));
    }
}
