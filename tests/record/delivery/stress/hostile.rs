//! A sink that fails in every possible way, and the counts that a round keeps independently.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::error::FlushError;
use eventcast::record::{LossReason, RecordingHandle};
use eventcast::sink::{SinkBatch, SinkErrorKind, SinkMode, Stored};
use eventcast::{Event, EventBroadcaster, EventSink, ObjectReference, Recorder, SinkError};
use test_support::Rng;

/// The time limit for a round, which takes a few milliseconds unless it hangs.
pub(super) const HANGS: Duration = Duration::from_secs(180);
pub(super) const OBJECTS: u64 = 6;

/// The payload of the panics that the test causes on purpose.
pub(super) struct Thrown;

/// A random number generator for code that several threads call.
pub(super) struct Dice(pub(super) Mutex<Rng>);

impl Dice {
    pub(super) fn once_in(&self, times: u64) -> bool {
        self.0.lock().unwrap().once_in(times)
    }

    pub(super) fn below(&self, limit: u64) -> u64 {
        self.0.lock().unwrap().below(limit)
    }
}

pub(super) fn key_of(event: &Event) -> String {
    format!("{} {}", event.involved_object.name, event.reason)
}

/// The counts that a round keeps independently of the library.
#[derive(Default)]
pub(super) struct Known {
    /// The number of accepted events for each key.
    pub(super) accepted: Mutex<BTreeMap<String, u64>>,
    /// The number of lost events reported to the hook, by recording and reason.
    pub(super) told: Mutex<HashMap<(String, String), u64>>,
    /// The keys of the lost events passed to the hook, by recording.
    pub(super) hurt: Mutex<HashSet<(String, String)>>,
    pub(super) hook_panics: AtomicU64,
}

impl Known {
    pub(super) fn record(&self, recorder: &Recorder, object: u64, reason: u64) {
        let (object, reason) = (format!("web-{object}"), format!("R{reason}"));
        // The event is recorded while the lock is held, so any thread that sees the event also
        // finds it counted.
        let mut accepted = self.accepted.lock().unwrap();
        if recorder
            .event(ObjectReference::new("Pod", object.clone()), Normal, reason.clone(), "m")
            .is_accepted()
        {
            *accepted.entry(format!("{object} {reason}")).or_default() += 1;
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.accepted.lock().unwrap().values().sum()
    }

    pub(super) fn told(&self, place: &str, reason: LossReason) -> u64 {
        self.told.lock().unwrap().get(&(place.to_owned(), reason.to_string())).copied().unwrap_or(0)
    }
}

/// The observations of one sink, stored outside the sink.
#[derive(Default)]
pub(super) struct Seen {
    /// The most recently stored count for each key.
    pub(super) counts: Mutex<HashMap<String, i32>>,
    /// The count in the last operation for each key.
    pub(super) asked: Mutex<HashMap<String, i32>>,
    /// The number of operations that changed the store.
    pub(super) stored: AtomicU64,
    pub(super) gone: AtomicBool,
}

/// The place where a round's hanging operations wait.
#[derive(Default)]
pub(super) struct Hangs {
    pub(super) is_released: Mutex<bool>,
    pub(super) changed: Condvar,
}

impl Hangs {
    /// Waits until the round releases all hanging operations or the time limit passes.
    fn wait(&self, limit: Duration) {
        let is_released = self.is_released.lock().unwrap();
        drop(self.changed.wait_timeout_while(is_released, limit, |is_released| !*is_released).unwrap());
    }

