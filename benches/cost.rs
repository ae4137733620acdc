//! What it costs to publish one event, on the thread that does it.
//!
//! Runs of 64 are timed, because the clock alone costs about as much as one publish. Beside the publisher there is one
//! thread that takes the events away: the dispatcher, whose watcher the publisher itself reads between two runs, or a
//! rival's reader. It is either at work ([`State::Awake`]), the runs following each other closely, or it sleeps when a
//! run begins ([`State::Parked`]), so that the first event has to wake it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::load::{Check, Payload, QUEUE, QUEUE_POWER, See, payload};
use crate::ours;
use crate::threads::Others;

/// The events of a run.
pub const RUN: u64 = 64;

/// Runs that are not counted, at the beginning.
const WARM_UP: usize = 20;

/// What the thread on the other side does when a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is at work, or looks for work.
    Awake,
    /// It sleeps.
    Parked,
}

/// What the runs took.
#[derive(Debug, Default)]
pub struct Costs {
    /// The first event of each run; only where the other side was parked.
    pub firsts: Vec<Duration>,
    /// Each run as a whole.
    pub runs: Vec<Duration>,
    /// How often the other side went to sleep meanwhile, if the system tells it.
    pub sleeps: Option<u64>,
}

/// One way to publish without waiting.
#[derive(Clone, Copy, Debug)]
pub struct Contender {
    /// What it is called.
    pub name: &'static str,
    /// So many runs.
    pub measure: fn(State, usize) -> Costs,
}

/// All of them, ours first.
pub const CONTENDERS: &[Contender] = &[
    Contender { name: "eventcast try_publish", measure: eventcast },
    Contender { name: "crossbeam try_send", measure: crossbeam },
    Contender { name: "tokio broadcast send", measure: tokio_broadcast },
    Contender { name: "bus try_broadcast", measure: bus },
];

/// Times the runs. `send` says whether the event was taken; `arrived`, how many have come out on the other side.
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
        // Room for a run: nothing is ever refused.
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

/// The same beside a reader on a thread of its own, which is to look at every event until the stream ends.
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

/// Looks at events and says how many there were.
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

/// `try_publish` to a bus with one watcher.
#[must_use]
pub fn eventcast(state: State, runs: usize) -> Costs {
    let bus = ours::bus::<Payload>();
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

fn crossbeam(state: State, runs: usize) -> Costs {
    let (tx, rx) = crossbeam_channel::bounded::<Payload>(QUEUE);
    let read = move |counted: &mut Counted| rx.iter().for_each(|payload| counted.see(&payload));
    time_beside(state, runs, read, tx, |tx, payload| tx.try_send(payload).is_ok())
}

fn tokio_broadcast(state: State, runs: usize) -> Costs {
    let (tx, mut rx) = tokio::sync::broadcast::channel::<Payload>(QUEUE_POWER);
    let read = move |counted: &mut Counted| {
        // A gap would be an error too, and the rest of the stream then missing.
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
