//! The events of one publish.

use std::slice;

use crate::catch::catch_panic;
use crate::sync::Arc;

use super::slice::{Positions, SharedBatch, discard};

/// An event, or the events of a batch: an item of the incoming queue, or what has been gathered
/// from it.
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

    /// Leaves this many events, and returns the others. Returns `None` if there are no others.
    #[inline]
    pub(crate) fn split_off(&mut self, events: usize) -> Option<Self> {
        match self {
            Self::Batch(all) if all.len() > events => Some(Self::Batch(all.split_off(events))),
            _ => None,
        }
    }

    /// Makes a shared batch of the events, of which the first has this position.
    #[inline]
    pub(crate) fn share(self, first: u64) -> Arc<SharedBatch<T>> {
        match self {
            Self::Event(event) => SharedBatch::of_one(event, first),
            Self::Batch(events) => SharedBatch::new(events, Positions::from(first)),
        }
    }

    /// Drops the events one by one, and catches their panics.
    pub(crate) fn discard(self) {
        match self {
            Self::Event(event) => drop(catch_panic(|| drop(event))),
            Self::Batch(events) => discard(events),
        }
    }
}
