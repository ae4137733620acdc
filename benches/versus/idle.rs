//! Measures the cost of waiting while idle, in terms of CPU time and of memory per reader.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use cpu_time::ProcessTime;
use disruptor::{BusySpin, Sleep};
use eventcast::BusOptions;
use photon_ring::TryRecvError;

use eventcast_benches::load::{Payload, QUEUE, QUEUE_POWER};
use eventcast_benches::ours;

/// An allocator that counts the currently allocated bytes.
pub(crate) struct Counting;

static HELD: AtomicI64 = AtomicI64::new(0);

#[allow(unsafe_code, reason = "a global allocator is unsafe by its trait")]
// SAFETY: every call is passed unchanged to the system allocator. Counting neither allocates nor
// unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller upholds the same safety contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller upholds the same safety contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Idle {
    pub(crate) name: &'static str,
    /// The CPU seconds used per second while no events are published and four readers wait on
    /// threads.
    pub(crate) cpu: f64,
    /// The number of bytes used by each additional reader. `None` if the contender does not support
    /// adding readers.
    pub(crate) bytes: Option<i64>,
}

const READERS: usize = 4;

pub(crate) fn measure(length: Duration) -> Vec<Idle> {
    vec![
        of_eventcast("eventcast", length, &ours::options()),
        of_eventcast("eventcast, inline", length, &ours::options().inline(true)),
        row("crossbeam channel per watcher", length, crossbeam, || {
            per_reader(|| crossbeam_channel::bounded::<Payload>(QUEUE), || ())
        }),
        row("tokio broadcast", length, tokio_broadcast, || {
            let (tx, _rx) = tokio::sync::broadcast::channel::<Payload>(QUEUE_POWER);
            per_reader(|| tx.subscribe(), || ())
        }),
        row("async-broadcast", length, async_broadcast, || {
            let (_tx, rx) = async_broadcast::broadcast::<Payload>(QUEUE);
            per_reader(|| rx.clone(), || ())
        }),
        row("bus", length, bus, || {
            let mut bus = bus::Bus::<Payload>::new(QUEUE);
            per_reader(|| bus.add_rx(), || ())
        }),
        row("photon-ring bounded, yielding", length, photon, || {
            let (_publisher, subscribable) = photon_ring::channel_bounded::<Payload>(QUEUE_POWER, 0);
            per_reader(|| subscribable.subscribe(), || ())
        }),
        Idle { name: "disruptor, busy spin", cpu: disruptor(length, BusySpin), bytes: None },
        Idle {
            name: "disruptor, sleep of 50 us",
            cpu: disruptor(length, Sleep::new(Duration::from_micros(50))),
            bytes: None,
        },
    ]
}

fn of_eventcast(name: &'static str, length: Duration, options: &BusOptions) -> Idle {
    row(
        name,
        length,
        |length| eventcast(length, options),
        || {
            let bus = ours::bus_with::<Payload>(options.clone());
            per_reader(
                || bus.watch().expect("the bus is open"),
                || {
                    // After the flush, the dispatcher has processed the last registration.
                    bus.flush(Duration::from_secs(10)).expect("nothing is in its way");
                },
            )
        },
    )
}

fn row(
    name: &'static str,
    length: Duration,
    cpu: impl Fn(Duration) -> f64,
    bytes: impl FnOnce() -> i64,
) -> Idle {
    Idle { name, cpu: cpu(length), bytes: Some(bytes()) }
}

fn per_reader<R>(mut make: impl FnMut() -> R, settle: impl Fn()) -> i64 {
    const COUNT: i64 = 1000;
    let first = make();
    settle();
    let before = HELD.load(Ordering::Relaxed);
    let mut readers = Vec::with_capacity(COUNT as usize);
    let list = HELD.load(Ordering::Relaxed) - before;
    for _ in 0..COUNT {
        readers.push(make());
    }
    settle();
    let held = HELD.load(Ordering::Relaxed) - before - list;
    drop((first, readers));
    // Include the size of the reader's own value.
    held / COUNT + size_of::<R>() as i64
}

/// Returns the CPU seconds used per second while the readers wait and no event is published.
fn cpu_while(length: Duration, readers: Vec<impl FnOnce() + Send>, end: impl FnOnce()) -> f64 {
    thread::scope(|scope| {
        for reader in readers {
            scope.spawn(reader);
        }
        // Give the readers time to settle first.
        thread::sleep(Duration::from_millis(50));
        let before = ProcessTime::now();
        thread::sleep(length);
        let used = before.elapsed();
        end();
        used.as_secs_f64() / length.as_secs_f64()
    })
}

fn eventcast(length: Duration, options: &BusOptions) -> f64 {
    let bus = ours::bus_with::<Payload>(options.clone());
    let watchers: Vec<_> = (0..READERS).map(|_| bus.watch().expect("the bus is open")).collect();
    let readers = watchers.into_iter().map(|mut watcher| move || _ = watcher.recv()).collect();
    cpu_while(length, readers, || bus.close())
}

fn crossbeam(length: Duration) -> f64 {
    let (senders, readers) = (0..READERS)
        .map(|_| {
            let (tx, rx) = crossbeam_channel::bounded::<Payload>(QUEUE);
            (tx, move || _ = rx.recv())
        })
        .unzip::<_, _, Vec<_>, Vec<_>>();
    cpu_while(length, readers, || drop(senders))
}

fn tokio_broadcast(length: Duration) -> f64 {
    let (tx, _) = tokio::sync::broadcast::channel::<Payload>(QUEUE_POWER);
    let receivers: Vec<_> = (0..READERS).map(|_| tx.subscribe()).collect();
    let readers = receivers.into_iter().map(|mut rx| move || _ = rx.blocking_recv()).collect();
    cpu_while(length, readers, || drop(tx))
}

fn async_broadcast(length: Duration) -> f64 {
    let (tx, rx) = async_broadcast::broadcast::<Payload>(QUEUE);
    let receivers: Vec<_> = (0..READERS).map(|_| rx.clone()).collect();
    let readers = receivers.into_iter().map(|mut rx| move || _ = rx.recv_blocking()).collect();
    cpu_while(length, readers, || drop(tx))
}

fn bus(length: Duration) -> f64 {
    let mut bus = bus::Bus::<Payload>::new(QUEUE);
    let receivers: Vec<_> = (0..READERS).map(|_| bus.add_rx()).collect();
    let readers = receivers.into_iter().map(|mut rx| move || _ = rx.recv()).collect();
    cpu_while(length, readers, || drop(bus))
}

fn photon(length: Duration) -> f64 {
    let (mut publisher, subscribable) = photon_ring::channel_bounded::<Payload>(QUEUE_POWER, 0);
    let subscribers: Vec<_> = (0..READERS).map(|_| subscribable.subscribe()).collect();
    let readers = subscribers
        .into_iter()
        .map(|mut subscriber| {
            move || {
                while matches!(subscriber.try_recv(), Err(TryRecvError::Empty)) {
                    thread::yield_now();
                }
            }
        })
        .collect();
    cpu_while(length, readers, || publisher.publish([0; 8]))
}

fn disruptor<W: disruptor::wait_strategies::WaitStrategy + 'static>(length: Duration, wait: W) -> f64 {
    let look = |_: &Payload, _: disruptor::Sequence, _: bool| ();
    let producer = disruptor::build_single_producer(QUEUE_POWER, || [0; 8], wait)
        .handle_events_with(look)
        .handle_events_with(look)
        .handle_events_with(look)
        .handle_events_with(look)
        .build();
    cpu_while(length, Vec::<fn()>::new(), || drop(producer))
}
