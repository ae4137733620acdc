//! Many small rounds of everything at once, each from a seed of its own, and each checked to the last event: against
//! counts that the threads of the test kept themselves, and against the one order in which a watcher that never loses
//! anything saw the events.
//!
//! A round has publishers (all ways to publish), readers of every policy that come, go, stop, panic, handlers that
//! panic, filters that panic, events whose `Clone` panics, flushes, snapshots, and in the middle of it the end, with or
//! without a deadline, once or twice at the same time. `EVENTCAST_STRESS_ROUNDS` sets how many rounds there are (5000, some seconds),
//! `EVENTCAST_STRESS_SEED` with which seed they begin; a failure names the seed of its round.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test stands outside the library")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use eventcast::{
    Broadcaster, BusOptions, Delivery, FlushError, OverflowPolicy, PublishError, Publisher, ShutdownReport,
    WatchBuilder, WatchHandle, Watcher, WatcherStats,
};

/// A round takes some milliseconds; only one that hangs takes this long.
const HANGS: Duration = Duration::from_secs(180);
const FOREVER: Duration = Duration::MAX;
const MAX_PUBLISHERS: u64 = 3;
const HAMMER_EVENTS: u32 = 1000;

/// A small generator of our own (splitmix64), so that a seed means the same everywhere.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// True once in so many times.
    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    fn fork(&mut self) -> Self {
        Self(self.next())
    }
}

/// Which event it is. Also what every panic of this test carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ident {
    publisher: u32,
    number: u32,
}

struct Payload {
    ident: Ident,
    /// Its `Clone` panics.
    is_poison: bool,
    alive: Arc<AtomicI64>,
}

impl Payload {
    fn new(ident: Ident, is_poison: bool, alive: &Arc<AtomicI64>) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Self { ident, is_poison, alive: alive.clone() }
    }
}

impl Clone for Payload {
    fn clone(&self) -> Self {
        if self.is_poison {
            panic_any(self.ident);
        }
        Self::new(self.ident, false, &self.alive)
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

/// One delivery, as written down by its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Event(Ident),
    Lagged(u64),
}

fn events_in(log: &[Item]) -> u64 {
    log.iter().filter(|item| matches!(item, Item::Event(_))).count() as u64
}

fn lagged_in(log: &[Item]) -> u64 {
    log.iter().map(|item| if let Item::Lagged(count) = item { *count } else { 0 }).sum()
}

/// What a watcher is offered, by the event's number: all, or all but every so manieth.
#[derive(Clone, Copy, Debug)]
struct Wanted(Option<u32>);

impl Wanted {
    fn has(self, ident: Ident) -> bool {
        self.0.is_none_or(|n| ident.number % n != 0)
    }
}

/// How a watcher was made, and between which events of the registering publisher.
#[derive(Clone, Copy, Debug)]
struct Made {
    policy: OverflowPolicy,
    queue_len: u64,
    wanted: Wanted,
    /// By which publisher, and how many of its events had been accepted before. None: before the first publish.
    by: Option<(u32, usize)>,
    /// Its filter panics once, and so ends it.
    ends_itself: bool,
}

/// A reader at its end.
struct Read {
    made: Made,
    log: Vec<Item>,
    /// Still there, having read to the end of the bus; or gone before.
    kept: Option<Watcher<Payload>>,
}

struct Handled {
    made: Made,
    handle: WatchHandle,
    log: Arc<Mutex<Vec<Item>>>,
    position: Arc<AtomicU64>,
    thrown: Arc<AtomicU64>,
    was_stopped: bool,
}

/// What a publisher was told.
#[derive(Default)]
struct Published {
    accepted: Vec<Ident>,
    full: u64,
    stopped: u64,
    readers: Vec<JoinHandle<Read>>,
    /// A flush that succeeded: so many of my events were accepted before, and each handler had come to that position.
    flushes: Vec<(usize, Vec<u64>)>,
}

impl Published {
    fn refused(&mut self, is_full: bool, events: u64) {
        *(if is_full { &mut self.full } else { &mut self.stopped }) += events;
    }
}

fn random_watcher<'b>(
    bus: &'b Broadcaster<Payload>,
    rng: &mut Rng,
    by: Option<(u32, usize)>,
    lossless: bool,
) -> (WatchBuilder<'b, Payload>, Made) {
    let policy = if lossless {
        OverflowPolicy::Wait
    } else {
        rng.pick(&[
            OverflowPolicy::DropIncoming,
            OverflowPolicy::DropOldest,
            OverflowPolicy::Wait,
            OverflowPolicy::WaitFor(Duration::ZERO),
            OverflowPolicy::WaitFor(Duration::from_micros(50)),
            OverflowPolicy::WaitFor(FOREVER),
        ])
    };
    let queue_len = rng.pick(&[1, 1, 2, 3, 5, 8, 16, 64]);
    let wanted = Wanted(if rng.once_in(3) { Some(rng.pick(&[1, 2, 3, 7])) } else { None });
    let ends_itself = !lossless && rng.once_in(10);
    let bomb = ends_itself.then(|| rng.below(60));
    let mut seen = 0;
    let mut builder = bus.watch_builder().queue_len(queue_len).overflow(policy);
    if wanted.0.is_some() || bomb.is_some() {
        builder = builder.filter(move |event: &Payload| {
            seen += 1;
            if bomb.is_some_and(|at| seen > at) {
                panic_any(event.ident);
            }
            wanted.has(event.ident)
        });
    }
    if rng.once_in(4) {
        let panics = rng.once_in(2);
        builder = builder.on_drop(move |_, events| {
            assert!(!events.is_empty());
            if panics {
                panic_any(events[0].ident);
            }
        });
    }
    (builder, Made { policy, queue_len: queue_len as u64, wanted, by, ends_itself })
}

