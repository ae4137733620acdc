//! The calls that the models and the real bus have in common, kept to a minimum.

use eventcast::OverflowPolicy;
use eventcast::stats::DropReason;

/// An event, represented by a number that is unique within a program.
pub type Event = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Try,
    Wait,
    /// Publishes with a timeout of zero.
    Timeout,
    Batch,
    TryBatch,
    /// Polls the publish once. If the publish would have to wait, it is then dropped.
    Async,
}

impl How {
    /// Returns the non-waiting form to use instead of a form that would wait forever.
    pub fn without_waiting(self) -> Self {
        match self {
            Self::Wait => Self::Try,
            Self::Batch => Self::TryBatch,
            how => how,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    Full(Vec<Event>),
    Stopped(Vec<Event>),
    /// The publish would have had to wait, and was dropped together with its event.
    Waiting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    Yet,
    Ever,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    Event(Event),
    Lagged(u64),
}

pub type Received = Result<Item, Nothing>;

#[derive(Clone, Debug)]
pub struct Spec {
    pub queue_capacity: usize,
    pub policy: OverflowPolicy,
    pub prefix: Vec<Event>,
    pub filter: Filter,
    pub speaker: Option<Speaker>,
}

impl Spec {
    /// Returns whether the watcher is built with a filter.
    pub fn has_filter(&self) -> bool {
        let speaks = self.speaker.is_some_and(|speaker| speaker.place == Place::Filter);
        speaks || !matches!(self.filter, Filter::None)
    }

    /// Returns what the watcher's filter or hook publishes when it is called with this event.
    pub fn says(&self, place: Place, event: Event) -> Option<Says> {
        let speaker = self.speaker.filter(|speaker| speaker.place == place)?;
        (event % speaker.every == 0).then_some(speaker.says)
    }
}

/// The part of a watcher that publishes on its own bus.
#[derive(Clone, Copy, Debug)]
pub struct Speaker {
    pub place: Place,
    /// The speaker publishes at events divisible by this number.
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
    /// Publishes an event, closes the bus, and publishes another event.
    Close,
}

/// The numbers of the events that a speaker publishes.
#[derive(Clone, Copy, Debug)]
pub struct Numbers(Event);

impl Numbers {
    /// The distance between the first events of two speakers. No program publishes that many
    /// events.
    const EACH: Event = 1_000_000;

    /// Creates the numbers for the speaker of the watcher that was registered with this number.
    pub fn new(watcher: usize) -> Self {
        Self((watcher as Event + 1) * Self::EACH)
    }

    pub fn take(&mut self, count: usize) -> Vec<Event> {
        let first = self.0;
        self.0 += count as Event;
        (first..self.0).collect()
    }
}

/// A filter based on an event's number.
#[derive(Clone, Copy, Debug)]
pub enum Filter {
    None,
    /// Rejects events that are divisible by the number.
    Without(u64),
    /// Panics at events that are divisible by the second number, and rejects events divisible by
    /// the first.
    Panics(u64, u64),
}

impl Filter {
    /// Returns whether the filter keeps the event, or `None` if the filter panics.
    pub fn keeps(self, event: Event) -> Option<bool> {
        match self {
            Self::None => Some(true),
            Self::Panics(_, n) if event % n == 0 => None,
            Self::Without(n) | Self::Panics(n, _) => Some(event % n != 0),
        }
    }
}

/// The counters of one watcher, or the sums for several watchers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub offered: u64,
    pub delivered: u64,
    pub dropped: [u64; 5],
    pub filtered: u64,
    pub missed: u64,
    /// The number of queued events, or `None` while the dispatcher waits. In that case the number
    /// is not determined, because an event waiting for capacity may or may not have been queued.
    pub queued: Option<u64>,
    pub high_water: u64,
    pub evictions: u64,
    pub panics: u64,
}

impl Figures {
    pub fn sum(all: impl Iterator<Item = Self>) -> Self {
        let mut sum = Self { queued: Some(0), ..Self::default() };
        all.for_each(|figures| sum.add(&figures));
        sum
    }

    fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.delivered += other.delivered;
        for (sum, count) in self.dropped.iter_mut().zip(other.dropped) {
            *sum += count;
        }
        self.filtered += other.filtered;
        self.missed += other.missed;
        self.evictions += other.evictions;
        self.queued = self.queued.zip(other.queued).map(|(sum, count)| sum + count);
        self.high_water = self.high_water.max(other.high_water);
        self.panics += other.panics;
    }

    pub fn unsettled(self) -> Self {
        Self { queued: None, ..self }
    }
}

/// The counters of the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    pub accepted: u64,
    pub rejected_full: u64,
    pub rejected_closed: u64,
    /// The counters of all watchers that ever existed.
    pub watchers: Figures,
    /// The number of listed watchers, or `None` while the dispatcher waits, because the dispatcher
    /// cannot reap watchers at that time.
    pub listed: Option<usize>,
}

impl Totals {
    pub fn unsettled(self) -> Self {
        Self { watchers: self.watchers.unsettled(), listed: None, ..self }
    }
}

/// Returns the index of a reason in [`Figures::dropped`].
pub fn place(reason: DropReason) -> usize {
    match reason {
        DropReason::Incoming => 0,
        DropReason::Oldest => 1,
        DropReason::TimedOut => 2,
        DropReason::Stopped => 3,
        DropReason::Abandoned => 4,
        _ => unreachable!("the twin knows all reasons"),
    }
}
