//! The place that a reader saves, which is behind the place where it reads.

use std::collections::BTreeMap;
use std::time::Duration;

use lru::LruCache;
use tokio::time::Instant;

use crate::positions::MEMORY;
use crate::wire::Origin;

use super::remote::Mark;
use super::store::SavedPosition;

/// The place that is to be saved: that of the messages whose events were accepted.
pub(crate) struct Ledger {
    sequence: u64,
    origins: LruCache<Origin, u64>,
    pub(crate) is_changed: bool,
    pub(crate) save_at: Instant,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        let origins = LruCache::new(MEMORY);
        Self { sequence: 0, origins, is_changed: false, save_at: Instant::now() }
    }

    pub(crate) fn restore(&mut self, saved: &SavedPosition) {
        self.sequence = saved.sequence;
        for (origin, next) in &saved.origins {
            if let Some(origin) = Origin::parse(origin) {
                self.origins.put(origin, *next);
            }
        }
    }

    pub(crate) fn mark(&mut self, mark: Mark) {
        self.note(mark.sequence, mark.origin);
    }

    pub(crate) fn note(&mut self, sequence: Option<u64>, origin: Option<(Origin, u64)>) {
        self.sequence = sequence.unwrap_or(self.sequence);
        self.is_changed = true;
        if let Some((origin, next)) = origin {
            self.origin(&origin, next);
        }
    }

    pub(crate) fn origin(&mut self, origin: &Origin, next: u64) {
        self.is_changed = true;
        let known = self.origins.get(origin).copied().unwrap_or(0);
        self.origins.put(origin.clone(), next.max(known));
    }

    pub(crate) fn due(&self, has_store: bool) -> Instant {
        if has_store && self.is_changed { self.save_at } else { Instant::now() + Duration::from_secs(3600) }
    }

    pub(crate) fn position(&self, created: &str, from_start: bool) -> SavedPosition {
        let origins = self.origins.iter().map(|(origin, next)| (origin.as_str().to_owned(), *next));
        let origins: BTreeMap<_, _> = origins.collect();
        SavedPosition { sequence: self.sequence, stream: created.to_owned(), from_start, origins }
    }
}
