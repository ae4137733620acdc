//! The checks at the end of a round.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use eventcast::stats::{ShutdownReport, WatcherStats};
use eventcast::{Broadcaster, OverflowPolicy};

use super::event::{Ident, Item, Payload, events_in, lagged_in};
use super::met::{self, Met};
use super::plan::{FOREVER, Handled, Made, Published, Read, Wanted};

/// A round that has ended, and what the test knows about the round.
pub(crate) struct Checked<'r> {
    pub(crate) bus: &'r Broadcaster<Payload>,
    pub(crate) report: &'r ShutdownReport,
    /// All accepted events in order.
    pub(crate) order: &'r [Ident],
    pub(crate) published: &'r [Published],
}

impl Checked<'_> {
    /// Returns the events that a watcher wants, in order.
    pub(crate) fn wanted(&self, wanted: Wanted) -> Vec<Ident> {
        self.order.iter().copied().filter(|ident| wanted.has(*ident)).collect()
    }

    pub(crate) fn check_publishers(&self) {
        let stats = self.bus.stats();
        let sum = |count: fn(&Published) -> u64| self.published.iter().map(count).sum::<u64>();
        assert_eq!(stats.accepted, sum(|told| told.accepted.len() as u64), "accepted");
        assert_eq!(stats.rejected_full, sum(|told| told.full), "rejected, full");
        // The round publishes one more event after the end, and this event is refused too.
        assert_eq!(stats.rejected_closed, sum(|told| told.stopped) + 1, "rejected, stopped");
        assert_eq!(self.order.len() as u64, stats.accepted, "every accepted event must have been offered");
        for (told, number) in self.published.iter().zip(1..) {
            let mine: Vec<_> = self.order.iter().copied().filter(|ident| ident.publisher == number).collect();
            assert_eq!(mine, told.accepted, "each publisher's events must keep their order");
        }
        if self.report.complete {
            assert_eq!(self.report.bus.accepted, stats.accepted);
        }
    }

    /// Checks that each event is in its place in the common order, and that each gap is as long as
    /// the run of missing events.
    pub(crate) fn check_order(&self, log: &[Item], made: Made) {
        let wanted = self.wanted(made.wanted);
        let index: HashMap<Ident, usize> = wanted.iter().enumerate().map(|(i, ident)| (*ident, i)).collect();
        let mut last = None;
        let mut gap = 0;
        for item in log {
            match item {
                Item::Lagged(count) => {
                    assert!(*count > 0, "a gap must not be empty");
                    gap += *count as usize;
                }
                Item::Event(ident) => {
                    let at = *index
                        .get(ident)
                        .expect("a received event must have been accepted, and not refused by the filter");
                    if let Some(last) = last {
                        assert_eq!(
                            at,
                            last + 1 + gap,
                            "{ident:?} of {made:?} must be in its place, after a gap of {gap}"
                        );
                    }
                    assert!(at >= gap, "too long a gap before the first event");
                    (last, gap) = (Some(at), 0);
                }
            }
        }
        assert!(last.map_or(0, |at| at + 1) + gap <= wanted.len(), "too long a gap after the last event");
    }

    /// Checks where the first event offered to a watcher is in the order of the events that the
    /// watcher wants.
    pub(crate) fn check_registration(&self, first: usize, made: Made) {
        let wanted = self.wanted(made.wanted);
        let Some((publisher, before)) = made.by else {
            return assert_eq!(first, 0, "{made:?} existed from the beginning");
        };
        let mine = &self.published[publisher as usize - 1].accepted;
        let place = |ident: &Ident| wanted.iter().position(|other| other == ident);
        if let Some(at) = mine[..before].iter().rev().find_map(place) {
            assert!(first > at, "{made:?} was offered an event published before it was registered");
        }
        if let Some(at) = mine[before..].iter().find_map(place) {
            assert!(first <= at, "{made:?} was not offered an event published after it was registered");
        }
    }

    pub(crate) fn check_stats(&self, stats: &WatcherStats, made: Made) {
        assert_eq!(
            stats.offered,
            stats.delivered + stats.dropped.total() + stats.queued,
            "{stats} of {made:?}"
        );
        let dropped = &stats.dropped;
        assert!(stats.evictions == 0 || made.policy == OverflowPolicy::Evict);
        match made.policy {
            OverflowPolicy::DropIncoming => assert_eq!((dropped.oldest, dropped.timed_out), (0, 0)),
            OverflowPolicy::DropOldest => assert_eq!((dropped.incoming, dropped.timed_out), (0, 0)),
            OverflowPolicy::WaitFor(limit) if limit < FOREVER => {
                assert_eq!((dropped.incoming, dropped.oldest), (0, 0));
            }
            _ => assert_eq!((dropped.incoming, dropped.oldest, dropped.timed_out), (0, 0, 0)),
        }
        assert!(stats.high_water <= made.queue_capacity, "high-water mark {} of {made:?}", stats.high_water);
        if self.report.complete {
            assert_eq!(dropped.abandoned, 0);
        }
    }

    pub(crate) fn check_readers(&self, read: &[Read]) {
        for Read { made, log, kept } in read {
            self.check_order(log, *made);
            let Some(watcher) = kept else { continue };
            let stats = watcher.stats();
            self.check_stats(&stats, *made);
            assert_eq!(stats.queued, 0, "the reader must have read to the end");
            assert_eq!(stats.delivered, events_in(log), "delivered to {made:?}");
            assert_eq!(stats.dropped.total(), lagged_in(log), "each loss of {made:?} must show as a gap");
            assert_eq!(stats.dropped.stopped, 0);
            let wanted = self.wanted(made.wanted).len();
            let first = wanted - stats.offered as usize;
            self.check_registration(first, *made);
            if made.by.is_none() {
                assert_eq!(stats.offered + stats.filtered, self.order.len() as u64);
            }
            self.check_begins_at(first, log, *made);
        }
    }

    /// Checks that the first event, or the gap before the first event, is where the watcher's first
    /// offer was.
    pub(crate) fn check_begins_at(&self, first: usize, log: &[Item], made: Made) {
        let leading: u64 = lagged_in(
            &log.iter().copied().take_while(|item| matches!(item, Item::Lagged(_))).collect::<Vec<_>>(),
        );
        let event =
            log.iter().find_map(|item| if let Item::Event(ident) = item { Some(*ident) } else { None });
        if let Some(event) = event {
            assert_eq!(
                self.wanted(made.wanted)[first + leading as usize],
                event,
                "the first event of {made:?}"
            );
        }
    }

    pub(crate) fn check_handlers(&self, handlers: &[Handled]) {
        for (i, handler) in handlers.iter().enumerate() {
            let (made, log) = (handler.made, handler.log.lock().unwrap());
            self.check_order(&log, made);
            let stats = handler.handle.stats();
            self.check_stats(&stats, made);
            assert_eq!(stats.queued, 0);
            assert_eq!(stats.delivered, events_in(&log), "handled by {made:?}");
            assert!(stats.panics >= handler.thrown.load(Ordering::SeqCst), "panics must be counted");
            // If a handler was stopped or has abandoned its queue, it ends, and no further events
            // are offered to it.
            if handler.was_stopped || made.ends_itself || !self.report.complete {
                continue;
            }
            assert_eq!(stats.offered + stats.filtered, self.order.len() as u64, "offered to {made:?}");
            self.check_begins_at(0, &log, made);
            assert_eq!(stats.dropped.total(), lagged_in(&log), "each loss of {made:?} must show as a gap");
            for (told, _) in self.published.iter().zip(1..) {
                let wanted = self.wanted(made.wanted);
                for (accepted, positions) in &told.flushes {
                    let last = told.accepted[..*accepted].iter().rev().find(|ident| made.wanted.has(**ident));
                    let needed =
                        last.map_or(0, |last| wanted.iter().position(|ident| ident == last).unwrap() + 1);
                    assert!(
                        positions[i] >= needed as u64,
                        "flushed at {} before {needed} by {made:?}",
                        positions[i]
                    );
                }
            }
        }
    }

    pub(crate) fn note_what_was_met(&self, read: &[Read]) {
        let stats = self.bus.stats();
        met::add(Met::Accepted, stats.accepted);
        met::add(Met::RefusedFull, stats.rejected_full);
        met::add(Met::RefusedStopped, stats.rejected_closed - 1);
        for watcher in stats.watchers.iter().chain([&stats.departed]) {
            met::add(Met::DroppedIncoming, watcher.dropped.incoming);
            met::add(Met::DroppedOldest, watcher.dropped.oldest);
            met::add(Met::DroppedTimedOut, watcher.dropped.timed_out);
            met::add(Met::Evictions, watcher.evictions);
            met::add(Met::DroppedStopped, watcher.dropped.stopped);
            met::add(Met::DroppedAbandoned, watcher.dropped.abandoned);
            met::add(Met::Panics, watcher.panics);
        }
        met::add(Met::Flushes, self.published.iter().map(|told| told.flushes.len() as u64).sum());
        met::add(Met::LateWatchers, read.iter().filter(|read| read.made.by.is_some()).count() as u64);
        met::add(Met::IncompleteShutdowns, u64::from(!self.report.complete));
    }

    /// Checks the sums over all watchers that have departed.
    pub(crate) fn check_departed(&self, read: &[Read], handlers: &[Handled]) {
        let stats = self.bus.stats();
        let departed = stats.departed;
        assert_eq!(departed.offered, departed.delivered + departed.dropped.total(), "{departed}");
        assert_eq!(departed.queued, 0);
        let gone: u64 = read.iter().filter(|read| read.kept.is_none()).map(|read| events_in(&read.log)).sum();
        let handled: u64 = handlers.iter().map(|handler| events_in(&handler.log.lock().unwrap())).sum();
        let listed: u64 = handlers
            .iter()
            .map(|handler| handler.handle.stats())
            .filter(|own| stats.watchers.iter().any(|watcher| watcher.name == own.name))
            .map(|own| own.delivered)
            .sum();
        assert_eq!(departed.delivered + listed, gone + handled, "deliveries to departed watchers");
    }
}
