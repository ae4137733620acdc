//! Writes in flight, by the key under which their events are counted.
//!
//! Each key has at most one write on its way, so its writes come to the store in order, however
//! many workers there are. A write that waits for its next attempt holds up later writes of the
//! same key, and nothing else. While a write waits, later updates of the same event are folded into
//! one, so that a key that fails does not fill the queue.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use crate::record::correlator::CorrelationKey;

use super::write::Write;

#[derive(Default)]
pub(super) struct KeyQueues {
    by_key: HashMap<CorrelationKey, KeyQueue, ahash::RandomState>,
    /// The first position of each key's queue, with the number of queues that have it. An event and
    /// the summary before it share one position.
    positions: BTreeMap<u64, u32>,
    /// The times when the waiting writes are due. The number makes each entry unique.
    due: BTreeMap<(Duration, u64), CorrelationKey>,
    /// The same keys by that number, in the order in which their writes began to wait.
    turns: BTreeMap<u64, CorrelationKey>,
    next: u64,
}

struct KeyQueue {
    /// The position of the write that is on its way or waits, which is the first of this queue.
    position: u64,
    /// The write that waits for its next attempt, with its place in `due`.
    waiting: Option<((Duration, u64), Write)>,
    behind: VecDeque<Write>,
}

/// The decision about a new write.
#[allow(clippy::large_enum_variant, reason = "it is taken apart where it is made")]
pub(super) enum Admission {
    /// The write may be done now.
    Now(Write),
    /// The write waits for its turn, behind one that is on its way.
    Next,
    /// The write waits for its turn, behind one that itself waits.
    Behind,
    /// The write was folded into an earlier one. The number is that of the events whose room is
    /// free.
    Absorbed(u64),
}

impl KeyQueues {
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Decides about a new write. `is_away` says that nothing is being written, so that ready
    /// writes wait, too.
    pub(super) fn admit(&mut self, write: Write, is_away: bool) -> Admission {
        let Some(queue) = self.by_key.get_mut(&write.ticket.key) else {
            let queue = KeyQueue { position: write.ticket.position, waiting: None, behind: VecDeque::new() };
            *self.positions.entry(queue.position).or_default() += 1;
            self.by_key.insert(write.ticket.key.clone(), queue);
            return Admission::Now(write);
        };
        let waits = queue.waiting.is_some() || is_away;
        let last = queue.behind.back_mut().or(queue.waiting.as_mut().map(|(_, waiting)| waiting));
        if let Some(last) = last.filter(|last| waits && last.ticket.is_update && write.ticket.is_update) {
            return Admission::Absorbed(last.absorb(write));
        }
        queue.behind.push_back(write);
        if waits { Admission::Behind } else { Admission::Next }
    }

    /// Makes the write that is on its way wait until this time.
    pub(super) fn wait(&mut self, write: Write, until: Duration) {
        let Some(queue) = self.by_key.get_mut(&write.ticket.key) else { return };
        let at = (until, self.next);
        self.next += 1;
        self.due.insert(at, write.ticket.key.clone());
        self.turns.insert(at.1, write.ticket.key.clone());
        queue.waiting = Some((at, write));
    }

    /// Returns when the next write is due. Returns `None` if none waits.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    /// Returns the waiting write that is due first. The write is on its way again. Returns `None`
    /// if none waits.
    pub(super) fn take_next(&mut self) -> Option<Write> {
        let ((_, turn), key) = self.due.pop_first()?;
        self.turns.remove(&turn);
        self.by_key.get_mut(&key)?.waiting.take().map(|(_, write)| write)
    }

    /// Returns the write that has waited longest. The write is on its way again. A write that comes
    /// back is then the last one. Returns `None` if none waits.
    pub(super) fn take_longest_waiting(&mut self) -> Option<Write> {
        let (_, key) = self.turns.pop_first()?;
        let (at, write) = self.by_key.get_mut(&key)?.waiting.take()?;
        self.due.remove(&at);
        Some(write)
    }

    /// Ends the write that is on its way, and returns the next one of its key, which may be done
    /// now. Returns `None` if no other write of the key waits.
    pub(super) fn finish(&mut self, key: &CorrelationKey) -> Option<Write> {
        let queue = self.by_key.get_mut(key)?;
        if let Entry::Occupied(mut queues) = self.positions.entry(queue.position) {
            *queues.get_mut() -= 1;
            if *queues.get() == 0 {
                queues.remove();
            }
        }
        let next = queue.behind.pop_front();
        match &next {
            Some(write) => {
                queue.position = write.ticket.position;
                *self.positions.entry(queue.position).or_default() += 1;
            }
            None => {
                self.by_key.remove(key);
            }
        }
        next
    }

    /// Removes and returns all writes that wait for their turn.
    pub(super) fn take_behind(&mut self) -> impl Iterator<Item = Write> + '_ {
        self.by_key.values_mut().flat_map(|queue| queue.behind.drain(..))
    }

    /// Returns the first position that has not been decided. Returns `None` if there are no writes.
    pub(super) fn position(&self) -> Option<u64> {
        self.positions.keys().next().copied()
    }
}
