//! The interface that the twin and the real bus have in common, as small as it can be.

use std::time::Duration;

use eventcast::OverflowPolicy;
use eventcast::stats::DropReason;

/// An event, which is a number that occurs once in a program.
pub type Event = u64;

/// A broadcaster, as a program sees it.
pub trait Bus {
    type Reader: Reader;

    /// Publishes one event, or several as a batch.
    fn publish(&self, events: Vec<Event>, how: How) -> Result<(), Refused>;
    /// Registers a watcher. Returns `None` if the bus is closed.
    fn watch(&self, spec: &Spec) -> Option<Self::Reader>;
    /// Lets time pass.
    fn advance(&self, by: Duration);
    /// Flushes the bus. Returns `false` if something was abandoned.
    fn flush(&self) -> bool;
    fn close(&self);
    /// Closes the bus, and waits for the end, or abandons the rest at once if `give_up` is set.
    /// Returns whether everything was offered.
    fn shutdown(&self, give_up: bool) -> bool;
    fn totals(&self) -> Totals;
}

/// A watcher, as its reader sees it. When it is dropped, the reader is gone.
pub trait Reader {
    fn receive(&mut self) -> Received;
    /// Receives as `receive` does, but the reader borrows the event until its next call.
    fn receive_ref(&mut self) -> Received;
    /// Returns the number of events that were lost before these, and the events, at most `most`.
    fn receive_batch(&mut self, most: usize) -> Result<(u64, Vec<Event>), Nothing>;
    fn stop(&self);
    fn figures(&self) -> Figures;
    /// Returns the events that the watcher's hook was called for, each with the reason of its loss.
    fn told(&self) -> Vec<(DropReason, Event)>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Try,
    Wait,
    /// With a timeout of zero.
    Timeout,
    Batch,
    TryBatch,
    /// Polled once. A publish that would wait is dropped then.
    Async,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    Full(Vec<Event>),
    Stopped(Vec<Event>),
    /// The publish would have waited, and was dropped together with its event.
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
    pub queue_len: usize,
    pub policy: OverflowPolicy,
    pub prefix: Vec<Event>,
    pub filter: Filter,
}

/// A filter by an event's number.
#[derive(Clone, Copy, Debug)]
pub enum Filter {
    None,
    /// Rejects the events that the number divides.
    Without(u64),
    /// Panics at the events that the second number divides, and rejects those that the first one
    /// divides.
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

/// The counters of one watcher, or of several together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub offered: u64,
    pub delivered: u64,
    pub dropped: [u64; 5],
    pub filtered: u64,
    pub missed: u64,
    /// The number of queued events, or `None` while the dispatcher waits. The number is not
    /// determined then, because an event that waits for room may or may not have found some.
    pub queued: Option<u64>,
    pub high_water: u64,
    pub evictions: u64,
    pub panics: u64,
}

impl Figures {
    pub fn add(&mut self, other: &Self) {
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
    /// The counters of all watchers that there ever were.
    pub watchers: Figures,
    /// The number of listed watchers, or `None` while the dispatcher waits, because it cannot reap
    /// then.
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
