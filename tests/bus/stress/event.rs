//! The events of a round, and a receiver's log.

use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use test_support::Rng;

/// The identity of an event. Every panic of this test also carries an `Ident`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ident {
    pub(crate) publisher: u32,
    pub(crate) number: u32,
}

/// The data that all events of a round share.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) alive: Arc<AtomicI64>,
    /// Whether `Clone`, `Drop`, filters and handlers sometimes take a while or yield the processor.
    pub(crate) is_noisy: bool,
}

impl Origin {
    pub(crate) fn new(is_noisy: bool) -> Self {
        Self { alive: Arc::default(), is_noisy }
    }

    pub(crate) fn event(&self, ident: Ident, is_poison: bool) -> Payload {
        self.alive.fetch_add(1, Ordering::SeqCst);
        Payload { ident, is_poison, origin: self.clone() }
    }
}

pub(crate) struct Payload {
    pub(crate) ident: Ident,
    /// Whether the event's `Clone` panics.
    is_poison: bool,
    origin: Origin,
}

impl Payload {
    /// Takes some time or yields the processor, depending on the event and the place.
    pub(crate) fn noise(&self, place: u64) {
        if !self.origin.is_noisy {
            return;
        }
        let Ident { publisher, number } = self.ident;
        let mut rng = Rng(place << 56 | u64::from(publisher) << 32 | u64::from(number));
        match rng.below(24) {
            0 => thread::yield_now(),
            1..=3 => (0..rng.below(300)).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
    }
}

impl Clone for Payload {
    fn clone(&self) -> Self {
        self.noise(1);
        if self.is_poison {
            panic_any(self.ident);
        }
        self.origin.event(self.ident, false)
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.noise(2);
        self.origin.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

/// One delivery, as logged by its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Event(Ident),
    Lagged(u64),
}

pub(crate) fn events_in(log: &[Item]) -> u64 {
    log.iter().filter(|item| matches!(item, Item::Event(_))).count() as u64
}

pub(crate) fn lagged_in(log: &[Item]) -> u64 {
    log.iter().map(|item| if let Item::Lagged(count) = item { *count } else { 0 }).sum()
}
