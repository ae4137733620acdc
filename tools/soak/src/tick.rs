//! The events of the soak test. Each event contains the number of its publisher, and the journal
//! assigns the event's position.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread;

/// The number of event classes. Some watchers receive only one class.
pub(crate) const CLASSES: usize = 4;

/// The text at the beginning of every deliberate panic's message.
pub(crate) const ON_PURPOSE: &str = "on purpose";

/// The number of live events.
static LIVE: AtomicI64 = AtomicI64::new(0);

pub(crate) fn live() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

/// The position of an event among all events and within its class, counted from 1. Both numbers are
/// 0 until the journal has read the event.
#[derive(Debug, Default)]
pub(crate) struct Place {
    all: AtomicU64,
    class: AtomicU64,
}

impl Place {
    /// Sets the position. Only the journal calls this method, once for each event.
    pub(crate) fn assign(&self, all: u64, class: u64) {
        self.class.store(class, Ordering::Relaxed);
        // Release: pairs with the load of `all` in `get`. A reader that sees this position also
        // sees the position in the class.
        self.all.store(all, Ordering::Release);
    }

    pub(crate) fn get(&self, in_class: bool) -> Option<u64> {
        let all = self.all.load(Ordering::Acquire);
        let place = if in_class { self.class.load(Ordering::Relaxed) } else { all };
        (all > 0).then_some(place)
    }
}

/// The behaviour of an event when it is cloned or dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mood {
    Calm,
    /// The event's `Clone` panics.
    Unclonable,
    /// The event's `Drop` panics, but the `Drop` of its copies does not.
    Explosive,
}

#[derive(Debug)]
pub(crate) struct Tick {
    /// The number of the publisher, or `None` if the event is part of a prefix.
    pub(crate) publisher: Option<usize>,
    pub(crate) number: u64,
    pub(crate) class: usize,
    pub(crate) mood: Mood,
    pub(crate) place: Arc<Place>,
    ballast: Box<[u8]>,
}

impl Tick {
    pub(crate) fn new(publisher: Option<usize>, number: u64, class: usize, mood: Mood) -> Self {
        LIVE.fetch_add(1, Ordering::Relaxed);
        let ballast = vec![0; 16 + number as usize % 128].into_boxed_slice();
        Self { publisher, number, class, mood, place: Arc::default(), ballast }
    }
}

impl Clone for Tick {
    fn clone(&self) -> Self {
        assert!(self.mood != Mood::Unclonable, "{ON_PURPOSE}: clone");
        LIVE.fetch_add(1, Ordering::Relaxed);
        Self { mood: Mood::Calm, place: self.place.clone(), ballast: self.ballast.clone(), ..*self }
    }
}

impl Drop for Tick {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        assert!(self.mood != Mood::Explosive || thread::panicking(), "{ON_PURPOSE}: drop");
    }
}
