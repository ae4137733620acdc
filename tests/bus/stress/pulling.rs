//! Rounds in which the only reader of a lossless bus pulls events. While the reader is busy, it
//! repeatedly takes events out of the incoming queue. When the reader sleeps, it returns the
//! fan-out to the dispatcher.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy, Publisher, Watcher};
use test_support::{Rng, env_number};

use super::plan::FOREVER;
use super::watchdog::watched;

/// The name of the reader's thread.
const READER: &str = "pulls";
/// The number of times that the reader's thread has called a waker. Each call means that the thread
/// has freed capacity, so the thread has pulled events.
static PULLED: AtomicU64 = AtomicU64::new(0);

/// The publisher's number, and the event's number within that publisher.
type Event = (usize, u64);

struct Publishing(Thread);

impl Wake for Publishing {
    fn wake(self: Arc<Self>) {
        if thread::current().name() == Some(READER) {
            PULLED.fetch_add(1, Ordering::Relaxed);
        }
        self.0.unpark();
    }
}

/// Publishes as a task, on this thread.
fn publish_as_task(publisher: &Publisher<Event>, event: Event) {
    let mut publish = Box::pin(publisher.publish_async(event));
    let waker = Waker::from(Arc::new(Publishing(thread::current())));
    let mut context = Context::from_waker(&waker);
    while publish.as_mut().poll(&mut context).map(Result::unwrap).is_pending() {
        thread::park();
    }
}

/// Publishes events 0 to `count` in bursts, with pauses in between.
fn publish(publisher: &Publisher<Event>, id: usize, count: u64, rng: &mut Rng) {
    let mut number = 0;
    while number < count {
        for _ in 0..rng.below(80) {
            match rng.below(4) {
                0 => publish_as_task(publisher, (id, number)),
                1 => publisher.publish((id, number)).unwrap(),
                2 => {
                    while publisher.try_publish((id, number)).is_err() {
                        thread::yield_now();
                    }
                }
                _ => publisher.publish_batch([(id, number), (id, number + 1)]).map(|()| number += 1).unwrap(),
            }
            number += 1;
        }
        rest(rng, 20);
    }
    // The last burst may have exceeded the count.
    publisher.publish((id, u64::MAX)).unwrap();
}

/// Spins, yields or sleeps briefly in one of `times` calls.
fn rest(rng: &mut Rng, times: u64) {
    match rng.below(times * 3) {
        0 => (0..rng.below(20_000)).for_each(|_| std::hint::spin_loop()),
        1 => thread::yield_now(),
        2 => thread::park_timeout(Duration::from_micros(rng.below(3000))),
        _ => {}
    }
}

/// Reads to the end, and checks that events are in each publisher's order. Returns the number of
/// events.
fn read(mut watcher: Watcher<Event>, publishers: usize, rng: &mut Rng) -> u64 {
    let mut next = vec![0; publishers];
    let mut seen = |(id, number): Event| {
        assert!(number == next[id] || number == u64::MAX, "{number} of {id} instead of {}", next[id]);
        next[id] = if number == u64::MAX { number } else { number + 1 };
    };
    let (way, mut count) = (rng.below(4), 0);
    loop {
        let delivery = match way {
            0 => watcher.recv().ok(),
            1 => watcher.recv_timeout(Duration::from_micros(500)).or_else(|_| watcher.recv()).ok(),
            2 => watcher.try_recv().or_else(|_| watcher.recv()).ok(),
            _ => watcher.recv_batch().ok().map(|batch| {
                count += batch.len() as u64 - 1;
                let (last, others) = batch.split_last().unwrap();
                others.iter().copied().for_each(&mut seen);
                Delivery::Event(*last)
            }),
        };
        match delivery {
            Some(Delivery::Event(event)) => seen(event),
            Some(Delivery::Lagged(lost)) => panic!("{lost} events were lost"),
            _ => break,
        }
        count += 1;
        rest(rng, 100);
    }
    assert!(next.iter().all(|next| *next == u64::MAX), "events are missing: {next:?}");
    count
}

fn run_pulling_round(seed: u64) {
    let mut rng = Rng(seed);
    let options = BusOptions::default()
        .overflow(rng.pick(&[OverflowPolicy::Wait, OverflowPolicy::WaitFor(Duration::from_secs(3600))]))
        .incoming_capacity(rng.pick(&[2, 16, 200]))
        .queue_capacity(rng.pick(&[2, 16, 200]));
    let bus = Broadcaster::<Event>::with_options(options).unwrap();
    let watcher = bus.watch().unwrap();
    let publishers = 1 + rng.below(3) as usize;
    let mut reading = rng.fork();
    let reader = thread::Builder::new()
        .name(READER.to_owned())
        .spawn(move || read(watcher, publishers, &mut reading))
        .unwrap();
    thread::scope(|scope| {
        for id in 0..publishers {
            let (publisher, mut rng) = (bus.publisher(), rng.fork());
            scope.spawn(move || publish(&publisher, id, 600, &mut rng));
        }
        for _ in 0..rng.below(6) {
            rest(&mut rng, 1);
            match rng.below(3) {
                0 => bus.flush(FOREVER).unwrap(),
                1 => drop(bus.watch_builder().overflow(OverflowPolicy::DropIncoming).watch().unwrap()),
                _ => assert!(!bus.stats().watchers.is_empty()),
            }
        }
    });
    bus.close();
    let count = reader.join().unwrap();
    let report = bus.shutdown();
    assert!(report.complete);
    assert_eq!(report.bus.accepted, count);
}

#[test]
fn a_reader_that_pulls_among_everything_else() {
    let rounds = env_number("EVENTCAST_STRESS_ROUNDS", 300);
    let first = env_number("EVENTCAST_STRESS_SEED", 1);
    (0..rounds).for_each(|round| watched(first.wrapping_add(round), run_pulling_round));
    let pulled = PULLED.load(Ordering::Relaxed);
    println!("in {rounds} rounds the reader has woken {pulled} publishers");
    assert!(pulled > 0 || rounds < 300, "no reader has pulled");
}
