//! Counters of decisions, distributed over several cells so that threads do not contend for the
//! same cache line.

use super::decision::CorrelatorStats;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{CachePadded, thread_number};

/// The number of counter cells. This number is small, because a recording adds up all cells
/// whenever it publishes its progress.
const CELLS: usize = 4;

#[derive(Default)]
pub(super) struct CorrelatorCounters {
    cells: [CachePadded<CounterCell>; CELLS],
}

#[derive(Default)]
struct CounterCell {
    created: AtomicU64,
    updated: AtomicU64,
    aggregated: AtomicU64,
    filtered: AtomicU64,
    evicted: AtomicU64,
}

impl CorrelatorCounters {
    fn cell(&self) -> &CounterCell {
        &self.cells[thread_number() % CELLS]
    }

    pub(super) fn decided(&self, is_folded: bool, is_accepted: bool, is_repeat: bool) {
        let cell = self.cell();
        if is_folded {
            count(&cell.aggregated);
        }
        count(match (is_accepted, is_repeat) {
            (false, _) => &cell.filtered,
            (true, true) => &cell.updated,
            (true, false) => &cell.created,
        });
    }

    pub(super) fn evicted(&self, entries: u64) {
        if entries > 0 {
            // Relaxed: a count.
            self.cell().evicted.fetch_add(entries, Ordering::Relaxed);
        }
    }

    pub(super) fn sum(&self) -> CorrelatorStats {
        let mut stats = CorrelatorStats::default();
        for cell in &self.cells {
            // Relaxed, all: counts.
            stats.created += cell.created.load(Ordering::Relaxed);
            stats.updated += cell.updated.load(Ordering::Relaxed);
            stats.aggregated += cell.aggregated.load(Ordering::Relaxed);
            stats.filtered += cell.filtered.load(Ordering::Relaxed);
            stats.evicted += cell.evicted.load(Ordering::Relaxed);
        }
        stats
    }
}

fn count(counter: &AtomicU64) {
    // Relaxed: no other memory access depends on the value of a counter.
    counter.fetch_add(1, Ordering::Relaxed);
}
