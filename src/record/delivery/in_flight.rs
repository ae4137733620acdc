//! Writes in hand, by the key under which their events are counted.
//!
//! Of one key there is one write at a time on its way, so they come to the store in order, however many workers there
//! are; one that waits for its next attempt holds up what comes later for the same key, and nothing else. While it does,
//! later updates of the same event are folded into one, so that a key that fails does not fill the queue.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use crate::record::correlator::CorrelationKey;

use super::write::Write;

#[derive(Default)]
pub(super) struct KeyQueues {
    by_key: HashMap<CorrelationKey, KeyQueue, ahash::RandomState>,
    /// The first position of each lane, with how many lanes have it: an event and the summary
    /// before it share one.
    positions: BTreeMap<u64, u32>,
    /// When those that wait are due. The number makes each moment one of its own.
    due: BTreeMap<(Duration, u64), CorrelationKey>,
    /// The same keys by that number, in the order in which they began to wait.
    turns: BTreeMap<u64, CorrelationKey>,
    next: u64,
}

struct KeyQueue {
    /// Of the write that is on its way or waits: the first position of this lane.
    position: u64,
    /// What waits for its next attempt, and since when it is listed in `due`.
    waiting: Option<((Duration, u64), Write)>,
    behind: VecDeque<Write>,
}

/// What becomes of a new write.
#[allow(clippy::large_enum_variant, reason = "it is taken apart where it is made")]
pub(super) enum Admission {
    /// It may go.
    Now(Write),
    /// It waits for its turn, behind one that is on its way.
    Next,
    /// It waits for its turn, behind one that waits itself.
    Behind,
    /// An earlier one says it too; so much room is free.
    Absorbed(u64),
}

impl KeyQueues {
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// `is_away`: nothing is being written, so that what is ready waits, too.
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

    /// The write on its way is to wait until then.
    pub(super) fn wait(&mut self, write: Write, until: Duration) {
        let Some(queue) = self.by_key.get_mut(&write.ticket.key) else { return };
        let at = (until, self.next);
        self.next += 1;
        self.due.insert(at, write.ticket.key.clone());
        self.turns.insert(at.1, write.ticket.key.clone());
        queue.waiting = Some((at, write));
    }

    /// When the next one is due.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    /// The one that is due first. It is on its way again.
    pub(super) fn take_next(&mut self) -> Option<Write> {
        let ((_, turn), key) = self.due.pop_first()?;
        self.turns.remove(&turn);
        self.by_key.get_mut(&key)?.waiting.take().map(|(_, write)| write)
    }

    /// The one that has waited longest. It is on its way again. If it comes back, it is the last.
    pub(super) fn take_longest_waiting(&mut self) -> Option<Write> {
        let (_, key) = self.turns.pop_first()?;
        let (at, write) = self.by_key.get_mut(&key)?.waiting.take()?;
        self.due.remove(&at);
        Some(write)
    }

    /// The write on its way has come to its end; the next of its key may go.
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

    /// All that waits for its turn.
    pub(super) fn take_behind(&mut self) -> impl Iterator<Item = Write> + '_ {
        self.by_key.values_mut().flat_map(|queue| queue.behind.drain(..))
    }

    /// The first position that has not been decided.
    pub(super) fn position(&self) -> Option<u64> {
        self.positions.keys().next().copied()
    }
}
