//! The gate, which counts the publishers inside publish calls, and stops admitting publishers once
//! the bus is closed.
//!
//! The gate guarantees, without a lock, that every accepted event is offered. The gate is a fixed
//! array of words, each on its own cache line. The publishing thread's number selects the word:
//!
//! ```text
//! { publishers inside : 62, idle : 1, closed : 1 }
//! ```
//!
//! * *enter* adds one publisher to the word. If the word was already closed, *enter* removes the
//!   publisher again and refuses it. An admitted publisher was therefore counted in the word before
//!   the closed bit was set.
//! * *leave* removes the publisher from the word. If the word is idle, the publisher is responsible
//!   for the entry that it has pushed, so it either delivers the entry directly or wakes the
//!   dispatcher.
//! * *close* sets the closed bit in every word. The gate is *quiet* when every word is closed and
//!   no publisher is inside. If a dispatcher sees first a quiet gate and then an empty queue, it
//!   has seen the last event, because each push happened before its publisher left.
//! * *idle* is a bit that the dispatcher sets in every word before it parks, and clears when it
//!   wakes up. After pulling, a reader sets the bit on the dispatcher's behalf before the reader
//!   sleeps. A publisher that lends the fan-out to the reader clears the bit. Setting the bit and
//!   leaving are read-modify-write operations on the same word, so they are ordered, and a publish
//!   call needs no fence.
//!   - If the publisher leaves first, its push is visible when the dispatcher next checks the
//!     queue.
//!   - If the dispatcher sets the bit first, the publisher sees the bit.

use crate::error::PublishError;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{CachePadded, gate_cells, thread_number};

const CLOSED: u64 = 1;
const IDLE: u64 = 2;
const ONE: u64 = 4;

pub(crate) struct Gate {
    /// The cells, each of which holds a word and its counters. The number of cells is a power of
    /// two, or zero on an inline bus.
    cells: Box<[CachePadded<Cell>]>,
    /// The cell of an inline bus. Publishers do not enter this cell, because they are serialised by
    /// the bus's lock.
    inline: Option<Cell>,
}

#[derive(Default)]
struct Cell {
    word: AtomicU64,
    /// The number of events refused because the queue was full. Refused events are counted in the
    /// publisher's cell because the publisher has just accessed this cache line.
    refused_full: AtomicU64,
    /// The number of events refused because the gate was closed.
    refused_closed: AtomicU64,
}

/// The reason why a publish call was refused, as distinguished by the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Full,
    Closed,
}

impl Refusal {
    /// Returns the error for the publisher, which contains the refused value.
    pub(crate) fn error<E>(self, value: E) -> PublishError<E> {
        match self {
            Self::Full => PublishError::Full(value),
            Self::Closed => PublishError::Closed(value),
        }
    }
}

impl Gate {
    pub(crate) fn new() -> Self {
        let cell = |_| CachePadded::new(Cell::default());
        Self { cells: (0..gate_cells()).map(cell).collect(), inline: None }
    }

    /// Creates the gate of an inline bus, which is only used for closing the bus and for counting.
    pub(crate) fn inline() -> Self {
        Self { cells: Box::default(), inline: Some(Cell::default()) }
    }

    fn all(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().map(|cell| &**cell).chain(&self.inline)
    }

    #[inline]
    fn cell(&self) -> &Cell {
        &self.cells[thread_number() & (self.cells.len() - 1)]
    }