/// One receive, in a random form. False: the end.
fn receive(watcher: &mut Watcher<Payload>, rng: &mut Rng, log: &mut Vec<Item>) -> bool {
    let item = |delivery: Delivery<&Payload>| match delivery {
        Delivery::Event(event) => Item::Event(event.ident),
        Delivery::Lagged(count) => Item::Lagged(count),
    };
    let form = rng.below(6);
    let received = catch_unwind(AssertUnwindSafe(|| match form {
        0 => watcher.recv().map(|d| log.push(item(d.as_ref()))).is_ok(),
        1 => match watcher.try_recv() {
            Ok(d) => {
                log.push(item(d.as_ref()));
                true
            }
            Err(error) => {
                thread::yield_now();
                error == eventcast::TryRecvError::Empty
            }
        },
        2 => match watcher.recv_timeout(Duration::from_micros(20)) {
            Ok(d) => {
                log.push(item(d.as_ref()));
                true
            }
            Err(error) => error == eventcast::RecvTimeoutError::Timeout,
        },
        3 => watcher.recv_ref().map(|d| log.push(item(d))).is_ok(),
        _ => watcher
            .recv_batch()
            .map(|batch| {
                if batch.lagged > 0 {
                    log.push(Item::Lagged(batch.lagged));
                }
                log.extend(batch.iter().map(|event| Item::Event(event.ident)));
            })
            .is_ok(),
    }));
    match received {
        Ok(more) => more,
        // A `Clone` that panicked: the event counts as delivered.
        Err(payload) => match payload.downcast::<Ident>() {
            Ok(ident) => {
                log.push(Item::Event(*ident));
                true
            }
            Err(payload) => resume_unwind(payload),
        },
    }
}

/// Reads a watcher to its end, or leaves before.
fn spawn_reader(mut watcher: Watcher<Payload>, made: Made, mut rng: Rng, stays: bool) -> JoinHandle<Read> {
    let leaves_after = if stays || rng.once_in(2) { u64::MAX } else { rng.below(40) };
    thread::spawn(move || {
        let mut log = Vec::new();
        let mut more = true;
        while more && (log.len() as u64) < leaves_after {
            more = receive(&mut watcher, &mut rng, &mut log);
            if rng.once_in(8) {
                thread::yield_now();
            }
        }
        if more {
            match rng.below(3) {
                0 => drop(watcher),
                1 => {
                    watcher.stop();
                    while receive(&mut watcher, &mut rng, &mut log) {}
                    drop(watcher);
                }
                _ => {
                    // A reader that panics with the watcher on its stack.
                    let gone = catch_unwind(AssertUnwindSafe(move || {
                        let _watcher = watcher;
                        panic_any(Ident { publisher: 0, number: 0 });
                    }));
                    assert!(gone.is_err());
                }
            }
            return Read { made, log, kept: None };
        }
        assert!(watcher.recv().is_err(), "the end is for ever");
        let kept = (!made.ends_itself).then_some(watcher);
        Read { made, log, kept }
    })
}

