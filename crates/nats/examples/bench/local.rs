//! Measures the cost of a local publish, with and without the bridge.

use std::thread;
use std::time::{Duration, Instant};

use eventcast::{Broadcaster, BusOptions, Publisher};
use eventcast_nats::{NatsPublisher, Storage};

use crate::bare::event;

/// After this time without an event, the dispatcher and the bridge's task are asleep.
const UNTIL_ASLEEP: Duration = Duration::from_millis(2);
const BURST: usize = 100;
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// The median durations of a `try_publish` over all bursts, in nanoseconds.
pub(crate) struct Cost {
    /// The first publish of a burst, which wakes a thread.
    pub(crate) first: u128,
    /// Each later publish of the burst.
    pub(crate) next: u128,
}

/// A bus with one or two readers, and optionally with the bridge.
struct Contender {
    bus: Broadcaster<String>,
    publisher: Publisher<String>,
    out: Option<NatsPublisher>,
    first: Vec<u128>,
    next: Vec<u128>,
}

impl Contender {
    fn new(direct: bool, readers: usize, bridge: Option<&str>) -> Self {
        let bus = Broadcaster::with_options(BusOptions::default().direct_delivery(direct)).unwrap();
        for _ in 0..readers {
            let mut watcher = bus.watch().unwrap();
            // The thread ends when the bus ends.
            thread::spawn(move || while watcher.recv_batch().is_ok() {});
        }
        let out = bridge.map(|url| super::bridged::out(url, &bus, Storage::Memory, 256, Duration::ZERO));
        let publisher = bus.publisher();
        Self { bus, publisher, out, first: Vec::new(), next: Vec::new() }
    }

    /// Publishes a burst on a bus whose threads are all asleep.
    fn burst(&mut self) {
        let mut events: Vec<_> = (0..BURST).map(|_| event(62)).collect();
        let begin = Instant::now();
        self.publisher.try_publish(events.pop().unwrap()).unwrap();
        let first = begin.elapsed();
        for event in events.drain(..) {
            self.publisher.try_publish(event).unwrap();
        }
        let next = begin.elapsed().saturating_sub(first);
        self.first.push(first.as_nanos());
        self.next.push(next.as_nanos() / (BURST as u128 - 1));
        // Wait until the work of this burst is done, so that this work does not affect the next
        // burst.
        match &self.out {
            Some(out) => super::bridged::settle(&self.bus, out),
            None => self.bus.flush(super::bridged::LONG).unwrap(),
        }
        thread::sleep(UNTIL_ASLEEP);
    }

    fn cost(mut self) -> Cost {
        let median = |times: &mut Vec<u128>| {
            times.sort_unstable();
            times[times.len() / 2]
        };
        Cost { first: median(&mut self.first), next: median(&mut self.next) }
    }
}

/// Returns the cost with one reader, with two readers, and with the bridge. The three contenders
/// take turns.
pub(crate) fn cost(url: &str, bursts: u64, direct: bool) -> [Cost; 3] {
    super::bridged::delete(url);
    let mut contenders =
        [(1, None), (2, None), (1, Some(url))].map(|(readers, url)| Contender::new(direct, readers, url));
    // Each contender runs equally often after each of the other contenders, because the previous
    // run leaves traces, such as a core that is awake or a server that is writing.
    for burst in 0..bursts {
        for contender in ORDERS[burst as usize % ORDERS.len()] {
            contenders[contender].burst();
        }
    }
    contenders.map(Contender::cost)
}
