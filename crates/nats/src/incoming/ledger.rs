//! Tracks the position that a reader saves, which trails the position at which the reader is
//! reading.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;
use tokio::time::Instant;

use crate::positions::{MEMORY, Reached};
use crate::wire::Origin;

use super::remote_event::Mark;
use super::store::SavedPosition;

/// The position to save, which covers the messages whose events were accepted.
pub(crate) struct Ledger {
    sequence: u64,
    origins: LruCache<Origin, u64>,
    /// The next number of each subject, by origin. This map is empty if the reader has no filter.
    subjects: LruCache<(Origin, Arc<str>), u64>,
    pub(crate) is_changed: bool,
    pub(crate) save_at: Instant,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        let (origins, subjects) = (LruCache::new(MEMORY), LruCache::new(MEMORY));
        Self { sequence: 0, origins, subjects, is_changed: false, save_at: Instant::now() }
    }

    pub(crate) fn restore(&mut self, saved: &SavedPosition, has_filter: bool) {
        self.sequence = saved.sequence;
        for (origin, next) in &saved.origins {
            let Some(known) = Origin::parse(origin) else { continue };
            let subjects = saved.subjects.get(origin).filter(|_| has_filter);
            for (subject, number) in subjects.into_iter().flatten() {
                self.subjects.put((known.clone(), subject.as_str().into()), *number);
            }
            self.origins.put(known, *next);
        }
    }

    pub(crate) fn mark(&mut self, mark: &Mark) {
        self.note(mark.sequence);
        if let Some(reached) = &mark.reached {
            self.reach(reached);
        }
    }

    pub(crate) fn note(&mut self, sequence: Option<u64>) {
        self.sequence = sequence.unwrap_or(self.sequence);
        self.is_changed = true;
    }

    pub(crate) fn reach(&mut self, reached: &Reached) {
        self.is_changed = true;
        let known = if let Some(position) = self.origins.get_mut(&reached.origin) {
            std::mem::replace(position, reached.position.max(*position))
        } else {
            self.origins.put(reached.origin.clone(), reached.position);
            0
        };
        // A repeated message does not advance the position.
        if let Some((subject, number)) = reached.subject.clone().filter(|_| reached.position >= known) {
            self.subjects.put((reached.origin.clone(), subject), number);
        }
    }

    pub(crate) fn due(&self, has_store: bool) -> Instant {
        if has_store && self.is_changed { self.save_at } else { Instant::now() + Duration::from_secs(3600) }
    }

    pub(crate) fn position(&self, created: &str, from_start: bool) -> SavedPosition {
        let origins = self.origins.iter().map(|(origin, next)| (origin.as_str().to_owned(), *next));
        let origins: BTreeMap<_, _> = origins.collect();
        let mut subjects: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for ((origin, subject), number) in &self.subjects {
            let of_origin = subjects.entry(origin.as_str().to_owned()).or_default();
            of_origin.insert(subject.to_string(), *number);
        }
        SavedPosition { sequence: self.sequence, stream: created.to_owned(), from_start, origins, subjects }
    }
}