fn spawn_handler(bus: &Broadcaster<Payload>, rng: &mut Rng) -> Handled {
    let (builder, made) = random_watcher(bus, rng, None, false);
    let log = Arc::new(Mutex::new(Vec::new()));
    let position = Arc::new(AtomicU64::new(0));
    let thrown = Arc::new(AtomicU64::new(0));
    let panics = if rng.once_in(2) { Some(rng.pick(&[1, 3, 10])) } else { None };
    let (to_log, to_position, to_thrown) = (log.clone(), position.clone(), thrown.clone());
    let handler = move |delivery: Delivery<&Payload>| {
        let ident = match delivery {
            Delivery::Event(event) => {
                to_log.lock().unwrap().push(Item::Event(event.ident));
                to_position.fetch_add(1, Ordering::SeqCst);
                event.ident
            }
            Delivery::Lagged(count) => {
                to_log.lock().unwrap().push(Item::Lagged(count));
                to_position.fetch_add(count, Ordering::SeqCst);
                Ident { publisher: 0, number: count as u32 }
            }
        };
        if panics.is_some_and(|n| ident.number % n == 0) {
            to_thrown.fetch_add(1, Ordering::SeqCst);
            panic_any(ident);
        }
    };
    let handle = builder.spawn(handler).unwrap();
    Handled { made, handle, log, position, thrown, was_stopped: false }
}

struct Round {
    bus: Arc<Broadcaster<Payload>>,
    alive: Arc<AtomicI64>,
    /// Publishes that have returned.
    progress: AtomicU64,
    /// A watcher is not read before the end, so a long flush would wait for ever.
    is_stuck: bool,
    poison: bool,
    positions: Vec<Arc<AtomicU64>>,
}

fn publisher(round: &Round, number: u32, mut rng: Rng) -> Published {
    let publisher = round.bus.publisher();
    let mut told = Published::default();
    let mut next = 0;
    let mut after_the_end = 0;
    let events = rng.below(60);
    while next < events as u32 && after_the_end < 5 {
        let mut make = |rng: &mut Rng| {
            let ident = Ident { publisher: number, number: next };
            next += 1;
            Payload::new(ident, round.poison && rng.once_in(6), &round.alive)
        };
        let before = told.stopped;
        match rng.below(12) {
            0..=2 => {
                let event = make(&mut rng);
                note_one(&mut told, event.ident, publisher.try_publish(event));
            }
            3..=4 => {
                let event = make(&mut rng);
                note_one(&mut told, event.ident, publisher.publish(event));
            }
            5 => {
                let timeout = Duration::from_micros(rng.pick(&[0, 1, 30]));
                let event = make(&mut rng);
                note_one(&mut told, event.ident, publisher.publish_timeout(event, timeout));
            }
            form @ 6..=9 => {
                let count = rng.below(12);
                let batch: Vec<_> = (0..count).map(|_| make(&mut rng)).collect();
                let idents: Vec<_> = batch.iter().map(|event| event.ident).collect();
                note_batch(&mut told, &idents, publish_batch(&publisher, batch, form < 8));
            }
            10 => watch_in_between(round, &mut told, number, &mut rng),
            _ => flush_in_between(round, &mut told, &mut rng),
        }
        round.progress.fetch_add(1, Ordering::SeqCst);
        after_the_end += u32::from(told.stopped > before);
    }
    told
}

/// Publishes one by one as fast as it can, so that the end comes in the middle of a publish.
fn hammer(round: &Round, number: u32) -> Published {
    let publisher = round.bus.publisher();
    let mut told = Published::default();
    for next in 0..HAMMER_EVENTS {
        let ident = Ident { publisher: number, number: next };
        let event = Payload::new(ident, false, &round.alive);
        note_one(&mut told, ident, publisher.try_publish(event));
        round.progress.fetch_add(1, Ordering::Relaxed);
        if told.stopped > 0 {
            break;
        }
    }
    told
}

fn publish_batch(
    publisher: &Publisher<Payload>,
    batch: Vec<Payload>,
    waits: bool,
) -> Result<(), PublishError<Vec<Payload>>> {
    if waits { publisher.publish_batch(batch) } else { publisher.try_publish_batch(batch) }
}

fn note_one(told: &mut Published, ident: Ident, result: Result<(), PublishError<Payload>>) {
    match result {
        Ok(()) => told.accepted.push(ident),
        Err(error) => {
            told.refused(error.is_full(), 1);
            assert_eq!(error.into_inner().ident, ident, "the refused event comes back");
        }
    }
}

fn note_batch(told: &mut Published, idents: &[Ident], result: Result<(), PublishError<Vec<Payload>>>) {
    match result {
        Ok(()) => told.accepted.extend(idents),
        Err(error) => {
            let is_full = error.is_full();
            let back: Vec<_> = error.into_inner().iter().map(|event| event.ident).collect();
            let (accepted, refused) = idents.split_at(idents.len() - back.len());
            assert_eq!(refused, back, "what was refused comes back, in order");
            assert!(!back.is_empty());
            told.accepted.extend(accepted);
            told.refused(is_full, back.len() as u64);
        }
    }
}

