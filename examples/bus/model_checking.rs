//! An agent that loses its stop signal, the model that finds the bug, and the fix. One worker adds
//! up the jobs that threads submit. The bus has a dispatcher, so submitting a job takes no lock.
//!
//! `cargo run -p bus-examples --bin model_checking` runs the agent. In a crate with the two files
//! of `docs/model-checking.md`, `cargo test` never sees the bug, and `cargo models` finds it.

use std::error::Error;

use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy};

#[cfg(eventcast_loom)]
use loom::thread;
#[cfg(not(eventcast_loom))]
use std::thread;

#[derive(Clone)]
enum Order {
    Job(u64),
    Stop,
}

struct Agent {
    bus: Broadcaster<Order>,
    worker: thread::JoinHandle<u64>,
}

impl Agent {
    fn start(options: BusOptions) -> Result<Self, Box<dyn Error>> {
        let bus = Broadcaster::with_options(options)?;
        // With `Wait`, a job that was accepted is done.
        let mut watcher = bus.watch_builder().overflow(OverflowPolicy::Wait).watch()?;
        let worker = thread::spawn(move || {
            let mut sum = 0;
            while let Ok(Delivery::Event(Order::Job(job))) = watcher.recv() {
                sum += job;
            }
            sum
        });
        Ok(Self { bus, worker })
    }

    /// Submits a job and returns whether the job was accepted. The worker does every accepted job.
    fn submit(&self, job: u64) -> bool {
        self.bus.publisher().try_publish(Order::Job(job)).is_ok()
    }

    fn stop_by_order(self) -> u64 {
        // The bug: a queue full of jobs loses the order, and the worker waits forever.
        let _ = self.bus.publisher().try_publish(Order::Stop);
        self.worker.join().expect("the worker does not panic")
    }

    /// Stops the worker after the accepted jobs and returns the sum of the jobs.
    fn stop(self) -> u64 {
        // The fix: closing the bus is not an event and needs no space. The worker reads the
        // accepted jobs, and then its `recv` returns an error.
        self.bus.close();
        self.worker.join().expect("the worker does not panic")
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    for stop in [Agent::stop, Agent::stop_by_order] {
        let agent = Agent::start(BusOptions::default())?;
        let accepted: u64 = (0..100).filter(|&job| agent.submit(job)).sum();
        assert_eq!(stop(agent), accepted);
    }
    Ok(())
}

#[cfg(all(test, not(eventcast_loom)))]
#[test]
fn the_queue_has_capacity_for_every_job_so_this_passes() {
    main().expect("the options are in range");
}

#[cfg(all(test, eventcast_loom))]
mod models {
    use super::{Agent, BusOptions, Order, thread};
    use eventcast::testing::{Exploration, begin, rest};

    /// Starts an agent whose queues each hold one event, which keeps the models short.
    fn small_agent() -> Agent {
        Agent::start(BusOptions::default().incoming_capacity(1).queue_capacity(1)).expect("they are in range")
    }

    /// Explores everything: the start, a job, and the stop.
    #[test]
    fn a_stop_is_never_lost() {
        let explored = Exploration::default().run(|| {
            let agent = small_agent();
            let accepted = u64::from(agent.submit(1));
            assert_eq!(agent.stop(), accepted);
        });
        println!("a_stop_is_never_lost: {explored}");
    }

    #[test]
    fn a_submit_against_a_stop() {
        let explored = Exploration::default().after_set_up().run(|| {
            let agent = small_agent();
            rest(&agent.bus);
            begin();
            let orders = agent.bus.publisher();
            let submitting = thread::spawn(move || u64::from(orders.try_publish(Order::Job(1)).is_ok()));
            assert_eq!(agent.stop(), submitting.join().expect("the submitter does not panic"));
        });
        println!("a_submit_against_a_stop: {explored}");
    }

    #[test]
    #[ignore = "loom finds the bug, and ends the process"]
    fn a_stop_by_order() {
        Exploration::default().run(|| {
            let agent = small_agent();
            let accepted = u64::from(agent.submit(1));
            assert_eq!(agent.stop_by_order(), accepted);
        });
    }
}