    /// Admits the caller, unless the gate is closed. Never waits.
    ///
    /// - If this returns `Ok`, the caller must call [`leave`](Pass::leave).
    /// - If this returns `Err`, the gate is closed. The caller has the same duty as a publisher
    ///   that leaves, because the dispatcher may have seen the caller inside, and may therefore
    ///   have found that the gate was not quiet.
    #[inline]
    pub(crate) fn enter(&self) -> Result<Pass<'_>, Duty> {
        let pass = Pass { cell: self.cell() };
        // Relaxed: an early check, so that publishers arriving after the close do not make a quiet
        // gate seem busy.
        if pass.cell.word.load(Ordering::Relaxed) & CLOSED != 0 {
            return Err(Duty::Nothing);
        }
        // Relaxed: this word's modification order alone determines which publishers entered before
        // `close`. The Release of `leave` publishes the entries that they push in between.
        if pass.cell.word.fetch_add(ONE, Ordering::Relaxed) & CLOSED == 0 {
            Ok(pass)
        } else {
            Err(pass.leave())
        }
    }

    /// Closes the gate, which then admits no more publishers. Publishers that are already inside
    /// may finish.
    pub(crate) fn close(&self) {
        for cell in self.all() {
            // Relaxed: the word's modification order is sufficient, as explained in `enter`.
            // `is_quiet` acquires what the publishers did.
            cell.word.fetch_or(CLOSED, Ordering::Relaxed);
        }
    }

    /// Returns whether the gate is closed and no publisher is inside. Once this is the case, the
    /// queue can only become shorter.
    pub(crate) fn is_quiet(&self) -> bool {
        // Acquire: pairs with the Release of each `leave`, so that everything pushed inside the
        // gate is visible.
        self.cells.iter().all(|cell| cell.word.load(Ordering::Acquire) & !IDLE == CLOSED)
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Relaxed: this is only a hint to publishers. `enter` makes the decision.
        self.all().all(|cell| cell.word.load(Ordering::Relaxed) & CLOSED != 0)
    }

    /// Sets the idle bit in each word. If a publisher leaves while the bit is set, its duty is to
    /// [deliver](Duty::Deliver) its entry or to [wake](Duty::Wake) the dispatcher.
    pub(crate) fn set_idle(&self) {
        for cell in &self.cells {
            // Acquire: pairs with the Release of `leave`, so that the caller's next check of the
            // queue finds everything pushed by publishers that have already left.
            // Release: pairs with the Acquire of `leave`, so that publishers that leave later see
            // the dispatcher's armed wake cell. A dispatcher has fenced since it armed the cell. A
            // reader that hands back the fan-out has seen the arming through the fan-out's lock.
            cell.word.fetch_or(IDLE, Ordering::AcqRel);
        }
    }

    pub(crate) fn clear_idle(&self) {
        for cell in &self.cells {
            // Relaxed: the caller holds the fan-out. A publisher that still sees the bit either
            // acquires the fan-out later, or checks a wake cell that may not be armed because the
            // dispatcher is awake or has been woken. The dispatcher, or a reader that hands back
            // the fan-out, finds the publisher's push at the latest when it checks the queue after
            // the next `set_idle`.
            cell.word.fetch_and(!IDLE, Ordering::Relaxed);
        }
    }

    #[cold]
    pub(crate) fn count_refused(&self, refusal: Refusal, events: u64) {
        let cell = self.inline.as_ref().unwrap_or_else(|| self.cell());
        let counter = match refusal {
            Refusal::Full => &cell.refused_full,
            Refusal::Closed => &cell.refused_closed,
        };
        let add = |count: u64| Some(count.saturating_add(events));
        // Relaxed, both: only a count. The count saturates at the maximum value, which a count of
        // zero-sized events can reach.
        let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Returns the numbers of events refused so far because the queue was full and because the gate
    /// was closed.
    pub(crate) fn refused(&self) -> (u64, u64) {
        self.all().fold((0_u64, 0_u64), |(full, stopped), cell| {
            // Relaxed: counts.
            (
                full.saturating_add(cell.refused_full.load(Ordering::Relaxed)),
                stopped.saturating_add(cell.refused_closed.load(Ordering::Relaxed)),
            )
        })
    }
}

/// The action that a publisher must take after it has left the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// No action. The dispatcher is awake or the reader is pulling, and will find the publisher's
    /// entry.
    Nothing,
    /// The dispatcher is asleep or about to sleep, so the pushed entry has to be delivered.
    Deliver,
    /// The same action as for `Deliver`, but the gate is closed. Only the dispatcher can end the
    /// bus, so the dispatcher must be woken.
    Wake,
}

/// A publisher inside the gate.
#[must_use = "a publisher that entered must leave"]
pub(crate) struct Pass<'g> {
    cell: &'g Cell,
}

impl Pass<'_> {
    /// Leaves the gate, and returns what the publisher must do next.
    #[inline]
    pub(crate) fn leave(self) -> Duty {
        // Release: pairs with the Acquire of `set_idle` and `is_quiet`. A dispatcher that sees that
        // this publisher has left also sees what the publisher pushed inside.
        // Acquire: pairs with the Release of `set_idle`. A publisher that sees the idle bit also
        // sees the armed wake cell.
        match self.cell.word.fetch_sub(ONE, Ordering::AcqRel) & (IDLE | CLOSED) {
            IDLE => Duty::Deliver,
            0 | CLOSED => Duty::Nothing,
            _ => Duty::Wake,
        }
    }
}