/// Registers a watcher between two of this publisher's events, so that its place in the order is known.
fn watch_in_between(round: &Round, told: &mut Published, number: u32, rng: &mut Rng) {
    let by = Some((number, told.accepted.len()));
    let (builder, made) = random_watcher(&round.bus, rng, by, false);
    match builder.watch() {
        Ok(watcher) if rng.once_in(6) => {
            // Gone before it is registered, perhaps.
            drop(watcher);
        }
        Ok(watcher) => {
            let stop = rng.once_in(6).then(|| watcher.stop_handle());
            told.readers.push(spawn_reader(
                watcher,
                Made { ends_itself: made.ends_itself || stop.is_some(), ..made },
                rng.fork(),
                false,
            ));
            if let Some(stop) = stop {
                stop.stop();
                stop.stop();
            }
        }
        Err(error) => assert!(matches!(error, eventcast::WatchError::Stopped), "{error}"),
    }
}

fn flush_in_between(round: &Round, told: &mut Published, rng: &mut Rng) {
    let timeout =
        if round.is_stuck || rng.once_in(2) { Duration::from_micros(rng.below(300)) } else { FOREVER };
    let accepted = told.accepted.len();
    match round.bus.flush(timeout) {
        Ok(()) => {
            let positions = round.positions.iter().map(|p| p.load(Ordering::SeqCst)).collect();
            told.flushes.push((accepted, positions));
        }
        Err(FlushError::Timeout { .. }) => assert!(timeout < FOREVER),
        Err(FlushError::Abandoned) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Waits until enough has happened, or for a while: a stuck round goes no further by itself. Beside busy programs each
/// yield may take some milliseconds, so the while is bounded in time, too.
#[allow(clippy::disallowed_methods, reason = "real time, in which other programs run")]
fn wait_for_progress(round: &Round, until: u64, rng: &mut Rng) {
    let began = Instant::now();
    for _ in 0..200 {
        if round.progress.load(Ordering::SeqCst) >= until || began.elapsed() > Duration::from_millis(2) {
            break;
        }
        if rng.once_in(4) {
            check_running(round);
        }
        thread::yield_now();
    }
}

/// While it runs, nothing is delivered or lost that was not offered.
fn check_running(round: &Round) {
    let stats = round.bus.stats();
    for watcher in stats.watchers.iter().chain([&stats.departed]) {
        assert!(watcher.delivered + watcher.dropped.total() <= watcher.offered, "{watcher}");
    }
}

fn end(round: &Round, rng: &mut Rng) -> ShutdownReport {
    let bus = &*round.bus;
    let millis = Duration::from_millis(rng.pick(&[0, 1, 2]));
    let long = Duration::from_secs(3600);
    let kind = rng.below(6);
    thread::scope(|scope| {
        let other = match kind {
            0 => Some(scope.spawn(move || bus.shutdown())),
            1 => Some(scope.spawn(move || bus.shutdown_timeout(long))),
            _ => None,
        };
        if kind == 2 {
            bus.close();
        }
        let report = if round.is_stuck || rng.once_in(3) {
            bus.shutdown_timeout(millis)
        } else if rng.once_in(2) {
            bus.shutdown_timeout(long)
        } else {
            bus.shutdown()
        };
        if let Some(other) = other {
            assert_eq!(other.join().unwrap(), report, "every shutdown gets the same report");
        }
        assert_eq!(bus.shutdown(), report);
        report
    })
}

fn run_round(seed: u64) {
    let mut rng = Rng(seed);
    let alive = Arc::new(AtomicI64::new(0));
    let hammers = rng.once_in(3);
    let incoming_len = if hammers { rng.pick(&[16, 512]) } else { rng.pick(&[1, 1, 2, 5, 16]) };
    let options = BusOptions::default().incoming_len(incoming_len).max_batch(rng.pick(&[1, 2, 3, 8, 64]));
    let bus = Arc::new(Broadcaster::with_options(options).unwrap());

    // The one that never loses anything, because nothing more can come than fits.
    let mut witness = bus.watch_builder().name("witness").queue_len(4096).watch().unwrap();
    let mut readers = Vec::new();
    for i in 0..rng.below(4) {
        let lossless = i == 0;
        let (builder, made) = random_watcher(&bus, &mut rng, None, lossless);
        readers.push(spawn_reader(builder.watch().unwrap(), made, rng.fork(), lossless));
    }
    let mut handlers: Vec<_> = (0..rng.below(3)).map(|_| spawn_handler(&bus, &mut rng)).collect();
    let is_stuck = rng.once_in(4);
    let stuck = is_stuck.then(|| {
        let (builder, made) = random_watcher(&bus, &mut rng, None, true);
        (builder.watch().unwrap(), made)
    });
    let round = Arc::new(Round {
        bus: bus.clone(),
        alive: alive.clone(),
        progress: AtomicU64::new(0),
        is_stuck,
        poison: rng.once_in(3),
        positions: handlers.iter().map(|handler| handler.position.clone()).collect(),
    });

    let publishers: Vec<_> = (1..=rng.below(MAX_PUBLISHERS + 1) as u32)
        .map(|number| {
            let (round, rng) = (round.clone(), rng.fork());
            thread::spawn(
                move || if hammers { hammer(&round, number) } else { publisher(&round, number, rng) },
            )
        })
        .collect();
    let until = rng.below(publishers.len() as u64 * if hammers { 500 } else { 20 } + 1);
    wait_for_progress(&round, until, &mut rng);
    if let Some(handler) = handlers.first_mut() {
        if rng.once_in(3) {
            handler.was_stopped = true;
            handler.handle.stop();
        }
    }
    wait_for_progress(&round, until + 10, &mut rng);
    // Either the publishers come to their own end, for which nobody may be forgotten, or the bus ends under them.
    let comes_late = !is_stuck && rng.once_in(3);
    let join =
        |threads: Vec<JoinHandle<_>>| threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let (mut published, publishers): (Vec<Published>, _) =
        if comes_late { (join(publishers), Vec::new()) } else { (Vec::new(), publishers) };
    let report = end(&round, &mut rng);
    published.extend::<Vec<_>>(join(publishers));
    assert!(
        bus.publisher().try_publish(Payload::new(Ident { publisher: 9, number: 0 }, false, &alive)).is_err()
    );
    assert!(bus.watch().is_err());

    // Everybody reads to the end.
    let mut order = Vec::new();
    while let Ok(delivery) = witness.recv_ref() {
        match delivery {
            Delivery::Event(event) => order.push(event.ident),
            Delivery::Lagged(count) => panic!("the witness lost {count}"),
        }
    }
    let mut read: Vec<Read> = Vec::new();
    if let Some((mut watcher, made)) = stuck {
        let mut log = Vec::new();
        while receive(&mut watcher, &mut rng, &mut log) {}
        read.push(Read { made, log, kept: Some(watcher) });
    }
    readers.extend(published.iter_mut().flat_map(|told| told.readers.drain(..)));
    read.extend(readers.into_iter().map(|thread| thread.join().unwrap()));
    for handler in &handlers {
        assert!(handler.handle.join(FOREVER));
    }
    // Nothing moves any more when the bus has let go of all that have gone.
    // Handlers that ended with the bus stay listed; that their books never balance would show as a round that hangs.
    let kept = 1 + read.iter().filter(|read| read.kept.is_some()).count();
    let handled: HashSet<String> = handlers.iter().map(|handler| handler.handle.stats().name).collect();
    let settled = || {
        let (ended, other): (Vec<_>, Vec<_>) =
            bus.stats().watchers.into_iter().partition(|watcher| handled.contains(&watcher.name));
        other.len() <= kept && ended.iter().all(|w| w.offered == w.delivered + w.dropped.total())
    };
    while !settled() {
        thread::yield_now();
    }
    assert_eq!(witness.stats().delivered, order.len() as u64);

    let result = Checked { bus: &bus, report: &report, order: &order, published: &published };
    result.check_publishers();
    result.check_readers(&read);
    result.check_handlers(&handlers);
    result.check_departed(&read, &handlers);
    result.note_what_was_met(&read);

    drop((witness, read, handlers, round));
    drop(bus);
    assert_eq!(alive.load(Ordering::SeqCst), 0, "events are left alive");
}

/// A round that is over, and what is known of it.
struct Checked<'r> {
    bus: &'r Broadcaster<Payload>,
    report: &'r ShutdownReport,
    /// All accepted events in their order.
    order: &'r [Ident],
    published: &'r [Published],
}

impl Checked<'_> {
    /// Of the order, what a watcher wants.
    fn wanted(&self, wanted: Wanted) -> Vec<Ident> {
        self.order.iter().copied().filter(|ident| wanted.has(*ident)).collect()
    }

    fn check_publishers(&self) {
        let stats = self.bus.stats();
        let sum = |count: fn(&Published) -> u64| self.published.iter().map(count).sum::<u64>();
        assert_eq!(stats.accepted, sum(|told| told.accepted.len() as u64), "accepted");
        assert_eq!(stats.rejected_full, sum(|told| told.full), "rejected, full");
        // One more was refused after the end.
        assert_eq!(stats.rejected_stopped, sum(|told| told.stopped) + 1, "rejected, stopped");
        assert_eq!(self.order.len() as u64, stats.accepted, "what was accepted was offered");
        for (told, number) in self.published.iter().zip(1..) {
            let mine: Vec<_> = self.order.iter().copied().filter(|ident| ident.publisher == number).collect();
            assert_eq!(mine, told.accepted, "the order of one publisher");
        }
        if self.report.complete {
            assert_eq!(self.report.bus.accepted, stats.accepted);
        }
    }

    /// Each event stands in the one order, and each gap is as long as what is missing there.
    fn check_order(&self, log: &[Item], made: Made) {
        let wanted = self.wanted(made.wanted);
        let index: HashMap<Ident, usize> = wanted.iter().enumerate().map(|(i, ident)| (*ident, i)).collect();
        let mut last = None;
        let mut gap = 0;
        for item in log {
            match item {
                Item::Lagged(count) => {
                    assert!(*count > 0, "a gap of nothing");
                    gap += *count as usize;
                }
                Item::Event(ident) => {
                    let at = *index.get(ident).expect("accepted, and not refused by the filter");
                    if let Some(last) = last {
                        assert_eq!(
                            at,
                            last + 1 + gap,
                            "{ident:?} of {made:?} stands at its place, after a gap of {gap}"
                        );
                    }
                    assert!(at >= gap, "a gap before the first event");
                    (last, gap) = (Some(at), 0);
                }
            }
        }
        assert!(last.map_or(0, |at| at + 1) + gap <= wanted.len(), "a gap behind the last event");
    }

    /// Where in the order of what it wants the watcher's first offer stands.
    fn check_registration(&self, first: usize, made: Made) {
        let wanted = self.wanted(made.wanted);
        let Some((publisher, before)) = made.by else {
            return assert_eq!(first, 0, "{made:?} was there from the beginning");
        };
        let mine = &self.published[publisher as usize - 1].accepted;
        let place = |ident: &Ident| wanted.iter().position(|other| other == ident);
        if let Some(at) = mine[..before].iter().rev().find_map(place) {
            assert!(first > at, "{made:?} was offered what had been published before");
        }
        if let Some(at) = mine[before..].iter().find_map(place) {
            assert!(first <= at, "{made:?} was not offered what was published after");
        }
    }

    fn check_stats(&self, stats: &WatcherStats, made: Made) {
        assert_eq!(
            stats.offered,
            stats.delivered + stats.dropped.total() + stats.queued,
            "{stats} of {made:?}"
        );
        let dropped = &stats.dropped;
        match made.policy {
            OverflowPolicy::DropIncoming => assert_eq!((dropped.oldest, dropped.timed_out), (0, 0)),
            OverflowPolicy::DropOldest => assert_eq!((dropped.incoming, dropped.timed_out), (0, 0)),
            OverflowPolicy::WaitFor(limit) if limit < FOREVER => {
                assert_eq!((dropped.incoming, dropped.oldest), (0, 0));
            }
            _ => assert_eq!((dropped.incoming, dropped.oldest, dropped.timed_out), (0, 0, 0)),
        }
        assert!(stats.high_water <= made.queue_len, "high water {} of {made:?}", stats.high_water);
        if self.report.complete {
            assert_eq!(dropped.abandoned, 0);
        }
    }

    fn check_readers(&self, read: &[Read]) {
        for Read { made, log, kept } in read {
            self.check_order(log, *made);
            let Some(watcher) = kept else { continue };
            let stats = watcher.stats();
            self.check_stats(&stats, *made);
            assert_eq!(stats.queued, 0, "read to the end");
            assert_eq!(stats.delivered, events_in(log), "delivered to {made:?}");
            assert_eq!(stats.dropped.total(), lagged_in(log), "each loss of {made:?} showed as a gap");
            assert_eq!(stats.dropped.stopped, 0);
            let wanted = self.wanted(made.wanted).len();
            let first = wanted - stats.offered as usize;
            self.check_registration(first, *made);
            if made.by.is_none() {
                assert_eq!(stats.offered + stats.filtered, self.order.len() as u64);
            }
            self.check_begins_at(first, log, *made);
        }
    }

    /// The first event, or the gap before it, is the first offer.
    fn check_begins_at(&self, first: usize, log: &[Item], made: Made) {
        let leading: u64 = lagged_in(
            &log.iter().copied().take_while(|item| matches!(item, Item::Lagged(_))).collect::<Vec<_>>(),
        );
        let event =
            log.iter().find_map(|item| if let Item::Event(ident) = item { Some(*ident) } else { None });
        if let Some(event) = event {
            assert_eq!(
                self.wanted(made.wanted)[first + leading as usize],
                event,
                "the first event of {made:?}"
            );
        }
    }

    fn check_handlers(&self, handlers: &[Handled]) {
        for (i, handler) in handlers.iter().enumerate() {
            let (made, log) = (handler.made, handler.log.lock().unwrap());
            self.check_order(&log, made);
            let stats = handler.handle.stats();
            self.check_stats(&stats, made);
            assert_eq!(stats.queued, 0);
            assert_eq!(stats.delivered, events_in(&log), "handled by {made:?}");
            assert!(stats.panics >= handler.thrown.load(Ordering::SeqCst), "panics are counted");
            // A handler that is told to give up ends, and is offered no more.
            if handler.was_stopped || made.ends_itself || !self.report.complete {
                continue;
            }
            assert_eq!(stats.offered + stats.filtered, self.order.len() as u64, "offered to {made:?}");
            self.check_begins_at(0, &log, made);
            assert_eq!(stats.dropped.total(), lagged_in(&log), "each loss of {made:?} showed as a gap");
            for (told, _) in self.published.iter().zip(1..) {
                let wanted = self.wanted(made.wanted);
                for (accepted, positions) in &told.flushes {
                    let last = told.accepted[..*accepted].iter().rev().find(|ident| made.wanted.has(**ident));
                    let needed =
                        last.map_or(0, |last| wanted.iter().position(|ident| ident == last).unwrap() + 1);
                    assert!(
                        positions[i] >= needed as u64,
                        "flushed at {} before {needed} by {made:?}",
                        positions[i]
                    );
                }
            }
        }
    }

    fn note_what_was_met(&self, read: &[Read]) {
        let stats = self.bus.stats();
        met::add(&met::ACCEPTED, stats.accepted);
        met::add(&met::REFUSED_FULL, stats.rejected_full);
        met::add(&met::REFUSED_STOPPED, stats.rejected_stopped - 1);
        for watcher in stats.watchers.iter().chain([&stats.departed]) {
            met::add(&met::INCOMING, watcher.dropped.incoming);
            met::add(&met::OLDEST, watcher.dropped.oldest);
            met::add(&met::TIMED_OUT, watcher.dropped.timed_out);
            met::add(&met::STOPPED, watcher.dropped.stopped);
            met::add(&met::ABANDONED, watcher.dropped.abandoned);
            met::add(&met::PANICS, watcher.panics);
        }
        met::add(&met::FLUSHES, self.published.iter().map(|told| told.flushes.len() as u64).sum());
        met::add(&met::LATE_WATCHERS, read.iter().filter(|read| read.made.by.is_some()).count() as u64);
        met::add(&met::INCOMPLETE, u64::from(!self.report.complete));
    }

    /// What all that have gone add up to.
    fn check_departed(&self, read: &[Read], handlers: &[Handled]) {
        let stats = self.bus.stats();
        let departed = stats.departed;
        assert_eq!(departed.offered, departed.delivered + departed.dropped.total(), "{departed}");
        assert_eq!(departed.queued, 0);
        let gone: u64 = read.iter().filter(|read| read.kept.is_none()).map(|read| events_in(&read.log)).sum();
        let handled: u64 = handlers.iter().map(|handler| events_in(&handler.log.lock().unwrap())).sum();
        let listed: u64 = handlers
            .iter()
            .map(|handler| handler.handle.stats())
            .filter(|own| stats.watchers.iter().any(|watcher| watcher.name == own.name))
            .map(|own| own.delivered)
            .sum();
        assert_eq!(departed.delivered + listed, gone + handled, "delivered to those who have gone");
    }
}

