//! The gate: who is inside a publish, and whether anybody may still begin one.
//!
//! It makes "accepted means offered" true without a lock. A fixed array of words, one on a cache line of its own,
//! chosen by the publishing thread:
//!
//! ```text
//! { publishers inside : 62, idle : 1, closed : 1 }
//! ```
//!
//! * *enter* adds one publisher. If the word was closed it takes the publisher out again and refuses: a publisher that
//!   was let in stood in the word before the closed bit did.
//! * *leave* takes it out. Whoever leaves an idle word wakes the dispatcher.
//! * *close* sets the closed bit in every word. *Quiet* is: closed everywhere and nobody inside. A dispatcher that sees
//!   quiet and then an empty queue has seen the last event, because every push happened before its publisher left.
//! * *idle* is set in every word by a dispatcher about to park, and cleared when it wakes. Both it and leaving are
//!   read-modify-writes of one word, so they have an order: either the publisher left first, and its push is visible to
//!   the dispatcher's next look at the queue, or it sees the bit. So a publish costs no fence.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{CachePadded, gate_cells, thread_number};

const CLOSED: u64 = 1;
const IDLE: u64 = 2;
const ONE: u64 = 4;

#[derive(Debug)]
pub(crate) struct Gate {
    /// A power of two of them.
    cells: Box<[CachePadded<Cell>]>,
}

#[derive(Debug)]
struct Cell {
    word: AtomicU64,
    /// Events refused through this cell, counted here because the line is at hand.
    refused_full: AtomicU64,
    refused_stopped: AtomicU64,
}

/// Why a publish was refused, for the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Full,
    Stopped,
}

impl Gate {
    pub(crate) fn new() -> Self {
        let cell = || {
            CachePadded::new(Cell {
                word: AtomicU64::new(0),
                refused_full: AtomicU64::new(0),
                refused_stopped: AtomicU64::new(0),
            })
        };
        Self { cells: (0..gate_cells()).map(|_| cell()).collect() }
    }

    #[inline]
    fn cell(&self) -> &Cell {
        &self.cells[thread_number() & (self.cells.len() - 1)]
    }

    /// Lets the caller in, unless the gate is closed. Never waits. Who is let in must [`leave`](Pass::leave); who is
    /// refused is told whether the dispatcher has to be woken: it may have seen the caller inside, and no quiet.
    #[inline]
    pub(crate) fn enter(&self) -> Result<Pass<'_>, bool> {
        let pass = Pass { cell: self.cell() };
        // Relaxed: a look before the leap, so that publishers who come too late do not disturb the quiet.
        if pass.cell.word.load(Ordering::Relaxed) & CLOSED != 0 {
            return Err(false);
        }
        // Relaxed: the order of this word alone decides who came before `close`; what is pushed meanwhile is published
        // by the Release of `leave`.
        if pass.cell.word.fetch_add(ONE, Ordering::Relaxed) & CLOSED == 0 {
            Ok(pass)
        } else {
            Err(pass.leave())
        }
    }

    /// No publisher is let in from here on. Those inside finish.
    pub(crate) fn close(&self) {
        for cell in &self.cells {
            // Relaxed: the word's own order decides, see `enter`; `quiet` acquires what the publishers did.
            cell.word.fetch_or(CLOSED, Ordering::Relaxed);
        }
    }

    /// Closed, and nobody inside. From then on the queue can only become shorter.
    pub(crate) fn is_quiet(&self) -> bool {
        // Acquire: pairs with the Release of each `leave`, so that what was pushed inside is visible.
        self.cells.iter().all(|cell| cell.word.load(Ordering::Acquire) & !IDLE == CLOSED)
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Relaxed: a hint to publishers; `enter` decides.
        self.cells.iter().all(|cell| cell.word.load(Ordering::Relaxed) & CLOSED != 0)
    }

    /// From here on whoever leaves says so.
    pub(crate) fn set_idle(&self) {
        for cell in &self.cells {
            // Acquire: pairs with the Release of `leave`, so that the next look at the queue finds what was pushed by
            // those who left before. That they who leave later see the armed sleeper, the fence in `WakeCell::arm` sees
            // to, which is also a release.
            cell.word.fetch_or(IDLE, Ordering::Acquire);
        }
    }

    pub(crate) fn clear_idle(&self) {
        for cell in &self.cells {
            // Relaxed: late news only costs a look at a sleeper that is not armed.
            cell.word.fetch_and(!IDLE, Ordering::Relaxed);
        }
    }

    #[cold]
    pub(crate) fn count_refused(&self, refusal: Refusal, events: u64) {
        let cell = self.cell();
        let counter = match refusal {
            Refusal::Full => &cell.refused_full,
            Refusal::Stopped => &cell.refused_stopped,
        };
        let add = |count: u64| Some(count.saturating_add(events));
        // Relaxed, both: a count. One of events of no size, of which there can be as many, ends at
        // the highest number.
        let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Events refused so far because the queue was full, and because the gate was closed.
    pub(crate) fn refused(&self) -> (u64, u64) {
        self.cells.iter().fold((0_u64, 0_u64), |(full, stopped), cell| {
            // Relaxed: counts.
            (
                full.saturating_add(cell.refused_full.load(Ordering::Relaxed)),
                stopped.saturating_add(cell.refused_stopped.load(Ordering::Relaxed)),
            )
        })
    }
}

/// A publisher inside the gate.
#[derive(Debug)]
#[must_use = "who entered must leave"]
pub(crate) struct Pass<'g> {
    cell: &'g Cell,
}

impl Pass<'_> {
    /// Goes out; says whether the dispatcher was about to sleep and has to be woken.
    #[inline]
    pub(crate) fn leave(self) -> bool {
        // Release: pairs with the Acquire of `set_idle` and `is_quiet`: what was pushed inside is seen by whoever sees
        // this. Acquire: pairs with the fence in `WakeCell::arm`: who sees the idle bit sees the armed sleeper.
        self.cell.word.fetch_sub(ONE, Ordering::AcqRel) & IDLE != 0
    }
}
