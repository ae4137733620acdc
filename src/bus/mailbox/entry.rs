//! Entries, which hold the events of publish calls.

use std::slice;

use crate::catch::catch_panic;
use crate::sync::Arc;

use super::slice::{Positions, SharedBatch, discard};

/// A single event, or the events in a batch. An entry is either an item in the incoming queue, or
/// the events gathered from several such items.
pub(crate) enum Entry<T> {
    Event(T),
    Batch(Vec<T>),
}

impl<T> Entry<T> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Event(_) => 1,
            Self::Batch(events) => events.len(),
        }
    }

    #[inline]
    pub(crate) fn events_mut(&mut self) -> &mut [T] {
        match self {
            Self::Event(event) => slice::from_mut(event),
            Self::Batch(events) => events,
        }
    }

    /// Splits off and returns all events after the first `events` events. Returns `None` if the
    /// entry has no further events.
    #[inline]
    pub(crate) fn split_off(&mut self, events: usize) -> Option<Self> {
        match self {
            Self::Batch(all) if all.len() > events => Some(Self::Batch(all.split_off(events))),
            _ => None,
        }
    }

    /// Converts the events into a shared batch, where `first` is the position of the first event.
    #[inline]
    pub(crate) fn share(self, first: u64) -> Arc<SharedBatch<T>> {
        match self {
            Self::Event(event) => SharedBatch::of_one(event, first),
            Self::Batch(events) => SharedBatch::new(events, Positions::from(first)),
        }
    }

    /// Drops the events one by one, catching panics in their destructors.
    pub(crate) fn discard(self) {
        match self {
            Self::Event(event) => drop(catch_panic(|| drop(event))),
            Self::Batch(events) => discard(events),
        }
    }
}