/// How often the rounds came across what they are meant to: a test of everything at once that meets nothing is none.
mod met {
    use super::{AtomicU64, Ordering};

    pub(super) static ACCEPTED: AtomicU64 = AtomicU64::new(0);
    pub(super) static REFUSED_FULL: AtomicU64 = AtomicU64::new(0);
    pub(super) static REFUSED_STOPPED: AtomicU64 = AtomicU64::new(0);
    pub(super) static INCOMING: AtomicU64 = AtomicU64::new(0);
    pub(super) static OLDEST: AtomicU64 = AtomicU64::new(0);
    pub(super) static TIMED_OUT: AtomicU64 = AtomicU64::new(0);
    pub(super) static STOPPED: AtomicU64 = AtomicU64::new(0);
    pub(super) static ABANDONED: AtomicU64 = AtomicU64::new(0);
    pub(super) static PANICS: AtomicU64 = AtomicU64::new(0);
    pub(super) static FLUSHES: AtomicU64 = AtomicU64::new(0);
    pub(super) static LATE_WATCHERS: AtomicU64 = AtomicU64::new(0);
    pub(super) static INCOMPLETE: AtomicU64 = AtomicU64::new(0);

    pub(super) fn add(counter: &AtomicU64, events: u64) {
        counter.fetch_add(events, Ordering::Relaxed);
    }

