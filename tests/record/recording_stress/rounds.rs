//! A round of everything at once, and the check of it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::panic::panic_any;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use eventcast::correlator::SpamFilter;
use eventcast::record::{Jitter, LossReason, RecordingHandle};
use eventcast::stats::{DropReason, RecordingStats};
use eventcast::{BusOptions, CorrelatorOptions, EventBroadcaster, OverflowPolicy, RetryPolicy};
use test_support::Rng;

use super::{Dice, HANGS, Hangs, Hostile, Known, OBJECTS, Seen, Thrown, key_of};

fn policy(rng: &mut Rng) -> RetryPolicy {
    RetryPolicy::default()
        .attempts(rng.pick(&[1, 2, 3, 12, 1000]))
        .delay(Duration::from_micros(rng.pick(&[0, 1, 50, 300])))
        .jitter(rng.pick(&[Jitter::First, Jitter::All, Jitter::Never]))
}

fn overflow(rng: &mut Rng) -> OverflowPolicy {
    let limit = Duration::from_micros(rng.below(300));
    rng.pick(&[
        OverflowPolicy::DropIncoming,
        OverflowPolicy::DropOldest,
        OverflowPolicy::Wait,
        OverflowPolicy::WaitFor(limit),
    ])
}

/// Returns options without groups, and without a budget that could be used up.
fn correlator(rng: &mut Rng) -> CorrelatorOptions {
    let mut options = CorrelatorOptions::off();
    if rng.once_in(3) {
        let budget = SpamFilter::default().burst(1_000_000).qps(1e6);
        let dice = Dice(Mutex::new(rng.fork()));
        options = options.spam_filter(budget).spam_key(move |event| {
            if dice.once_in(30) {
                panic_any(Thrown);
            }
            event.involved_object.name.clone()
        });
    }
    options
}

struct Running {
    handle: RecordingHandle,
    seen: Arc<Seen>,
}

#[allow(clippy::too_many_lines, reason = "one round, from its beginning to its end")]
pub(super) fn round(seed: u64) {
    let mut rng = Rng(seed);
    let known = Arc::new(Known::default());
    let broken = Arc::new(Mutex::new(Vec::new()));
    let (hook, dice) = (known.clone(), Dice(Mutex::new(rng.fork())));
    let bus = BusOptions::default().incoming_len(rng.pick(&[1, 4, 1000])).max_batch(rng.pick(&[1, 3, 256]));
    let events = EventBroadcaster::builder()
        .bus(bus.inline(rng.once_in(2)))
        .drop_timeout(Duration::from_millis(rng.below(3)))
        .on_loss(move |loss| {
            let place = loss.place.to_owned();
            *hook.told.lock().unwrap().entry((place.clone(), loss.reason.to_string())).or_default() +=
                loss.count;
            hook.hurt.lock().unwrap().extend(loss.events.iter().map(|event| (place.clone(), key_of(event))));
            if dice.once_in(20) {
                hook.hook_panics.fetch_add(1, Ordering::SeqCst);
                panic_any(Thrown);
            }
        })
        .build()
        .unwrap();
    let events = Arc::new(events);
    let others: Arc<Mutex<Vec<RecordingHandle>>> = Arc::default();
    let hangs = Arc::new(Hangs::default());
    let mut running = Vec::new();
    for number in 0..=rng.below(3) {
        let (seen, workers) = (Arc::new(Seen::default()), rng.pick(&[1, 1, 2, 3, 8]));
        let sink = Hostile {
            dice: Dice(Mutex::new(rng.fork())),
            faults: rng.pick(&[0, 2, 5, 30]),
            store: Mutex::default(),
            busy: Mutex::default(),
            seen: seen.clone(),
            hangs: hangs.clone(),
            workers,
            known: known.clone(),
            recorder: events.recorder("tester"),
            events: Arc::downgrade(&events),
            others: others.clone(),
            broken: broken.clone(),
            callbacks: AtomicU64::new(0),
        };
        let mut builder = events
            .recording()
            .name(&format!("rec-{number}"))
            .workers(workers)
            .queue_len(rng.pick(&[1, 2, 3, 8, 64, 1000]))
            .overflow(overflow(&mut rng))
            .retry(policy(&mut rng))
            .correlator(correlator(&mut rng));
        if rng.once_in(3) {
            let dice = Dice(Mutex::new(rng.fork()));
            builder = builder.retry_if(move |_| match dice.below(10) {
                0 => panic_any(Thrown),
                other => other != 1,
            });
        }
        let handle = builder.start(sink).unwrap();
        others.lock().unwrap().push(handle.clone());
        running.push(Running { handle, seen });
    }
    // The number of the recording that is stopped.
    let stopped = Arc::new(AtomicUsize::new(usize::MAX));
    let mut publishing: Vec<_> = (0..=rng.below(2))
        .map(|_| {
            let (mut rng, known, recorder) = (rng.fork(), known.clone(), events.recorder("tester"));
            thread::spawn(move || {
                for _ in 0..rng.below(200) {
                    known.record(&recorder, rng.below(OBJECTS), rng.below(3));
                    if rng.once_in(20) {
                        thread::yield_now();
                    }
                }
            })
        })
        .collect();
    let flushing = {
        let (mut rng, known, events) = (rng.fork(), known.clone(), events.clone());
        let (stopped, broken) = (stopped.clone(), broken.clone());
        let handles: Vec<RecordingHandle> = running.iter().map(|running| running.handle.clone()).collect();
        thread::spawn(move || {
            for _ in 0..rng.below(4) {
                let before = known.total();
                if events.flush(HANGS).is_ok() {
                    for (number, handle) in handles.iter().enumerate() {
                        let mut stats = handle.stats();
                        let handled =
                            |stats: &RecordingStats| stats.handled() + stats.watcher.dropped.total();
                        // An event that is dropped to make room for a later one is counted a little
                        // after it was dropped.
                        let start = Instant::now();
                        while stats.watcher.policy == Some(OverflowPolicy::DropOldest)
                            && handled(&stats) < before
                            && stopped.load(Ordering::SeqCst) != number
                            && start.elapsed() < HANGS
                        {
                            thread::yield_now();
                            stats = handle.stats();
                        }
                        if handled(&stats) < before && stopped.load(Ordering::SeqCst) != number {
                            broken
                                .lock()
                                .unwrap()
                                .push(format!("flushed before {before} were through: {stats:?}"));
                        }
                    }
                }
            }
        })
    };
    if rng.once_in(3) {
        (0..rng.below(100)).for_each(|_| thread::yield_now());
        let chosen = rng.below(running.len() as u64) as usize;
        stopped.store(chosen, Ordering::SeqCst);
        running[chosen].handle.stop();
    }
    if rng.once_in(2) {
        for publishing in publishing.drain(..) {
            publishing.join().unwrap();
        }
        if rng.once_in(2) {
            let _ = events.flush(HANGS);
        }
    }
    (0..rng.below(200)).for_each(|_| thread::yield_now());
    let gave_up = match rng.below(6) {
        0 => {
            events.close();
            events.shutdown();
            false
        }
        1 => {
            drop(events.shutdown_timeout(Duration::from_micros(rng.below(3000))));
            true
        }
        2 => {
            let other = events.clone();
            let second = thread::spawn(move || other.shutdown());
            let report = events.shutdown();
            assert_eq!(second.join().unwrap(), report);
            false
        }
        _ => {
            events.shutdown();
            false
        }
    };
    hangs.release();
    flushing.join().unwrap();
    for publishing in publishing {
        publishing.join().unwrap();
    }
    for Running { handle, .. } in &running {
        assert!(handle.join(HANGS), "a recording does not come to its end: {:?}", handle.stats());
    }
    assert_eq!(*broken.lock().unwrap(), Vec::<String>::new());
    for (number, running) in running.iter().enumerate() {
        check(running, &known, gave_up || stopped.load(Ordering::SeqCst) == number);
    }
}

