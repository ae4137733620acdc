//! Measures what publishing an event costs the publishing thread.
//!
//! Events are timed in runs of 64, because reading the clock takes about as long as publishing one
//! event. One thread other than the publisher receives the events. For a rival or an inline bus,
//! this thread is the reader. Otherwise the receiving thread is the dispatcher, and the publisher
//! itself reads the watcher between runs. Each contender is measured in the two cases below. With
//! direct delivery, the first events in the second case do not wake the dispatcher.
//!
//! - [`State::Awake`]: the runs follow each other closely, and the receiving thread is working.
//! - [`State::Parked`]: the receiving thread is asleep when a run begins, so the first event has to
//!   wake it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use eventcast::{Broadcaster, BusOptions, OverflowPolicy};

use crate::load::{Check, Payload, QUEUE, QUEUE_POWER, See, payload};
use crate::ours;
use crate::threads::Others;

/// The number of events in a run.
pub const RUN: u64 = 64;

/// The number of initial runs that are not counted.
const WARM_UP: usize = 20;

/// The state of the receiving thread when a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The receiving thread is working or polling for work.
    Awake,
    /// The receiving thread is asleep.
    Parked,
}

/// The times of the runs.
#[derive(Debug, Default)]
pub struct Costs {
    /// The time of the first event in each run. Empty unless the receiving thread was parked.
    pub firsts: Vec<Duration>,
    /// The time of each run as a whole.
    pub runs: Vec<Duration>,
    /// The number of times that the receiving thread went to sleep during the runs. `None` if the
    /// system does not report this number.
    pub sleeps: Option<u64>,
}

/// One way to publish without waiting.
#[derive(Clone, Copy, Debug)]
pub struct Contender {
    /// The contender's name in the tables.
    pub name: &'static str,
    /// The function that measures the given number of runs.
    pub measure: fn(State, usize) -> Costs,
}

/// All contenders, beginning with eventcast.
pub const CONTENDERS: &[Contender] = &[
    Contender { name: "eventcast try_publish", measure: eventcast },
    Contender { name: "eventcast, no direct delivery", measure: eventcast_by_the_dispatcher },
    Contender { name: "eventcast inline try_publish", measure: eventcast_inline },
    Contender { name: "crossbeam try_send", measure: crossbeam },
    Contender { name: "tokio broadcast send", measure: tokio_broadcast },
    Contender { name: "bus try_broadcast", measure: bus },
];

/// Times the runs. `send` returns whether the event was accepted. `arrived` returns the number of
/// events that the receiving thread has received.
fn time(
    state: State,
    runs: usize,
    mut send: impl FnMut(Payload) -> bool,
    mut arrived: impl FnMut() -> u64,
) -> Costs {
    let others = Others::of_this_thread();
    let mut costs = Costs::default();
    let (mut sent, mut sleeps) = (0, None);
    for run in 0..WARM_UP + runs {
        // Wait until the queue has space for a whole run, so that no event is refused.
        let under_way = if state == State::Parked { 0 } else { QUEUE as u64 - RUN };
        while sent - arrived() > under_way {
            thread::yield_now();
        }
        if state == State::Parked {
            others.wait_until_asleep();
        }
        if run == WARM_UP {
            sleeps = others.sleeps();
        }
        let (mut is_taken, mut first) = (true, Duration::ZERO);
        let start = Instant::now();
        for number in sent..sent + RUN {
            is_taken &= send(payload(number, 0));
            if state == State::Parked && number == sent {
                first = start.elapsed();
            }
        }
        let elapsed = start.elapsed();
        sent += RUN;
        if run >= WARM_UP {
            costs.runs.push(elapsed);
            if state == State::Parked {
                costs.firsts.push(first);
            }
        }
        assert!(is_taken, "an event was refused");
    }
    costs.sleeps = others.sleeps().zip(sleeps).map(|(after, before)| {
        after.into_iter().zip(before).map(|(after, before)| after.saturating_sub(before)).sum()
    });
    while arrived() < sent {
        thread::yield_now();
    }
    costs
}