    pub(super) fn all() -> [(&'static str, u64); 12] {
        [
            ("accepted", &ACCEPTED),
            ("refused, full", &REFUSED_FULL),
            ("refused, stopped", &REFUSED_STOPPED),
            ("dropped, incoming", &INCOMING),
            ("dropped, oldest", &OLDEST),
            ("dropped, timed out", &TIMED_OUT),
            ("dropped, stopped", &STOPPED),
            ("dropped, abandoned", &ABANDONED),
            ("panics", &PANICS),
            ("flushes", &FLUSHES),
            ("watchers registered in between", &LATE_WATCHERS),
            ("incomplete shutdowns", &INCOMPLETE),
        ]
        .map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
    }
}

fn from_environment(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return default };
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.unwrap_or_else(|_| panic!("{name} is {text}, allowed is a number"))
}

/// Runs one round with an eye on it.
fn watched(seed: u64, run: fn(u64)) {
    static FAILED: AtomicBool = AtomicBool::new(false);
    let (tx, rx) = mpsc::channel();
    let thread = thread::spawn(move || {
        run(seed);
        tx.send(()).unwrap();
    });
    let result = rx.recv_timeout(HANGS);
    if result.is_err() && !FAILED.swap(true, Ordering::SeqCst) {
        println!("to repeat: EVENTCAST_STRESS_SEED={seed:#x} EVENTCAST_STRESS_ROUNDS=1");
    }
    match result {
        Ok(()) => thread.join().unwrap(),
        Err(RecvTimeoutError::Disconnected) => resume_unwind(thread.join().unwrap_err()),
        Err(RecvTimeoutError::Timeout) => panic!("the round with the seed {seed:#x} hangs"),
    }
}

