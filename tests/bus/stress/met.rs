//! Counts how often the rounds reached the cases that they are meant to reach. If a random test
//! reaches none of these cases, it does not test anything.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Met {
    Accepted,
    RefusedFull,
    RefusedStopped,
    DroppedIncoming,
    DroppedOldest,
    DroppedTimedOut,
    Evictions,
    DroppedStopped,
    DroppedAbandoned,
    Panics,
    Flushes,
    LateWatchers,
    IncompleteShutdowns,
    SimultaneousShutdowns,
    #[cfg(feature = "select")]
    Selects,
    TokioTasks,
    SmolTasks,
    CancelledReceives,
    CancelledPublishes,
    CancelledFlushes,
    CancelledShutdowns,
}

const ALL: &[Met] = &[
    Met::Accepted,
    Met::RefusedFull,
    Met::RefusedStopped,
    Met::DroppedIncoming,
    Met::DroppedOldest,
    Met::DroppedTimedOut,
    Met::Evictions,
    Met::DroppedStopped,
    Met::DroppedAbandoned,
    Met::Panics,
    Met::Flushes,
    Met::LateWatchers,
    Met::IncompleteShutdowns,
    Met::SimultaneousShutdowns,
    #[cfg(feature = "select")]
    Met::Selects,
    Met::TokioTasks,
    Met::SmolTasks,
    Met::CancelledReceives,
    Met::CancelledPublishes,
    Met::CancelledFlushes,
    Met::CancelledShutdowns,
];

static COUNTS: [AtomicU64; ALL.len()] = [const { AtomicU64::new(0) }; ALL.len()];

pub(crate) fn add(what: Met, times: u64) {
    COUNTS[what as usize].fetch_add(times, Ordering::Relaxed);
}

pub(crate) fn all() -> impl Iterator<Item = (Met, u64)> {
    ALL.iter().map(|what| (*what, COUNTS[*what as usize].load(Ordering::Relaxed)))
}