/// Times the runs while another thread reads. `read` must inspect every event until the stream
/// ends.
fn time_beside<S>(
    state: State,
    runs: usize,
    read: impl FnOnce(&mut Counted) + Send,
    mut sender: S,
    mut send: impl FnMut(&mut S, Payload) -> bool,
) -> Costs {
    let mut counted = Counted { check: Check::new(1), arrived: Arc::default() };
    let arrived = counted.arrived.clone();
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            read(&mut counted);
            counted.check.finish(((WARM_UP + runs) as u64) * RUN)
        });
        let costs =
            time(state, runs, |payload| send(&mut sender, payload), || arrived.load(Ordering::Acquire));
        drop(sender);
        let (_, lost) = reader.join().expect("the reader panicked");
        assert_eq!(lost, 0, "events were lost");
        costs
    })
}

/// A [`Check`] that also lets the sender see how many events have arrived.
struct Counted {
    check: Check,
    arrived: Arc<AtomicU64>,
}

impl See for Counted {
    fn see(&mut self, payload: &Payload) {
        self.check.see(payload);
        self.arrived.store(payload[0] + 1, Ordering::Release);
    }
}

/// Measures `try_publish` to a bus with one watcher.
#[must_use]
pub fn eventcast(state: State, runs: usize) -> Costs {
    to_bus(state, runs, ours::options())
}

/// Measures `try_publish` to a bus without direct delivery.
#[must_use]
pub fn eventcast_by_the_dispatcher(state: State, runs: usize) -> Costs {
    to_bus(state, runs, ours::options().direct_delivery(false))
}

fn to_bus(state: State, runs: usize, options: BusOptions) -> Costs {
    // The queue has space for every run. With the `DropIncoming` policy, the reader, which is the
    // publishing thread here, never pulls, so the dispatcher or the publisher has to deliver the
    // events.
    let options = options.overflow(OverflowPolicy::DropIncoming);
    let bus = Broadcaster::<Payload>::with_options(options).expect("the options are in range");
    let mut watcher = bus.watch().expect("the bus is open");
    let publisher = bus.publisher();
    let mut check = Check::new(1);
    let mut arrived = 0;
    let read = || {
        while let Ok(batch) = watcher.try_recv_batch() {
            batch.iter().for_each(|payload| check.see(payload));
            arrived += batch.len() as u64;
        }
        arrived
    };
    let costs = time(state, runs, |payload| publisher.try_publish(payload).is_ok(), read);
    assert_eq!(check.finish(arrived).1, 0, "events were lost");
    costs
}

/// Measures `try_publish` to an inline bus with one watcher.
#[must_use]
pub fn eventcast_inline(state: State, runs: usize) -> Costs {
    // A batch needs its capacity until the next receive call, when all its events have arrived.
    let options = ours::options().inline(true).queue_capacity(2 * QUEUE);
    let bus = ours::bus_with::<Payload>(options);
    let mut watcher = bus.watch().expect("the bus is open");
    let read = move |counted: &mut Counted| {
        while let Ok(batch) = watcher.recv_batch() {
            batch.iter().for_each(|payload| counted.see(payload));
        }
    };
    // Dropping the sender, which contains the only handle to the bus, ends the reader.
    let sender = (bus.publisher(), bus);
    time_beside(state, runs, read, sender, |(publisher, _), payload| publisher.try_publish(payload).is_ok())
}

fn crossbeam(state: State, runs: usize) -> Costs {
    let (tx, rx) = crossbeam_channel::bounded::<Payload>(QUEUE);
    let read = move |counted: &mut Counted| rx.iter().for_each(|payload| counted.see(&payload));
    time_beside(state, runs, read, tx, |tx, payload| tx.try_send(payload).is_ok())
}

fn tokio_broadcast(state: State, runs: usize) -> Costs {
    let (tx, mut rx) = tokio::sync::broadcast::channel::<Payload>(QUEUE_POWER);
    let read = move |counted: &mut Counted| {
        // A gap also results in an error, which ends the loop. The missing events are then
        // detected.
        while let Ok(payload) = rx.blocking_recv() {
            counted.see(&payload);
        }
    };
    time_beside(state, runs, read, tx, |tx, payload| tx.send(payload).is_ok())
}

fn bus(state: State, runs: usize) -> Costs {
    let mut bus = bus::Bus::<Payload>::new(QUEUE);
    let mut rx = bus.add_rx();
    let read = move |counted: &mut Counted| rx.iter().for_each(|payload| counted.see(&payload));
    time_beside(state, runs, read, bus, |bus, payload| bus.try_broadcast(payload).is_ok())
}
