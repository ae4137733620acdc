//! The bulk reader, which is a receiver for internal code that handles many events together and out
//! of order. The reader's owner frees the capacity of handled events, and reports the offset up to
//! which all events have been handled.
//!
//! Events that the owner has taken count against the queue's capacity until the owner gives them
//! back. The total number of queued and taken events therefore never exceeds the queue's capacity.
//! With `DropOldest`, this bound applies separately to the queued events and to the taken events. A
//! flush waits for the offset that the owner reports.
#![cfg_attr(not(eventcast_loom), allow(unreachable_pub, reason = "only the models see it from outside"))]
#![cfg_attr(eventcast_loom, allow(missing_debug_implementations, reason = "no part of the API"))]

use crate::bus::mailbox::{BatchSlice, MailboxReceiver, Next};
use crate::bus::wait::{full_fence, spin_until};
use crate::clock::Deadline;

use super::handler::WatchHandle;

/// A receiver that takes whole slices. Flush and shutdown wait until the reader is dropped. A flush
/// also ends once the reader has reported the flush's offset as handled.
pub struct BulkReader<T> {
    receiver: MailboxReceiver<T>,
    outstanding: u64,
}

/// The result of [`BulkReader::take`].
pub enum BulkNext<T> {
    /// The next events, in order.
    Events(BulkEvents<T>),
    /// There is nothing to take now.
    Empty,
    /// The end of the stream. No event follows.
    End,
}

/// How far a bulk reader has progressed towards its end. A reader never returns to an earlier
/// stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndStage {
    /// The reader has not been stopped, and the bus is open.
    Running,
    /// The reader was stopped, or the bus is closed.
    Ending,
    /// A shutdown with a deadline has abandoned the bus.
    Abandoned,
}

/// Events that were taken together, in order.
pub struct BulkEvents<T>(BatchSlice<T>);

impl<T> BulkEvents<T> {
    /// Returns the events.
    pub fn events(&self) -> &[T] {
        self.0.events()
    }

    /// Returns the events for modification, so that they can be moved out. Returns `None` if
    /// another watcher, or the thread that offered the events, still holds them too.
    #[cfg(not(eventcast_loom))]
    pub fn events_mut(&mut self) -> Option<&mut [T]> {
        self.0.events_mut()
    }

    /// Returns the offset of the first event. The offsets of the following events are consecutive.
    pub fn offset(&self) -> u64 {
        self.0.offset()
    }
}

impl<T> BulkReader<T> {
    pub(crate) fn new(mut receiver: MailboxReceiver<T>) -> Self {
        receiver.announces = false;
        Self { receiver, outstanding: 0 }
    }

    /// Returns a handle that can stop the reader, wait for it, and read its counters. See also
    /// [`wake_reader`].
    pub fn handle(&self) -> WatchHandle {
        WatchHandle::new(&self.receiver)
    }

    /// Takes the next events, and skips gaps. Never waits.
    pub fn take(&mut self) -> BulkNext<T> {
        loop {
            match self.receiver.next() {
                Next::Event => {
                    let Some(slice) = self.receiver.take_current() else { continue };
                    self.outstanding += slice.len() as u64;
                    return BulkNext::Events(BulkEvents(slice));
                }
                Next::Lagged(_) => {}
                Next::Empty => return BulkNext::Empty,
                Next::End => return BulkNext::End,
            }
        }
    }

    /// Returns whether the events that were taken but not yet returned use up the queue's capacity.
    pub fn is_full(&self) -> bool {
        self.outstanding >= self.receiver.state.capacity()
    }

    /// Returns the capacity of the queue.
    pub fn capacity(&self) -> u64 {
        self.receiver.state.capacity()
    }

    /// Returns the capacity of this many taken events to the queue. The events need not be those
    /// that were taken first.
    pub fn give_back(&mut self, events: u64) {
        debug_assert!(events <= self.outstanding);
        if events > 0 {
            self.outstanding -= events;
            self.receiver.give_back(events);
        }
    }

    /// Reports that every event before this offset has been handled. `None` means that every event
    /// taken so far has been handled.
    pub fn set_handled(&mut self, offset: Option<u64>) {
        self.receiver.set_handled(offset);
    }

    /// Returns the stage that the reader has reached.
    pub fn stage(&self) -> EndStage {
        if self.receiver.bus.is_abandoned() {
            EndStage::Abandoned
        } else if self.receiver.state.is_stopped() || self.receiver.bus.is_closing() {
            EndStage::Ending
        } else {
            EndStage::Running
        }
    }

    /// Waits until one of the following happens:
    ///
    /// - `takes` is true, and there may be an event to take or the watcher has ended.
    /// - `ready` returns `true`.
    /// - [`wake_reader`] wakes the thread.
    /// - The reader reaches a stage beyond `seen`, the last stage that the caller has acted on.
    /// - The deadline passes.
    ///
    /// May also return spuriously.
    pub fn wait(&mut self, deadline: Deadline, takes: bool, seen: EndStage, ready: impl Fn() -> bool) {
        let found = || ready() || takes && self.receiver.has_news() || self.stage() > seen;
        let bus = &self.receiver.bus;
        if spin_until(|| found().then_some(())).is_some() {
            return;
        }
        self.receiver.arm();
        if !found() && !bus.clock.has_passed(deadline) {
            self.receiver.park(deadline);
        }
        self.receiver.state.wake_cell.disarm();
    }
}

/// Ends the [`BulkReader::wait`] call of this handle's reader. The caller must first ensure that
/// the reader's `ready` function returns `true`.
pub fn wake_reader(handle: &WatchHandle) {
    full_fence();
    handle.state.wake_cell.wake();
}
