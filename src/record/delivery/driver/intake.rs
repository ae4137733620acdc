//! The way from an event to its pending write.

use crate::bus::BulkNext;
use crate::catch::catch_panic_message;
use crate::record::correlator::Correlation;
use crate::record::event::Event;
use crate::record::loss::LossReason;
use crate::record::sink::SinkError;

use super::super::write::Write;
use super::super::writers::BATCH;
use super::Driver;

impl Driver {
    /// Takes in events, until a batch of them is ready or there are no more. Sets `is_over` if
    /// there will be no more events. Returns whether there were any.
    pub(super) fn read_events(&mut self, is_over: &mut bool) -> bool {
        let mut taken = 0;
        while taken < BATCH && !self.reader.is_full() {
            match self.reader.take() {
                BulkNext::Events(run) => {
                    taken += run.events().len();
                    for (position, event) in (run.position()..).zip(run.events()) {
                        self.correlate(event, position);
                    }
                }
                BulkNext::Empty => break,
                BulkNext::End => {
                    *is_over = true;
                    break;
                }
            }
        }
        taken > 0
    }

    fn correlate(&mut self, event: &Event, position: u64) {
        if event.event_time().is_some() {
            // A correlator counts in fields that an event with an event time does not have.
            return self.admit(self.correlator.create(event), position, 1);
        }
        match catch_panic_message(|| self.correlator.decide(event)) {
            Ok(Correlation::Summarized { summary, event }) => {
                self.admit(*summary, position, 0);
                self.admit(*event, position, 1);
            }
            Ok(decision) => {
                if matches!(decision, Correlation::Skip(_)) {
                    self.tally.panics += u64::from(self.correlator.report_skip(event));
                }
                self.admit(decision, position, 1);
            }
            Err(text) => {
                self.tally.panics += 1;
                let text = format!("a function of the correlator's options panicked: {text}");
                self.decided += 1;
                self.lose(LossReason::Rejected, event, 1, SinkError::rejected(text));
            }
        }
    }

    fn admit(&mut self, decision: Correlation, position: u64, events: u64) {
        if let Some((key, write)) = Write::of(decision, position, events) {
            self.decided += self.pending.admit(key, write);
        } else {
            self.tally.skipped += events;
            self.decided += events;
        }
    }
}
