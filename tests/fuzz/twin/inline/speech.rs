//! Watchers whose filter or hook publishes on its own bus.

use crate::twin::api::{Event, Filter, How, Spec};

/// The distance between the first events of two speakers. No program publishes as many.
const EACH: Event = 1_000_000;

/// The watcher that a step registers.
#[derive(Clone, Debug)]
pub struct Watching {
    pub spec: Spec,
    pub speaker: Option<Speaker>,
}

impl Watching {
    /// Returns whether the watcher is built with a filter.
    pub fn has_filter(&self) -> bool {
        !matches!(self.spec.filter, Filter::None) || self.speaks_at(Place::Filter)
    }

    pub fn speaks_at(&self, place: Place) -> bool {
        self.speaker.is_some_and(|speaker| speaker.place == place)
    }

    /// Returns what the watcher does when its filter or hook is called with this event.
    pub fn says(&self, place: Place, event: Event) -> Option<Says> {
        let speaker = self.speaker.filter(|speaker| speaker.place == place)?;
        (event % speaker.every == 0).then_some(speaker.says)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Speaker {
    pub place: Place,
    /// It speaks at the events that this number divides.
    pub every: Event,
    pub says: Says,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Filter,
    Hook,
}

#[derive(Clone, Copy, Debug)]
pub enum Says {
    Publish(How, usize),
    Gap(u64),
    /// Publishes an event, closes the bus, and publishes another one.
    Close,
}

/// The numbers of the events that a speaker publishes.
#[derive(Clone, Copy, Debug)]
pub struct Numbers(Event);

impl Numbers {
    /// Creates the numbers of the speaker that was registered as this one.
    pub fn new(watcher: usize) -> Self {
        Self((watcher as Event + 1) * EACH)
    }

    pub fn take(&mut self, count: usize) -> Vec<Event> {
        let first = self.0;
        self.0 += count as Event;
        (first..self.0).collect()
    }
}