#[test]
fn everything_at_once() {
    // The panics that belong to the test say nothing.
    let loud = take_hook();
    set_hook(Box::new(move |info| {
        if !info.payload().is::<Ident>() {
            loud(info);
        }
    }));
    let rounds = from_environment("EVENTCAST_STRESS_ROUNDS", 5000);
    let first = from_environment("EVENTCAST_STRESS_SEED", 1);
    (0..rounds).for_each(|round| watched(first.wrapping_add(round), run_round));
    println!("in {rounds} rounds: {:?}", met::all());
    if rounds >= 1000 {
        for (what, count) in met::all() {
            assert!(count > 0, "no round met: {what}");
        }
    }
}

/// Three things at about the same moment, on a bus that is nearly idle: a publish or two, the drop of a watcher, the
/// close. Their orders are what a busy round seldom meets.
fn run_small_round(seed: u64) {
    let mut rng = Rng(seed);
    let alive = Arc::new(AtomicI64::new(0));
    let bus = Broadcaster::with_options(BusOptions::default().incoming_len(4)).unwrap();
    let mut witness = bus.watch_builder().queue_len(64).watch().unwrap();
    let policy = rng.pick(&[OverflowPolicy::DropIncoming, OverflowPolicy::DropOldest, OverflowPolicy::Wait]);
    let leaving = bus.watch_builder().queue_len(2).overflow(policy).watch().unwrap();
    let pause = |spins: u64| (0..spins).for_each(|_| std::hint::spin_loop());
    let spins: Vec<u64> = (0..4).map(|_| rng.below(400)).collect();
    let begin = std::sync::Barrier::new(3);
    let told = thread::scope(|scope| {
        let publishing = scope.spawn(|| {
            let publisher = bus.publisher();
            let mut told = Published::default();
            begin.wait();
            for number in 0..2 {
                pause(spins[number as usize]);
                let ident = Ident { publisher: 1, number };
                note_one(&mut told, ident, publisher.try_publish(Payload::new(ident, false, &alive)));
            }
            told
        });
        scope.spawn(|| {
            begin.wait();
            pause(spins[2]);
            drop(leaving);
        });
        begin.wait();
        pause(spins[3]);
        bus.close();
        publishing.join().unwrap()
    });
    let mut order = Vec::new();
    while let Ok(delivery) = witness.recv_ref() {
        order.extend(delivery.event().map(|event| event.ident));
    }
    assert!(bus.shutdown().complete);
    assert_eq!(order, told.accepted, "accepted means offered");
    let stats = bus.stats();
    assert_eq!((stats.accepted, stats.rejected_stopped), (order.len() as u64, told.stopped));
    let gone = &stats.departed;
    assert_eq!(gone.offered, gone.delivered + gone.dropped.total() + gone.queued, "{gone}");
    assert_eq!(gone.queued, 0);
    drop((witness, bus));
    assert_eq!(alive.load(Ordering::SeqCst), 0, "events are left alive");
}

#[test]
fn three_things_at_the_same_moment() {
    let rounds = from_environment("EVENTCAST_STRESS_ROUNDS", 5000);
    let first = from_environment("EVENTCAST_STRESS_SEED", 1);
    (0..rounds).for_each(|round| watched(first.wrapping_add(round), run_small_round));
}
