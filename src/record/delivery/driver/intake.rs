//! Turns events into pending writes.

use std::time::Duration;

use crate::bus::BulkNext;
use crate::catch::catch_panic_message;
use crate::record::correlator::Verdict;
use crate::record::event::timed::is_timed;
use crate::record::event::{Event, Timestamp};
use crate::record::loss::LossReason;
use crate::record::sink::SinkError;

use super::super::write::{Ticket, WriteKey};
use super::super::writers::BATCH;
use super::Driver;

/// An event that has been taken out of the queue.
enum Taken<'a> {
    /// No other watcher holds the event, so it is changed in place, and moved if it is written.
    Alone(&'a mut Event),
    /// The event is copied if it is written.
    Shared(&'a Event),
}

impl Taken<'_> {
    fn get(&self) -> &Event {
        match self {
            Self::Alone(event) => event,
            Self::Shared(event) => event,
        }
    }
}

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
                BulkNext::Events(mut run) => {
                    taken += run.events().len();
                    let offsets = run.offset()..;
                    // Read after the events were taken, so that no event is newer than its
                    // decision.
                    let time = self.correlator.now();
                    if let Some(events) = run.events_mut() {
                        for (offset, event) in offsets.zip(events) {
                            self.count(Taken::Alone(event), offset, now, time);
                        }
                    } else {
                        for (offset, event) in offsets.zip(run.events()) {
                            self.count(Taken::Shared(event), offset, now, time);
                        }
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
    /// `now` and `time` are the monotonic time and the time of day.
    fn count(&mut self, event: Taken<'_>, offset: u64, now: Duration, time: Timestamp) {
        if !is_timed(event.get()) {
            return self.correlate(event, offset, now, time);
        }
        self.decided += u64::from(self.series.count(event.get(), offset, now));
        self.admit_series(now);
    }

    fn admit_series(&mut self, now: Duration) {
        while let Some(write) = self.series.next_write() {
            let (key, mut event, ticket) = Ticket::of_series(write);
            self.admit(key, &mut event, ticket, now);
        }
    }

    /// Makes a write pending, unless its group has reached its share of the waiting writes. Events
    /// beyond that share are lost.
    fn admit(&mut self, key: WriteKey, event: &mut Event, ticket: Ticket, now: Duration) {
        match self.pending.admit(key, event, ticket, now) {
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

    fn correlate(&mut self, mut event: Taken<'_>, offset: u64, now: Duration, time: Timestamp) {
        // Any copy of the event that is made: before it is changed, or in order to change it.
        let (mut before, mut copy) = (None, None);
        let decision = catch_panic_message(|| {
            let seen = self.correlator.observe(event.get(), time, true)?;
            let changed = match &mut event {
                Taken::Alone(event) => {
                    before = self.correlator.is_shown(&seen).then(|| event.clone());
                    event
                }
                Taken::Shared(event) => copy.insert(event.clone()),
            };
            self.correlator.decide(seen, changed)
        });
        let shown = before.as_ref().unwrap_or_else(|| event.get());
        match decision {
            Ok(None) => {
                self.report_skip(shown);
                self.tally.skipped += 1;
                self.decided += 1;
            }
            Ok(Some((verdict, key))) => {
                if verdict == Verdict::Held {
                    self.report_skip(shown);
                }
                let event = match &mut event {
                    Taken::Alone(event) => event,
                    Taken::Shared(event) => copy.get_or_insert_with(|| event.clone()),
                };
                let (key, ticket) =
                    (WriteKey::Correlated(key), Ticket::of(offset, verdict == Verdict::Create));
                match verdict {
                    Verdict::Held => self.decided += self.pending.hold(key, event, ticket, now),
                    Verdict::Create | Verdict::Update => self.admit(key, event, ticket, now),
                }
            }
            Err(text) => {
                self.tally.panics += 1;
                let text = format!("a function of the correlator's options panicked: {text}");
                self.lose(
                    LossReason::Rejected,
                    shown,
                    &Ticket::of(0, false),
                    SinkError::rejected(text),
                    None,
                );
            }
        }
    }

    fn report_skip(&mut self, event: &Event) {
        self.tally.panics += u64::from(self.correlator.report_skip(event));
    }
}
