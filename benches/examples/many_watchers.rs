//! Measures an event's fan-out to thousands of watchers, whose memory does not fit into the
//! processor's caches:
//!
//! - `many_watchers tasks [TASKS] [WORKERS]`: one event at a time, to tasks of one tokio runtime
//!   that all sleep when the event is published. Without WORKERS, the runtime has one thread. The
//!   time ends when the last task has the event. tokio's broadcast channel takes turns with the
//!   bus.
//! - `many_watchers fill [WATCHERS] [EVENTS]`: the watchers' queues fill, because no thread reads.
//!
//! `cargo run --profile bench -p eventcast-benches --example many_watchers tasks 20000`

#![allow(clippy::print_stdout, clippy::missing_panics_doc, reason = "a tool for whoever measures")]

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use eventcast::{Broadcaster, BusOptions, OverflowPolicy, Watcher};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, broadcast};

const QUEUE: usize = 1000;
const ROUNDS: usize = 9;
const EVENTS_OF_A_ROUND: u32 = 30;
const LONG: Duration = Duration::from_secs(60);

fn main() {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_default();
    let mut number = || args.next().map(|number| number.parse().expect("a number"));
    match what.as_str() {
        "tasks" => tasks(number().unwrap_or(20_000), number().unwrap_or(0)),
        "fill" => fill(number().unwrap_or(10_000), number().unwrap_or(1000) as u32),
        _ => println!("many_watchers tasks [TASKS] [WORKERS] | fill [WATCHERS] [EVENTS]"),
    }
}

fn bus(is_inline: bool) -> Broadcaster<u64> {
    let options = BusOptions::default().queue_capacity(QUEUE).overflow(OverflowPolicy::DropIncoming);
    Broadcaster::with_options(options.inline(is_inline)).expect("the options are in range")
}

/// Counts the tasks that have not received the current event.
struct Left {
    tasks: AtomicUsize,
    none: Notify,
}

impl Left {
    fn received(&self) {
        // Release and Acquire: the last task notifies after all others have received.
        if self.tasks.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.none.notify_one();
        }
    }
}

/// A runtime with tasks that wait for events.
struct Contender {
    name: &'static str,
    runtime: Runtime,
    left: Arc<Left>,
    tasks: usize,
    publish: Box<dyn Fn(u64) + Send>,
}

impl Contender {
    fn new<F: Future<Output = ()> + Send + 'static>(
        name: &'static str,
        (tasks, workers): (usize, usize),
        publish: impl Fn(u64) + Send + 'static,
        mut task: impl FnMut(Arc<Left>) -> F,
    ) -> Self {
        let runtime = match workers {
            0 => Builder::new_current_thread().build(),
            _ => Builder::new_multi_thread().worker_threads(workers).build(),
        };
        let runtime = runtime.expect("the threads can be started");
        let left = Arc::new(Left { tasks: AtomicUsize::new(tasks), none: Notify::new() });
        (0..tasks).for_each(|_| drop(runtime.spawn(task(left.clone()))));
        Self { name, runtime, left, tasks, publish: Box::new(publish) }
    }

    /// Returns the time of an event and its processor time, in microseconds.
    fn round(&self) -> (f64, f64) {
        let (mut time, mut processor) = (Duration::ZERO, Duration::ZERO);
        self.runtime.block_on(async {
            for event in 0..EVENTS_OF_A_ROUND {
                // The tasks that have received the last event go back to sleep.
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
                thread::sleep(Duration::from_micros(300));
                // Release: pairs with the tasks' `fetch_sub`.
                self.left.tasks.store(self.tasks, Ordering::Release);
                let (start, used) = (Instant::now(), ProcessTime::now());
                (self.publish)(u64::from(event));
                self.left.none.notified().await;
                time += start.elapsed();
                processor += used.elapsed();
            }
        });
        let each = |sum: Duration| sum.as_secs_f64() * 1e6 / f64::from(EVENTS_OF_A_ROUND);
        (each(time), each(processor))
    }
}

fn of_bus(name: &'static str, size: (usize, usize), is_inline: bool) -> Contender {
    let bus = bus(is_inline);
    let watching = bus.clone();
    let publisher = bus.publisher();
    let publish = move |event| {
        // The bus is open as long as this handle exists.
        let _bus = &bus;
        publisher.publish(event).expect("the bus is open");
    };
    Contender::new(name, size, publish, move |left| {
        let mut watcher = watching.watch().expect("the bus is open");
        async move {
            while watcher.recv_async().await.is_ok() {
                left.received();
            }
        }
    })
}

fn tasks(tasks: usize, workers: usize) {
    let size = (tasks, workers);
    let (sender, _) = broadcast::channel(1024);
    let receivers = sender.clone();
    let publish = move |event| {
        sender.send(event).expect("there are receivers");
    };
    let tokio = Contender::new("tokio broadcast", size, publish, move |left| {
        let mut receiver = receivers.subscribe();
        async move {
            while receiver.recv().await.is_ok() {
                left.received();
            }
        }
    });
    let contenders = [tokio, of_bus("eventcast", size, false), of_bus("eventcast, inline", size, true)];
    let mut rounds = vec![Vec::new(); contenders.len()];
    // The first round is not counted.
    for round in 0..=ROUNDS {
        for (contender, rounds) in contenders.iter().zip(&mut rounds) {
            let measured = contender.round();
            if round > 0 {
                rounds.push(measured);
            }
        }
    }
    println!("one event to {tasks} tasks, workers: {workers}, median of {ROUNDS} rounds");
    for (contender, own) in contenders.iter().zip(&rounds) {
        let of = |figure: fn(&(f64, f64)) -> f64| median(own.iter().map(figure));
        let ratio = median(own.iter().zip(&rounds[0]).map(|(own, tokio)| own.0 / tokio.0));
        let name = contender.name;
        println!(
            "{name:18} {:9.1} us, {:9.1} us of processor time, {ratio:.2} of tokio's time",
            of(|r| r.0),
            of(|r| r.1)
        );
    }
}

fn fill(watchers: usize, events: u32) {
    for (name, is_inline) in [("eventcast", false), ("eventcast, inline", true)] {
        let rounds = (0..ROUNDS).map(|_| {
            let bus = bus(is_inline);
            let watching: Vec<Watcher<u64>> =
                (0..watchers).map(|_| bus.watch().expect("the bus is open")).collect();
            bus.flush(LONG).expect("the bus has no handlers");
            let publisher = bus.publisher();
            let used = ProcessTime::now();
            (0..u64::from(events)).for_each(|event| publisher.publish(event).expect("the bus is open"));
            bus.flush(LONG).expect("the bus has no handlers");
            let used = used.elapsed();
            assert!(watching.iter().all(|watcher| watcher.len() == QUEUE.min(events as usize)));
            used.as_secs_f64() * 1e6 / f64::from(events)
        });
        let used = median(rounds);
        println!("{name:18} {used:9.1} us of processor time for an event to {watchers} watchers");
    }
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
