//! A round and its checks.

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

use super::hostile::{Dice, HANGS, Hangs, Hostile, Known, OBJECTS, Seen, Thrown, key_of};

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

/// Returns options without groups and with no budget that could run out.
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

/// The state shared by a round's threads.
struct Round {
    known: Arc<Known>,
    events: Arc<EventBroadcaster>,
    broken: Arc<Mutex<Vec<String>>>,
    hangs: Arc<Hangs>,
    others: Arc<Mutex<Vec<RecordingHandle>>>,
    /// The index of the stopped recording.
    stopped: AtomicUsize,
}

impl Round {
    fn new(rng: &mut Rng) -> Self {
        let known = Arc::new(Known::default());
        let (hook, dice) = (known.clone(), Dice(Mutex::new(rng.fork())));
        let bus = BusOptions::default();
        let bus = bus.incoming_capacity(rng.pick(&[1, 4, 1000])).max_batch(rng.pick(&[1, 3, 256]));
        let builder = EventBroadcaster::builder().bus(bus.inline(rng.once_in(2)));
        let builder = builder.drop_timeout(Duration::from_millis(rng.below(3))).on_loss(move |loss| {
            let place = loss.place.to_owned();
            let key = (place.clone(), loss.reason.to_string());
            *hook.told.lock().unwrap().entry(key).or_default() += loss.count;
            hook.hurt.lock().unwrap().extend(loss.events.iter().map(|event| (place.clone(), key_of(event))));
            if dice.once_in(20) {
                hook.hook_panics.fetch_add(1, Ordering::SeqCst);
                panic_any(Thrown);
            }
        });
        Self {
            known,
            events: Arc::new(builder.build().unwrap()),
            broken: Arc::default(),
            hangs: Arc::default(),
            others: Arc::default(),
            stopped: AtomicUsize::new(usize::MAX),
        }
    }

    fn start(&self, rng: &mut Rng, number: u64) -> Running {
        let (seen, workers) = (Arc::new(Seen::default()), rng.pick(&[1, 1, 2, 3, 8]));
        let sink = Hostile {
            dice: Dice(Mutex::new(rng.fork())),
            faults: rng.pick(&[0, 2, 5, 30]),
            store: Mutex::default(),
            busy: Mutex::default(),
            seen: seen.clone(),
            hangs: self.hangs.clone(),
            workers,
            known: self.known.clone(),
            recorder: self.events.recorder("tester"),
            events: Arc::downgrade(&self.events),
            others: self.others.clone(),
            broken: self.broken.clone(),
            callbacks: AtomicU64::new(0),
        };
        let builder = self.events.recording().name(&format!("rec-{number}")).workers(workers);
        let mut builder = builder
            .queue_capacity(rng.pick(&[1, 2, 3, 8, 64, 1000]))
            .overflow(overflow(rng))
            .retry(policy(rng))
            .correlator(correlator(rng));
        if rng.once_in(3) {
            let dice = Dice(Mutex::new(rng.fork()));
            builder = builder.retry_if(move |_| match dice.below(10) {
                0 => panic_any(Thrown),
                other => other != 1,
            });
        }
        let handle = builder.start(sink).unwrap();
        self.others.lock().unwrap().push(handle.clone());
        Running { handle, seen }
    }

    fn publish(&self, mut rng: Rng) {
        let recorder = self.events.recorder("tester");
        for _ in 0..rng.below(200) {
            self.known.record(&recorder, rng.below(OBJECTS), rng.below(3));
            if rng.once_in(20) {
                thread::yield_now();
            }
        }
    }

    /// Flushes a few times. After each flush, a recording that was not stopped must have handled
    /// every event accepted before it.
    fn flush(&self, mut rng: Rng, handles: &[RecordingHandle]) {
        for _ in 0..rng.below(4) {
            let before = self.known.total();
            if self.events.flush(HANGS).is_err() {
                continue;
            }
            for (number, handle) in handles.iter().enumerate() {
                let is_late = |stats: &RecordingStats| {
                    stats.handled() + stats.watcher.dropped.total() < before
                        && self.stopped.load(Ordering::SeqCst) != number
                };
                // An event evicted by a later one is counted shortly after it is dropped.
                let (start, mut stats) = (Instant::now(), handle.stats());
                let may_be_late = stats.watcher.policy == Some(OverflowPolicy::DropOldest);
                while may_be_late && is_late(&stats) && start.elapsed() < HANGS {
                    thread::yield_now();
                    stats = handle.stats();
                }
                if is_late(&stats) {
                    let text = format!("the flush returned before {before} were handled: {stats:?}");
                    self.broken.lock().unwrap().push(text);
                }
            }
        }
    }

