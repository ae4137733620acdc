//! What happens to one event: correlate, write, try again, remember.

use std::slice;

use crate::bus::{Delivery, WatchHandle};
use crate::correlator::{Correlation, CorrelationKey, EventCorrelator};
use crate::event::{Event, EventPatch};
use crate::guard::{caught, guarded};
use crate::loss::{Loss, LossHook, LossReason};
use crate::sink::{EventSink, SinkError, SinkErrorKind};
use crate::stats::RecordingStats;
use crate::sync::{Arc, Mutex};

use super::retry::RetryPolicy;

/// The handler of a recording's watcher. It lives on the recording's thread.
pub(super) struct Driver<S> {
    /// `None` only while it goes.
    pub(super) sink: Option<S>,
    pub(super) retry: RetryPolicy,
    pub(super) watch: WatchHandle,
    /// Here and nowhere else, so that its caches and the user's functions in it go when the recording ends.
    pub(super) correlator: EventCorrelator,
    /// All but what the watcher counts itself.
    pub(super) stats: Arc<Mutex<RecordingStats>>,
    pub(super) losses: Arc<LossHook>,
}

/// What a sink did.
enum Written {
    Created(Event),
    Updated(Event),
}

/// Why an event is given up.
struct GivenUp(LossReason, SinkError);

impl<S> Drop for Driver<S> {
    /// The sink and the correlator's functions are the user's, and each may panic when it goes: two at once would end the
    /// process.
    fn drop(&mut self) {
        let sink = self.sink.take();
        guarded(|| drop(sink));
    }
}

impl<S: EventSink> Driver<S> {
    pub(super) fn handle(&mut self, delivery: Delivery<&Event>) {
        // Who loses an event at the queue tells of it there.
        let Delivery::Event(event) = delivery else { return };
        let correlation = match caught(|| self.correlator.correlate(event)) {
            Ok(correlation) => correlation,
            Err(text) => {
                let given_up = self.panicked("a function of the correlator's options", &text);
                return self.give_up(event, given_up, true);
            }
        };
        match correlation {
            Correlation::Summarized { summary, event } => {
                self.carry_out(*summary, false);
                self.carry_out(*event, true);
            }
            decision => self.carry_out(decision, true),
        }
    }

    /// `is_delivered`: not a summary, which is nobody's event. No outcome is counted for it, because the outcomes add up
    /// to what was delivered; its loss is told of like any other.
    fn carry_out(&self, decision: Correlation, is_delivered: bool) {
        match decision {
            Correlation::Create { event, key, .. } => self.write(event, None, key, is_delivered),
            Correlation::Update { event, patch, key, .. } => {
                self.write(event, Some(&patch), key, is_delivered);
            }
            Correlation::Skip(_) => self.count(|stats| stats.skipped += 1),
            Correlation::Summarized { .. } => {}
        }
    }

    fn write(&self, mut event: Event, patch: Option<&EventPatch>, key: CorrelationKey, is_delivered: bool) {
        match self.try_write(&mut event, patch) {
            Ok(Written::Created(stored)) => {
                self.correlator.confirm(key, &stored);
                self.count(|stats| {
                    stats.created += u64::from(is_delivered);
                    stats.recreated += u64::from(is_delivered && patch.is_some());
                });
            }
            Ok(Written::Updated(stored)) => {
                self.correlator.confirm(key, &stored);
                self.count(|stats| stats.updated += u64::from(is_delivered));
            }
            Err(given_up) => self.give_up(&event, given_up, is_delivered),
        }
    }

    /// Until it works, never will, or is not worth more attempts. Once the end has begun, one attempt is all there is.
    fn try_write(&self, event: &mut Event, patch: Option<&EventPatch>) -> Result<Written, GivenUp> {
        let mut failed = 0;
        loop {
            let error = match self.attempt(event, patch)? {
                Ok(written) => return Ok(written),
                Err(error) => error,
            };
            let reason = match error.kind() {
                SinkErrorKind::Retry => None,
                SinkErrorKind::AlreadyExists => Some(LossReason::AlreadyExists),
                SinkErrorKind::Rejected | SinkErrorKind::NotFound => Some(LossReason::Rejected),
            };
            if let Some(reason) = reason {
                return Err(GivenUp(reason, error));
            }
            failed += 1;
            if failed >= self.retry.attempts {
                return Err(GivenUp(LossReason::Exhausted, error));
            }
            if !self.watch.pause(self.retry.pause(failed, error.wait())) {
                return Err(GivenUp(LossReason::Abandoned, error));
            }
            self.discard(error);
            self.count(|stats| stats.retried += 1);
        }
    }

    /// Once, as client-go does: a stored event is patched; one that has expired meanwhile is created, count and all.
    fn attempt(
        &self,
        event: &mut Event,
        patch: Option<&EventPatch>,
    ) -> Result<Result<Written, SinkError>, GivenUp> {
        if let Some(patch) = patch {
            match self.call(|sink| sink.patch(event, patch))? {
                Err(error) if error.kind() == SinkErrorKind::NotFound => self.discard(error),
                answer => return Ok(answer.map(Written::Updated)),
            }
        }
        // The version of an event that is no more.
        event.metadata.set_resource_version("");
        Ok(self.call(|sink| sink.create(event))?.map(Written::Created))
    }

    /// A sink that panics is taken to have refused the event: it would do so again.
    fn call<R>(&self, run: impl FnOnce(&S) -> R) -> Result<R, GivenUp> {
        // It is there until it goes.
        let run = || self.sink.as_ref().map(run);
        match caught(run) {
            Ok(answer) => answer.ok_or_else(|| self.panicked("the sink", "it has gone")),
            Err(text) => Err(self.panicked("the sink", &text)),
        }
    }

    fn panicked(&self, what: &str, text: &str) -> GivenUp {
        self.count(|stats| stats.panics += 1);
        GivenUp(LossReason::Rejected, SinkError::rejected(format!("{what} panicked: {text}")))
    }

    fn give_up(&self, event: &Event, GivenUp(reason, error): GivenUp, is_delivered: bool) {
        self.count(|stats| {
            *match reason {
                LossReason::AlreadyExists => &mut stats.already_existed,
                LossReason::Exhausted => &mut stats.exhausted,
                LossReason::Abandoned => &mut stats.abandoned,
                _ => &mut stats.rejected,
            } += u64::from(is_delivered);
        });
        let loss = Loss::new(reason, self.watch.name(), slice::from_ref(event)).because(&error);
        self.losses.tell(&loss);
        self.discard(error);
    }

    /// Lets go of an error, whose cause is the sink's own and may panic when it goes: the event must not go with it.
    fn discard(&self, error: SinkError) {
        if guarded(|| drop(error)).is_none() {
            self.count(|stats| stats.panics += 1);
        }
    }

    fn count(&self, change: impl FnOnce(&mut RecordingStats)) {
        let correlator = self.correlator.stats();
        let mut stats = self.stats.lock();
        change(&mut stats);
        (stats.aggregated, stats.evicted) = (correlator.aggregated, correlator.evicted);
    }
}
