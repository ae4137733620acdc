//! The bulk reader: a receiver for the library's own code that handles many events together, and
//! not in the order in which they arrived. The reader's owner reports what has been handled, and up
//! to which offset.
//!
//! Taken events count against the queue until the owner gives them back. The events in the queue
//! and the taken events together are therefore never more than the queue's length. With
//! `DropOldest` the bound holds for each of the two. A flush waits for the offset that the owner
//! reports.
#![cfg_attr(not(eventcast_loom), allow(unreachable_pub, reason = "only the models see it from outside"))]
#![cfg_attr(eventcast_loom, allow(missing_debug_implementations, reason = "no part of the API"))]

use crate::bus::mailbox::{BatchSlice, MailboxReceiver, Next};
use crate::bus::wait::{full_fence, spin_until};
use crate::clock::Deadline;

use super::handler::WatchHandle;

/// A receiver that takes whole slices. Flush and shutdown wait for it until it is dropped. A flush
/// also ends when the reader has reported the flush's offset as handled.
pub struct BulkReader<T> {
    receiver: MailboxReceiver<T>,
    outstanding: u64,
}

/// The result of [`BulkReader::take`].
pub enum BulkNext<T> {
    /// The next events, in order.
    Events(BulkEvents<T>),
    /// Nothing now.
    Empty,
    /// The end. No event follows it.
    End,
}

/// The stage that the end of a bulk reader has reached. The stage never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndStage {
    /// The end has not begun.
    Running,
    /// The reader was stopped, or the bus is closed.
    Ending,
    /// A shutdown by deadline has abandoned the bus.
    Abandoned,
}

/// Events that were taken together, in order.
pub struct BulkEvents<T>(BatchSlice<T>);

impl<T> BulkEvents<T> {
    /// Returns the events.
    pub fn events(&self) -> &[T] {
        self.0.events()
    }

    /// Returns the offset of the first event. Each following event has the next offset.
    pub fn offset(&self) -> u64 {
        self.0.offset()
    }
}

impl<T> BulkReader<T> {
    pub(crate) fn new(mut receiver: MailboxReceiver<T>) -> Self {
        receiver.announces = false;
        Self { receiver, outstanding: 0 }
    }

    /// Returns a handle that stops the reader, waits for it, and reads its counters. See also
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

    /// Returns whether the events that were taken and not given back use up the queue's capacity.
    pub fn is_full(&self) -> bool {
        self.outstanding >= self.receiver.state.capacity
    }

    /// Returns the length of the queue.
    pub fn capacity(&self) -> u64 {
        self.receiver.state.capacity
    }

    /// Returns the capacity of this many taken events to the queue. They need not be the events
    /// that were taken first.
    pub fn give_back(&mut self, events: u64) {
        debug_assert!(events <= self.outstanding);
        if events > 0 {
            self.outstanding -= events;
            self.receiver.give_back(events);
        }
    }

    /// Reports that every event before this offset has been handled. `None` means every event that
    /// was taken.
    pub fn set_handled(&mut self, offset: Option<u64>) {
        self.receiver.set_handled(offset);
    }

    /// Returns the stage that the end has reached.
    pub fn stage(&self) -> EndStage {
        if self.receiver.bus.is_abandoned() {
            EndStage::Abandoned
        } else if self.receiver.state.is_stopped() || self.receiver.bus.is_closing() {
            EndStage::Ending
        } else {
            EndStage::Running
        }
    }

    /// Waits until one of these happens:
    ///
    /// - If `takes` is true: there may be an event to take, or the watcher has ended.
    /// - `ready` returns `true`.
    /// - [`wake_reader`] wakes the thread.
    /// - The end reaches a stage beyond `seen`, the stage that the caller has acted on.
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

/// Ends the [`BulkReader::wait`] of the reader to which this handle belongs. The caller has first
/// made the reader's `ready` true.
pub fn wake_reader(handle: &WatchHandle) {
    full_fence();
    handle.state.wake_cell.wake();
}
