//! The events of the soak: each knows who published it, and gets its place in the order from the journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread;

/// Events are of so many classes; some watchers want only one.
pub(crate) const CLASSES: usize = 4;

/// What a panic says that is meant to be.
pub(crate) const ON_PURPOSE: &str = "on purpose";

/// How many events live.
static LIVE: AtomicI64 = AtomicI64::new(0);

pub(crate) fn live() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

/// Where an event stands, from 1: among all, and among those of its class. Zero until the journal has come to it.
#[derive(Debug, Default)]
pub(crate) struct Place {
    all: AtomicU64,
    class: AtomicU64,
}

impl Place {
    /// The journal's: each event once.
    pub(crate) fn assign(&self, all: u64, class: u64) {
        self.class.store(class, Ordering::Relaxed);
        // Release: who sees the place sees the one in the class.
        self.all.store(all, Ordering::Release);
    }

    pub(crate) fn get(&self, in_class: bool) -> Option<u64> {
        let all = self.all.load(Ordering::Acquire);
        let place = if in_class { self.class.load(Ordering::Relaxed) } else { all };
        (all > 0).then_some(place)
    }
}

/// What an event does to those who handle it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mood {
    Calm,
    /// Its `Clone` panics.
    Unclonable,
    /// Its `Drop` panics, but that of its copies does not.
    Explosive,
}

#[derive(Debug)]
pub(crate) struct Tick {
    /// Who published it; none: it comes from a prefix.
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
