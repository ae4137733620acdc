//! The way from an event to a write that is ready for the sink.

use crate::catch::catch_panic_message;
use crate::record::correlator::Correlation;
use crate::record::event::Event;
use crate::record::loss::LossReason;
use crate::record::sink::{EventSink, SinkError};

use super::super::breaker::BreakerState;
use super::super::in_flight::Admission;
use super::super::write::Write;
use super::Driver;

impl<S: EventSink> Driver<S> {
    /// Correlates an event and admits its writes. Returns whether one of them comes next after a
    /// write of the same key that is about to be done.
    pub(super) fn correlate(&mut self, event: &Event, position: u64) -> bool {
        match catch_panic_message(|| self.correlator.decide(event)) {
            Ok(Correlation::Summarized { summary, event }) => {
                let comes_next = self.admit(*summary, position, 0);
                self.admit(*event, position, 1) || comes_next
            }
            Ok(decision) => {
                if matches!(decision, Correlation::Skip(_)) {
                    self.tally.panics += u64::from(self.correlator.report_skip(event));
                }
                self.admit(decision, position, 1)
            }
            Err(text) => {
                self.tally.panics += 1;
                let text = format!("a function of the correlator's options panicked: {text}");
                self.decided += 1;
                self.lose(LossReason::Rejected, event, 1, SinkError::rejected(text));
                false
            }
        }
    }

    fn admit(&mut self, decision: Correlation, position: u64, events: u64) -> bool {
        let Some(write) = Write::of(decision, position, events) else {
            self.tally.skipped += events;
            self.decided += events;
            return false;
        };
        let is_away = self.breaker_state() != BreakerState::Closed;
        match self.in_flight.admit(write, is_away) {
            Admission::Now(write) => self.make_ready(write),
            Admission::Next => return true,
            Admission::Behind => {}
            Admission::Absorbed(room) => self.decided += room,
        }
        false
    }

    pub(super) fn make_ready(&mut self, write: Write) {
        let worker = write.ticket.key.share(self.ready.len());
        self.ready[worker].push_back(write);
    }
}
