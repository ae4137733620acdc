//! An agent: one worker adds up the numbers that any thread submits, until the agent is stopped.
//!
//! [`Agent::stop_by_order`] has a bug that its ordinary test does not find, and [`Agent::stop`] is
//! its fix. The models in `src/models.rs` explore both.

#[cfg(all(test, eventcast_loom))]
mod models;
mod sync;

use std::error::Error;

use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy, Publisher, Watcher};

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, thread};

/// An order to the worker.
#[derive(Clone, Debug)]
enum Order {
    Job(u64),
    Stop,
}

/// A worker, and the bus that brings it its orders.
#[derive(Debug)]
pub struct Agent {
    bus: Broadcaster<Order>,
    orders: Publisher<Order>,
    sum: Arc<AtomicU64>,
    worker: thread::JoinHandle<()>,
}

impl Agent {
    /// Starts the worker, behind a bus with these options.
    ///
    /// # Errors
    ///
    /// If an option is out of range, or the system grants no thread for the bus.
    pub fn start(options: BusOptions) -> Result<Self, Box<dyn Error>> {
        let bus = Broadcaster::with_options(options)?;
        // `Wait`: a job that was accepted is done.
        let watcher = bus.watch_builder().overflow(OverflowPolicy::Wait).watch()?;
        let sum = Arc::new(AtomicU64::new(0));
        let shared = sum.clone();
        let worker = thread::spawn(move || work(watcher, &shared));
        Ok(Self { orders: bus.publisher(), bus, sum, worker })
    }

    /// Submits a job, and returns whether it was accepted. The worker does every accepted job.
    pub fn submit(&self, job: u64) -> bool {
        self.orders.try_publish(Order::Job(job)).is_ok()
    }

    /// Stops the worker after the jobs that were accepted, and returns the sum of what it has done.
    /// Hangs if the incoming queue is full at this moment.
    pub fn stop_by_order(self) -> u64 {
        // The bug: the queue may be full of jobs. Then the order is lost, and the worker waits for
        // ever.
        let _ = self.orders.try_publish(Order::Stop);
        self.join()
    }

    /// Stops the worker after the jobs that were accepted, and returns the sum of what it has done.
    pub fn stop(self) -> u64 {
        // The fix: the end of the bus is not an event, and needs no room. The worker reads what was
        // accepted, and then its `recv` returns an error.
        self.bus.close();
        self.join()
    }

    fn join(self) -> u64 {
        self.worker.join().expect("the worker does not panic");
        // Relaxed: `join` has waited for the worker, and orders its last addition before this.
        self.sum.load(Ordering::Relaxed)
    }
}

/// Does the jobs, until the worker is ordered to stop or the bus has ended.
fn work(mut watcher: Watcher<Order>, sum: &AtomicU64) {
    while let Ok(delivery) = watcher.recv() {
        match delivery {
            Delivery::Event(Order::Job(job)) => {
                // Relaxed: a sum, which is read after the end of this thread.
                sum.fetch_add(job, Ordering::Relaxed);
            }
            Delivery::Event(Order::Stop) => break,
            // Nothing is lost with `Wait`, except at a shutdown that gives up.
            Delivery::Lagged(_) => {}
        }
    }
}