    /// Ends the broadcaster in one of several ways. Returns whether events may be abandoned.
    fn end(&self, rng: &mut Rng) -> bool {
        match rng.below(6) {
            0 => {
                self.events.close();
                self.events.shutdown();
            }
            1 => {
                drop(self.events.shutdown_timeout(Duration::from_micros(rng.below(3000))));
                return true;
            }
            2 => thread::scope(|scope| {
                let second = scope.spawn(|| self.events.shutdown());
                let report = self.events.shutdown();
                assert_eq!(second.join().unwrap(), report);
            }),
            _ => drop(self.events.shutdown()),
        }
        false
    }
}

pub(super) fn round(seed: u64) {
    let mut rng = Rng(seed);
    let round = Round::new(&mut rng);
    let running: Vec<_> = (0..=rng.below(3)).map(|number| round.start(&mut rng, number)).collect();
    let handles: Vec<_> = running.iter().map(|running| running.handle.clone()).collect();
    let gave_up = thread::scope(|scope| {
        let (round, handles) = (&round, &handles);
        let mut publishing: Vec<_> = (0..=rng.below(2))
            .map(|_| {
                let rng = rng.fork();
                scope.spawn(move || round.publish(rng))
            })
            .collect();
        let flushing = rng.fork();
        scope.spawn(move || round.flush(flushing, handles));
        if rng.once_in(3) {
            (0..rng.below(100)).for_each(|_| thread::yield_now());
            let chosen = rng.below(running.len() as u64) as usize;
            round.stopped.store(chosen, Ordering::SeqCst);
            handles[chosen].stop();
        }
        if rng.once_in(2) {
            publishing.drain(..).for_each(|publishing| publishing.join().unwrap());
            if rng.once_in(2) {
                let _ = round.events.flush(HANGS);
            }
        }
        (0..rng.below(200)).for_each(|_| thread::yield_now());
        let gave_up = round.end(&mut rng);
        round.hangs.release();
        gave_up
    });
    for handle in &handles {
        assert!(handle.join(HANGS), "a recording does not end: {:?}", handle.stats());
    }
    assert_eq!(*round.broken.lock().unwrap(), Vec::<String>::new());
    for (number, running) in running.iter().enumerate() {
        check(running, &round.known, gave_up || round.stopped.load(Ordering::SeqCst) == number);
    }
}

/// Checks one recording against the round's counts. If `cut` is set, the recording does not have to
/// have been offered every event.
fn check(running: &Running, known: &Known, cut: bool) {
    let Running { handle, seen } = running;
    assert!(seen.gone.load(Ordering::SeqCst), "the sink outlives the join");
    // The dispatcher counts events that it was still offering at shutdown, or had to abandon, only
    // later.
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
    // A write that the store performed may be counted as lost, but every write that is counted as
    // stored was performed.
    assert!(stats.written() <= seen.stored.load(Ordering::SeqCst), "{stats:?}");
    let (watcher, dropped, name) = (&stats.watcher, &stats.watcher.dropped, &stats.watcher.name);
    assert_eq!((watcher.queued, watcher.lag), (0, 0), "{stats:?}");
    let mut carried = 0;
    for (reason, count) in [
        (LossReason::AlreadyExists, stats.already_existed),
        (LossReason::Rejected, stats.rejected),
        (LossReason::Exhausted, stats.exhausted),
        (LossReason::Abandoned, stats.abandoned),
    ] {
        // A later write may have carried the count of an event previously reported as lost.
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
    // The dispatcher may still be running. It first counts the events that it discards, and then
    // reports them.
    let abandoned = LossReason::Dropped(DropReason::Abandoned);
    while known.told(name, abandoned) != handle.stats().watcher.dropped.abandoned {
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
