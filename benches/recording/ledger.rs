//! A store that keeps only the count of each object's event.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use eventcast::sink::SinkErrorKind;
use eventcast::{Event, EventSink, ObjectReference, SinkError, Text};

/// The store, whose events must differ only in their objects.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The time that each response takes.
    pause: Duration,
    /// Whether the store is unavailable.
    is_away: AtomicBool,
    entries: Mutex<HashMap<Text, Entry>>,
}

/// The state of one object's event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) count: i32,
    pub(crate) requests: u64,
    /// The number of times that a count was lower than the previous count.
    backwards: u64,
}

impl Ledger {
    pub(crate) fn with_pause(pause: Duration) -> Self {
        Self { pause, ..Self::default() }
    }

    pub(crate) fn set_away(&self, is_away: bool) {
        // Release: pairs with the Acquire in `write`.
        self.is_away.store(is_away, Ordering::Release);
    }

    fn write(&self, event: &Event) -> Result<Event, SinkError> {
        // Acquire: pairs with the Release in `set_away`.
        if self.is_away.load(Ordering::Acquire) {
            return Err(SinkError::new(SinkErrorKind::Unavailable, "the store is away"));
        }
        if !self.pause.is_zero() {
            thread::sleep(self.pause);
        }
        let mut entries = self.entries.lock().expect("no thread panics with it");
        let entry = entries.entry(event.involved_object.name.clone()).or_default();
        entry.backwards += u64::from(event.count < entry.count);
        (entry.count, entry.requests) = (event.count, entry.requests + 1);
        Ok(event.clone())
    }

    /// Returns the entries for the given objects. Panics if a count ever decreased, or if an
    /// object's last count differs from the count that `expected` returns for its index.
    pub(crate) fn checked(&self, objects: &[ObjectReference], expected: impl Fn(u64) -> u64) -> Vec<Entry> {
        let entries = self.entries.lock().expect("no thread panics with it");
        let entry = |(at, object): (u64, &ObjectReference)| {
            let entry = entries.get(&object.name).copied().unwrap_or_default();
            assert_eq!(entry.backwards, 0, "{}: a count went back", object.name);
            assert_eq!(entry.count as u64, expected(at), "{}: {entry:?}", object.name);
            entry
        };
        (0..).zip(objects).map(entry).collect()
    }
}

impl EventSink for Ledger {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.write(event)
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.write(event)
    }
}