    pub(super) fn release(&self) {
        *self.is_released.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

pub(super) struct Hostile {
    pub(super) dice: Dice,
    /// The fault rate. On average, one call in this number of calls fails. If the number is 0, no
    /// call fails.
    pub(super) faults: u64,
    pub(super) store: Mutex<HashMap<String, Event>>,
    /// The keys that are being written now.
    pub(super) busy: Mutex<HashSet<String>>,
    pub(super) seen: Arc<Seen>,
    pub(super) hangs: Arc<Hangs>,
    pub(super) workers: usize,
    pub(super) known: Arc<Known>,
    pub(super) recorder: Recorder,
    pub(super) events: std::sync::Weak<EventBroadcaster>,
    pub(super) others: Arc<Mutex<Vec<RecordingHandle>>>,
    pub(super) broken: Arc<Mutex<Vec<String>>>,
    pub(super) callbacks: AtomicU64,
}

impl Hostile {
    fn complain(&self, what: String) {
        self.broken.lock().unwrap().push(what);
    }

    fn goes_wrong(&self) -> bool {
        self.faults > 0 && self.dice.once_in(self.faults)
    }

    fn call_back(&self) {
        if self.callbacks.fetch_add(1, Ordering::Relaxed) > 20 {
            return;
        }
        match self.dice.below(5) {
            0 => self.known.record(&self.recorder, 99, 0),
            1 => {
                if let Some(events) = self.events.upgrade() {
                    if !matches!(events.flush(HANGS), Err(FlushError::WouldDeadlock | FlushError::Abandoned))
                    {
                        self.complain("a flush on a thread of the bus waited".into());
                    }
                }
            }
            2 => {
                let others = self.others.lock().unwrap().clone();
                for other in others {
                    other.stats();
                }
            }
            3 => {
                let others = self.others.lock().unwrap().clone();
                let _ = others.first().map(|other| other.join(HANGS));
            }
            _ => {
                if self.dice.once_in(8) {
                    if let Some(events) = self.events.upgrade() {
                        assert!(!events.shutdown().complete);
                    }
                }
            }
        }
    }

    fn write(&self, event: &Event, creates: bool) -> Result<Event, SinkError> {
        let (key, name) = (key_of(event), event.metadata.name.to_string());
        if self.dice.once_in(40) {
            self.call_back();
        }
        if self.goes_wrong() {
            match self.dice.below(7) {
                0 if self.dice.once_in(2) => return Err(SinkError::new(SinkErrorKind::Unavailable, "away")),
                0 => return Err(SinkError::retry("busy")),
                1 => {
                    return Err(SinkError::retry("busy")
                        .with_retry_after(Duration::from_micros(self.dice.below(400))));
                }
                2 => return Err(SinkError::rejected("never")),
                3 => panic_any(Thrown),
                4 => (0..self.dice.below(50)).for_each(|_| thread::yield_now()),
                // A hanging answer misses the deadline of many shutdowns.
                5 if self.dice.once_in(10) => self.hangs.wait(Duration::from_millis(20)),
                5 => {}
                _ => {
                    // The event expires or another writer takes its name.
                    let mut store = self.store.lock().unwrap();
                    store.remove(&name);
                    if creates && self.dice.once_in(2) {
                        let mut foreign = event.clone();
                        foreign.reason = "Foreign".into();
                        store.insert(name.clone(), foreign);
                    }
                }
            }
        }
        let mut store = self.store.lock().unwrap();
        match store.get(&name) {
            Some(stored) if creates => {
                return Err(SinkError::new(SinkErrorKind::AlreadyExists, "taken").with_stored(stored.clone()));
            }
            None if !creates => return Err(SinkError::new(SinkErrorKind::NotFound, "expired")),
            _ => {}
        }
        store.insert(name, event.clone());
        drop(store);
        self.seen.stored.fetch_add(1, Ordering::SeqCst);
        let before = self.seen.counts.lock().unwrap().insert(key.clone(), event.count).unwrap_or(0);
        if before > event.count {
            self.complain(format!("{key}: {} after {before}", event.count));
        }
        if self.goes_wrong() {
            match self.dice.below(2) {
                0 => return Err(SinkError::retry("the answer was lost")),
                _ => panic_any(Thrown),
            }
        }
        Ok(event.clone())
    }

    /// Performs an operation, which must be the only one under way for its key. The operation's
    /// count must not be lower than the count of any earlier operation, whatever the outcome.
    fn once(&self, event: &Event, creates: bool) -> Result<Event, SinkError> {
        struct Leave<'s>(&'s Hostile, String);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.busy.lock().unwrap().remove(&self.1);
            }
        }
        let key = key_of(event);
        if !self.busy.lock().unwrap().insert(key.clone()) {
            self.complain(format!("two workers write {key} at the same time"));
        }
        let before = self.seen.asked.lock().unwrap().insert(key.clone(), event.count).unwrap_or(0);
        if before > event.count {
            self.complain(format!("{key} would be set to {} after {before}", event.count));
        }
        let _leave = Leave(self, key);
        self.write(event, creates)
    }
}

impl EventSink for Hostile {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.once(event, true)
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.complain("update is not called".into());
        Ok(event.clone())
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.once(event, false)
    }

    fn mode(&self) -> SinkMode {
        SinkMode::Batches
    }

    fn submit(&self, batch: SinkBatch) {
        let len = batch.ops().len();
        let keys = batch.ops().iter().map(|op| key_of(op.event()));
        if keys.collect::<HashSet<_>>().len() < len || len > 256 {
            self.complain("a key twice in one batch, or too many".into());
        }
        let mut answers: Vec<_> = batch
            .ops()
            .iter()
            .map(|op| {
                let answer = catch_unwind(AssertUnwindSafe(|| op.apply_to(self)));
                let panicked = |_| Err(SinkError::retry("a panic in the middle"));
                answer.unwrap_or_else(panicked).map(Stored::from)
            })
            .collect();
        if self.goes_wrong() {
            match self.dice.below(3) {
                0 => panic_any(Thrown),
                1 => answers.push(Err(SinkError::rejected("one too many"))),
                _ => answers.truncate(self.dice.below(len as u64 + 1) as usize),
            }
        }
        batch.answer(answers);
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.seen.gone.store(true, Ordering::SeqCst);
        if self.workers % 2 == 0 {
            panic_any(Thrown);
        }
    }
}
