//! Shuts down a bus, which means closing the bus, waiting for it to end, abandoning the remaining
//! events if a deadline passes first, and reporting the result.

use crate::bus::report::ShutdownReport;
use crate::clock::Deadline;

use super::bus::BusState;

/// How long a call waits for the bus to end, as measured by the bus's `end_clock`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// The deadline until which the call waits without abandoning anything.
    pub(crate) until: Deadline,
    /// The deadline until which the call continues to wait after it has abandoned the remaining
    /// events. `None` if the call does not abandon anything.
    pub(crate) after_giving_up: Option<Deadline>,
}

impl Patience {
    /// Waits for the bus to end, without a deadline.
    pub(crate) const FOREVER: Self = Self { until: None, after_giving_up: None };
}

impl BusState {
    /// Closes the bus, and waits until everything has been offered and handled and the bus's
    /// threads have ended.
    pub(crate) fn shutdown(&self, patience: Patience) -> ShutdownReport {
        self.close();
        if !self.is_current() {
            let wait = |until| self.done.wait(&self.end_clock, until, || self.has_left()).is_ok();
            if !wait(patience.until) {
                if let Some(until) = patience.after_giving_up {
                    self.give_up();
                    wait(until);
                }
            }
        }
        self.report()
    }

    /// Shuts down the bus like [`shutdown`](BusState::shutdown), but asynchronously.
    pub(crate) async fn shutdown_async(&self, patience: Patience) -> ShutdownReport {
        self.close();
        if !self.is_current() {
            let wait = |until| self.waiting(&self.done, until, || self.has_left());
            if wait(patience.until).await.is_err() {
                if let Some(until) = patience.after_giving_up {
                    self.give_up();
                    let _ = wait(until).await;
                }
            }
        }
        self.report()
    }

    fn give_up(&self) {
        // If the bus is only waiting for threads to reach their last step, there is nothing left to
        // abandon.
        if !self.registry.is_settled() {
            self.abandon();
        }
    }

    /// Returns `Some` once everything has been offered and handled, and each thread of the bus has
    /// reached its last step.
    fn has_left(&self) -> Option<()> {
        (self.registry.is_settled() && self.threads.are_leaving()).then_some(())
    }

    /// Returns the bus's final report, which is the same for all calls, or a snapshot if the bus
    /// has not ended yet.
    fn report(&self) -> ShutdownReport {
        if self.is_current() || !self.registry.is_settled() {
            return ShutdownReport::new(false, self.stats());
        }
        let mut report = {
            // Lock order: `BusState::report` before `Registry::entries`. `stats` takes the second
            // lock.
            let mut report = self.report.lock();
            let make = || Box::new(ShutdownReport::new(!self.is_abandoned(), self.stats()));
            (**report.get_or_insert_with(make)).clone()
        };
        report.threads_ended = self.threads.join();
        report
    }

    /// Waits for the bus to end, but at most until the deadline. Does not close the bus.
    #[cfg(feature = "recorder")]
    pub(crate) fn wait_ended(&self, deadline: Deadline) {
        let _ = self.done.wait(&self.end_clock, deadline, || self.ending());
    }

    /// Returns whether the bus has ended with everything handled, or `None` if the bus has not
    /// ended yet.
    pub(crate) fn ending(&self) -> Option<bool> {
        self.registry.is_settled().then(|| !self.is_abandoned())
    }
}