/// Checks one recording against the counts of the round. If `cut` is set, the recording need not
/// have been offered every event.
fn check(running: &Running, known: &Known, cut: bool) {
    let Running { handle, seen } = running;
    assert!(seen.gone.load(Ordering::SeqCst), "the sink outlives the join");
    // The dispatcher counts later the events that it was offering at the end, or had to abandon.
    let start = Instant::now();
    let stats = loop {
        let stats: RecordingStats = handle.stats();
        let watcher = &stats.watcher;
        let is_offered = cut || watcher.offered == known.total();
        let is_decided = watcher.offered == watcher.delivered + watcher.dropped.total();
        if is_offered && is_decided && watcher.delivered == stats.handled() {
            break stats;
        }
        assert!(start.elapsed() < HANGS, "of {}: {stats:?}", known.total());
        thread::yield_now();
    };
    assert!(stats.coalesced <= stats.created + stats.updated, "{stats:?}");
    // A write that the store did may count as lost, but every write that counts was done.
    assert!(stats.written() <= seen.stored.load(Ordering::SeqCst), "{stats:?}");
    let watcher = &stats.watcher;
    let dropped = &watcher.dropped;
    assert_eq!((watcher.queued, watcher.lag), (0, 0), "{stats:?}");
    let name = &watcher.name;
    let mut carried = 0;
    for (reason, count) in [
        (LossReason::AlreadyExists, stats.already_existed),
        (LossReason::Rejected, stats.rejected),
        (LossReason::Exhausted, stats.exhausted),
        (LossReason::Abandoned, stats.abandoned),
    ] {
        // A later write may have carried the count of an event that was given up.
        let told = known.told(name, reason);
        assert!(told >= count, "{reason}: {told} told, {stats:?}");
        carried += told - count;
    }
    assert!(carried <= stats.coalesced, "{carried} carried: {stats:?}");
    for (reason, count) in [
        (LossReason::Dropped(DropReason::Incoming), dropped.incoming),
        (LossReason::Dropped(DropReason::Oldest), dropped.oldest),
        (LossReason::Dropped(DropReason::TimedOut), dropped.timed_out),
    ] {
        assert_eq!(known.told(name, reason), count, "{reason}: {stats:?}");
    }
    // The dispatcher may still be at work: it counts the events that it discards, and then reports
    // them.
    let abandoned = LossReason::Dropped(DropReason::Abandoned);
    let is_told = || known.told(name, abandoned) == handle.stats().watcher.dropped.abandoned;
    while !is_told() {
        assert!(start.elapsed() < HANGS, "{} told: {:?}", known.told(name, abandoned), handle.stats());
        thread::yield_now();
    }
    if cut {
        return;
    }
    let (hurt, counts) = (known.hurt.lock().unwrap(), seen.counts.lock().unwrap());
    for (key, accepted) in &*known.accepted.lock().unwrap() {
        if !hurt.contains(&(name.clone(), key.clone())) {
            let stored = counts.get(key).copied().unwrap_or(0);
            assert_eq!(u64::try_from(stored).unwrap(), *accepted, "{key}: {stats:?}");
        }
    }
}
