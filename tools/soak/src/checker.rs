//! Checks order (G1), gaps at the right place (G7) and accounting (G6) for one watcher.
//!
//! The journal, a watcher that does not lose any events, assigns a position to each event. If
//! another watcher receives two consecutive events, the number of positions between the two events
//! must be exactly the number that the gap between the events reports.

use std::collections::VecDeque;
use std::sync::Arc;

use eventcast::stats::WatcherStats;

use super::ledger::{Ledger, add};
use super::tick::{Place, Tick};

/// The maximum length of a batch on the bus, in events.
pub(crate) const MAX_BATCH: u64 = 32;

pub(crate) struct Checker {
    ledger: Arc<Ledger>,
    name: String,
    /// The only class of events that the watcher is offered, or `None` for all classes.
    class: Option<usize>,
    /// The number of events accepted before the registration.
    before: u64,
    prefix: u64,
    prefix_seen: u64,
    /// The received events that do not have a position yet, each with the number of events missing
    /// before it.
    unplaced: VecDeque<(Arc<Place>, u64)>,
    last: Option<u64>,
    missing: u64,
    received: u64,
    lagged: u64,
    /// Whether a handler's panic ended the watcher, possibly before it had read all of its events.
    pub(crate) gave_up: bool,
}

impl Checker {
    pub(crate) fn new(
        ledger: &Arc<Ledger>,
        name: &str,
        class: Option<usize>,
        before: u64,
        prefix: u64,
    ) -> Self {
        Self {
            ledger: ledger.clone(),
            name: name.to_owned(),
            class,
            before,
            prefix,
            prefix_seen: 0,
            unplaced: VecDeque::new(),
            last: None,
            missing: 0,
            received: 0,
            lagged: 0,
            gave_up: false,
        }
    }

    pub(crate) fn event(&mut self, tick: &Tick) {
        if tick.publisher.is_none() {
            if tick.number != self.prefix_seen || self.received + self.lagged > 0 {
                self.fault(format_args!("{} of the prefix, not {}", tick.number, self.prefix_seen));
            }
            self.prefix_seen += 1;
            return;
        }
        if self.prefix_seen < self.prefix {
            self.fault(format_args!("an event before the end of the prefix"));
        }
        if self.class.is_some_and(|class| class != tick.class) {
            self.fault(format_args!("an event that its filter refuses"));
        }
        self.received += 1;
        add(&self.ledger.received, 1);
        self.unplaced.push_back((tick.place.clone(), std::mem::take(&mut self.missing)));
        self.settle();
    }

    pub(crate) fn gap(&mut self, count: u64) {
        if count == 0 {
            self.fault(format_args!("a gap of nothing"));
        }
        self.missing += count;
        self.lagged += count;
        add(&self.ledger.lagged, count);
    }

    /// Counts an event whose `Clone` panicked. The bus counts the event as delivered, but the
    /// reader does not know which event it was.
    pub(crate) fn unclonable(&mut self) {
        self.received += 1;
        self.missing += 1;
        add(&self.ledger.received, 1);
    }

    /// Returns the number of events received so far, including the prefix.
    pub(crate) fn seen(&self) -> u64 {
        self.received + self.prefix_seen
    }

    /// Checks the events that have a position by now. Returns whether no events are left without a
    /// position.
    fn settle(&mut self) -> bool {
        while let Some((place, missing)) = self.unplaced.front() {
            let Some(at) = place.get(self.class.is_some()) else { return false };
            let missing = *missing;
            self.unplaced.pop_front();
            let expected = self.last.map(|last| last + 1 + missing);
            if let Some(expected) = expected.filter(|expected| *expected != at) {
                let what = if at < expected { "order" } else { "a gap" };
                self.fault(format_args!("{what}: at {at} instead of {expected}, {missing} of them missing"));
            }
            if self.last.is_none() && self.class.is_none() && at - missing.min(at) <= self.before {
                self.fault(format_args!(
                    "an event of before its registration: {at}, after {} were published",
                    self.before
                ));
            }
            self.last = Some(at);
        }
        true
    }

    /// Returns whether the accounting of a watcher that has ended is correct. For a while after the
    /// end, the result may still be `false`:
    ///
    /// - The watcher's events may not have their positions yet.
    /// - The dispatcher may have been offering events to the watcher when the watcher ended. In
    ///   that case, the dispatcher removes these events from the queue again and counts them later.
    pub(crate) fn finish(&mut self, stats: Option<&WatcherStats>) -> bool {
        self.settle() && stats.is_none_or(|stats| self.agrees(stats))
    }

    fn agrees(&self, stats: &WatcherStats) -> bool {
        let dropped = stats.dropped.total();
        // The gaps may or may not include events that are lost because of the stop itself. If a
        // batch was being offered at the same time, a part of the batch may be counted as lost by
        // the policy. An eviction does not appear as a gap.
        let by_policy = dropped - stats.dropped.stopped - stats.dropped.abandoned;
        let least = if self.gave_up { 0 } else { by_policy.saturating_sub(MAX_BATCH) };
        stats.queued == 0
            && stats.offered == stats.delivered + dropped
            && stats.delivered == self.received
            && (least..=dropped).contains(&self.lagged)
    }

    /// Records a fault because the watcher did not finish in time.
    pub(crate) fn stuck(&self, stats: Option<&WatcherStats>) {
        let Self { unplaced, received, lagged, .. } = self;
        let stats = stats.map(ToString::to_string).unwrap_or_default();
        self.fault(format_args!(
            "{} events that are not yet in the journal; received {received} and {lagged} missing; {stats}",
            unplaced.len()
        ));
    }

    pub(crate) fn fault(&self, what: std::fmt::Arguments<'_>) {
        self.ledger.fault(format!("{}: {what}", self.name));
    }
}
