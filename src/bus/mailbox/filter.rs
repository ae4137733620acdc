//! A mailbox's filter. Only the events that pass the filter are offered to the reader.

use std::ops::Range;

use crate::bus::state::BusState;
use crate::sync::Arc;

use super::sender::MailboxSender;
use super::slice::{SharedBatch, copied};

impl<T: Clone> MailboxSender<T> {
    #[cold]
    pub(super) fn offer_filtered(&mut self, batch: Arc<SharedBatch<T>>, all: Range<usize>, bus: &BusState) {
        let Some(runs) = self.passing(batch.events(), all.clone()) else {
            // If a filter panics, its watcher is stopped, because it is unknown which events the
            // filter would have accepted.
            self.state.count_panic();
            return bus.stop_offering(&self.state);
        };
        let passed: usize = runs.iter().map(Range::len).sum();
        self.sent.count_filtered((all.len() - passed) as u64);
        if self.queue.conflates() && !self.gave_up {
            return self.offer_by_key(&batch, runs, bus);
        }
        if passed == all.len() {
            return self.offer_part(batch, all, bus);
        }
        if passed == 0 {
            return;
        }
        if let Some(own) = self.state.run_user_code(|| copied(&batch, &runs)).flatten() {
            self.offer_part(own, 0..passed, bus);
        } else {
            // Cloning an event has panicked. The watcher does not lose any events, but keeps the
            // whole batch alive for longer.
            self.state.count_panic();
            for run in runs {
                if self.is_offered() {
                    self.offer_part(batch.clone(), run, bus);
                }
            }
        }
    }

    /// Returns the parts of the range that pass the filter. Returns `None` if the filter panicked,
    /// or if there is no filter.
    fn passing(&mut self, events: &[T], range: Range<usize>) -> Option<Vec<Range<usize>>> {
        let (filter, mut judged) = (self.filter.as_mut()?, self.judged.take());
        self.state.run_user_code(|| {
            let mut runs: Vec<Range<usize>> = Vec::new();
            for i in range {
                if judged.take().unwrap_or_else(|| filter(&events[i])) {
                    match runs.last_mut() {
                        Some(run) if run.end == i => run.end = i + 1,
                        _ => runs.push(i..i + 1),
                    }
                }
            }
            runs
        })
    }
}
