//! What the benchmarks share: the payload, and one round of each form. Every round checks that all arrived.

#![allow(clippy::disallowed_methods, reason = "a benchmark looks at the real clock and starts real threads")]
#![allow(clippy::missing_panics_doc, reason = "a round that does not come out right must panic")]

pub mod correlation;

use std::thread;
use std::time::{Duration, Instant};

use eventcast::{Broadcaster, BusOptions, OverflowPolicy};

/// The queue length of every form.
pub const QUEUE: usize = 1000;

/// 64 bytes, the first eight of which are the event's number.
#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
pub struct Payload([u64; 8]);

impl Payload {
    /// The event of this number.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self([number; 8])
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0[0]
    }
}

/// A sum that only the full sequence gives: the order is checked on the way.
#[derive(Debug, Default)]
struct Check {
    next: u64,
}

impl Check {
    fn see(&mut self, payload: &Payload) {
        assert_eq!(payload.number(), self.next, "an event is missing or out of order");
        self.next += 1;
    }
}

/// Queues of the common length, and nothing lost.
fn lossless() -> BusOptions {
    BusOptions::default().incoming_len(QUEUE).queue_len(QUEUE).overflow(OverflowPolicy::Wait)
}

/// An event goes to another thread by one bus and back by another, `rounds` times; before each, all is quiet for as long
/// as `pause`. What counts is the time under way.
#[must_use]
pub fn there_and_back(rounds: u64, pause: Duration, spin: Duration) -> Duration {
    let bus = || Broadcaster::<Payload>::with_options(lossless().spin(spin)).unwrap();
    let (there, back) = (bus(), bus());
    let (mut echoed, mut answers) = (there.watch().unwrap(), back.watch().unwrap());
    let (asks, echoes) = (there.publisher(), back.publisher());
    let echo = thread::spawn(move || {
        for payload in echoed.events() {
            echoes.publish(payload).unwrap();
        }
    });
    let mut under_way = Duration::ZERO;
    for number in 0..rounds {
        thread::sleep(pause);
        let start = Instant::now();
        asks.publish(Payload::new(number)).unwrap();
        let answer = answers.recv().unwrap().event().unwrap();
        under_way += start.elapsed();
        assert_eq!(answer.number(), number);
    }
    there.close();
    echo.join().unwrap();
    under_way
}

/// One publisher, `watchers` watchers, `events` events published in batches of `batch` (1: one by one), lossless.
#[must_use]
pub fn eventcast_round(watchers: usize, events: u64, batch: usize, spin: Duration) -> Duration {
    let options = lossless().spin(spin);
    let bus = Broadcaster::with_options(options).unwrap();
    let readers: Vec<_> = (0..watchers)
        .map(|_| {
            let mut watcher = bus.watch().unwrap();
            thread::spawn(move || {
                let mut check = Check::default();
                while let Ok(batch) = watcher.recv_batch() {
                    assert_eq!(batch.lagged, 0);
                    batch.iter().for_each(|payload| check.see(payload));
                }
                check.next
            })
        })
        .collect();
    let publisher = bus.publisher();
    let start = Instant::now();
    if batch == 1 {
        for number in 0..events {
            publisher.publish(Payload::new(number)).unwrap();
        }
    } else {
        let mut number = 0;
        while number < events {
            let end = events.min(number + batch as u64);
            publisher.publish_batch((number..end).map(Payload::new).collect()).unwrap();
            number = end;
        }
    }
    bus.shutdown();
    for reader in readers {
        assert_eq!(reader.join().unwrap(), events);
    }
    start.elapsed()
}

/// The same with a crossbeam channel per watcher and one message per event, as one writes it by hand.
#[must_use]
pub fn crossbeam_round(watchers: usize, events: u64) -> Duration {
    let (senders, readers): (Vec<_>, Vec<_>) = (0..watchers)
        .map(|_| {
            let (tx, rx) = crossbeam_channel::bounded::<Payload>(QUEUE);
            let reader = thread::spawn(move || {
                let mut check = Check::default();
                rx.iter().for_each(|payload| check.see(&payload));
                check.next
            });
            (tx, reader)
        })
        .unzip();
    let start = Instant::now();
    for number in 0..events {
        for sender in &senders {
            sender.send(Payload::new(number)).unwrap();
        }
    }
    drop(senders);
    for reader in readers {
        assert_eq!(reader.join().unwrap(), events);
    }
    start.elapsed()
}
