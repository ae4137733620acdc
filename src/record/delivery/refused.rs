//! Keeps the counts of dropped events by key, for as long as a later write may include the dropped
//! events in its count.

use std::collections::HashMap;

use super::write::WriteKey;
use crate::record::event::Text;
use crate::record::loss::LossReason;

/// The counts of dropped events, by stored event. A stored event's count includes all earlier
/// occurrences, so the next write of the event that the store accepts compensates for the dropped
/// occurrences.
pub(super) struct RefusedCounts {
    recent: HashMap<WriteKey, Refused>,
    /// The entries that were previously in `recent`. These older entries are dropped when newer
    /// entries replace them.
    older: HashMap<WriteKey, Refused>,
    /// The maximum number of recent entries.
    capacity: usize,
}

struct Refused {
    /// The name of the stored event.
    name: Text,
    counts: Vec<(LossReason, u64)>,
}

impl RefusedCounts {
    pub(super) fn new(capacity: usize) -> Self {
        Self { recent: HashMap::new(), older: HashMap::new(), capacity }
    }

    /// Adds the events that a dropped write covers.
    pub(super) fn add(&mut self, key: &WriteKey, name: &Text, reason: LossReason, events: u64) {
        let mut counts = self.take(key, name).unwrap_or_default();
        match counts.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, count)) => *count += events,
            None => counts.push((reason, events)),
        }
        if self.recent.len() >= self.capacity {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(key.clone(), Refused { name: name.clone(), counts });
    }

    /// Removes and returns the counts of dropped events, if the stored event still has the given
    /// name. Otherwise, the correlator has started another event, whose count does not include the
    /// dropped events.
    pub(super) fn take(&mut self, key: &WriteKey, name: &Text) -> Option<Vec<(LossReason, u64)>> {
        if self.recent.is_empty() && self.older.is_empty() {
            return None;
        }
        let refused = self.recent.remove(key).or_else(|| self.older.remove(key))?;
        (refused.name == *name).then_some(refused.counts)
    }

    /// Gives a stored event another name.
    pub(super) fn rename(&mut self, key: &WriteKey, old: &Text, new: &Text) {
        if let Some(counts) = self.take(key, old) {
            self.recent.insert(key.clone(), Refused { name: new.clone(), counts });
        }
    }
}
