//! Turns events into pending writes.

use std::time::Duration;

use crate::bus::BulkNext;
use crate::catch::catch_panic_message;
use crate::record::correlator::Correlation;
use crate::record::event::Event;
use crate::record::event::timed::is_timed;
use crate::record::loss::LossReason;
use crate::record::sink::SinkError;

use super::super::write::{Ticket, Write, WriteKey};
use super::super::writers::BATCH;
use super::Driver;

impl Driver {
    /// Reads events until a batch has been read, no more events are available, or the recording is
    /// [full](Self::is_full). Sets `is_over` if no more events will arrive. Returns whether any
    /// events were read.
    pub(super) fn read_events(&mut self, is_over: &mut bool) -> bool {
        let (mut taken, now) = (0, self.moment_after(Duration::ZERO));
        // If the time of a series has passed, the series must not continue with the events that are
        // read here.
        self.series.tick(now);
        while taken < BATCH && !self.is_full() {
            match self.reader.take() {
                BulkNext::Events(run) => {
                    taken += run.events().len();
                    for (offset, event) in (run.offset()..).zip(run.events()) {
                        self.count(event, offset, now);
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

    /// Returns whether reading events must wait until something has been written.
    pub(super) fn is_full(&self) -> bool {
        // The final write of a series does not take up queue capacity. Reading therefore stops if
        // the store does not keep up with the writes of evicted series. The same applies to held
        // writes.
        let held = (self.series.capacity() + self.pending.capacity()) as u64;
        let most = self.reader.capacity().saturating_add(held);
        self.reader.is_full() || self.pending.len() as u64 >= most
    }

    /// Counts an event in a series if the event has an event time and no count, because the
    /// correlator counts in fields that such an event does not have. Correlates any other event.
    fn count(&mut self, event: &Event, offset: u64, now: Duration) {
        if !is_timed(event) {
            return self.correlate(event, offset, now);
        }
        self.decided += u64::from(self.series.count(event, offset, now));
        self.admit_series(now);
    }

    fn admit_series(&mut self, now: Duration) {
        while let Some(write) = self.series.next_write() {
            let (key, write) = Write::of_series(write);
            self.admit(key, write, now);
        }
    }

    /// Makes a write pending, unless its group has reached its share of the waiting writes. Events
    /// beyond that share are lost.
    fn admit(&mut self, key: WriteKey, write: Write, now: Duration) {
        match self.pending.admit(key, write, now) {
            Ok(free) => self.decided += free,
            Err((at, write)) => {
                let error = SinkError::rejected("this group's share of the queue is full");
                self.refuse(at, &write, LossReason::GroupFull, error);
                self.pending.dismiss(at);
            }
        }
    }

    /// Releases the held writes that are due, or all held writes if the recording is ending or a
    /// flush is running.
    pub(super) fn write_held(&mut self) {
        let now = self.moment_after(Duration::ZERO);
        self.series.tick(now);
        self.pending.release_due(now);
        if self.is_ending || self.flushes.is_running() {
            self.series.write_held(now);
            self.pending.release_all(now);
        }
        self.admit_series(now);
    }

    fn correlate(&mut self, event: &Event, offset: u64, now: Duration) {
        match catch_panic_message(|| self.correlator.decide(event, true)) {
            Ok(Correlation::Create { event, key }) => {
                self.admit(WriteKey::Correlated(key), Write::of(event, offset, true), now);
            }
            Ok(Correlation::Update { event, key }) => {
                self.admit(WriteKey::Correlated(key), Write::of(event, offset, false), now);
            }
            Ok(Correlation::Held { event: state, key }) => {
                self.report_skip(event);
                self.decided +=
                    self.pending.hold(WriteKey::Correlated(key), Write::of(state, offset, false), now);
            }
            Ok(Correlation::Skip) => {
                self.report_skip(event);
                self.tally.skipped += 1;
                self.decided += 1;
            }
            Err(text) => {
                self.tally.panics += 1;
                let text = format!("a function of the correlator's options panicked: {text}");
                let ticket = Ticket { events: 1, in_hand: 1, ..Ticket::default() };
                self.lose(LossReason::Rejected, event, &ticket, SinkError::rejected(text), None);
            }
        }
    }

    fn report_skip(&mut self, event: &Event) {
        self.tally.panics += u64::from(self.correlator.report_skip(event));
    }
}
