//! Starts a recording.

use std::time::Duration;

use crate::bus::policy::OverflowPolicy;
use crate::error::{BuildError, WatchError};
use crate::record::correlator::EventCorrelator;
use crate::record::series::{SeriesMemory, SeriesOptions};
use crate::record::sink::{EventSink, WriteOrder};
use crate::record::stats::RecordingStats;
use crate::sync::{Arc, Mutex};

use super::alerts::Alerts;
use super::breaker::CircuitBreaker;
use super::builder::RecordingBuilder;
use super::driver::Driver;
use super::handle::RecordingHandle;
use super::pending::{Pace, PendingWrites, Share};
use super::refused::RefusedCounts;
use super::write::Ops;
use super::writers::Writers;

/// The maximum number of workers of a recording.
const MAX_WORKERS: usize = 256;

impl RecordingBuilder<'_> {
    /// Starts the recording's thread, and the threads that call the sink.
    ///
    /// # Errors
    ///
    /// - [`WatchError::Closed`] if the broadcaster is closed.
    /// - [`WatchError::Invalid`] if an option is out of range.
    /// - [`WatchError::Thread`] if the system cannot start a thread.
    /// - [`WatchError::WouldDeadlock`] if this method is called on one of this broadcaster's
    ///   threads while the incoming queue is full or, on an inline broadcaster, inside another
    ///   call. See [`WatchBuilder::watch`](crate::WatchBuilder::watch).
    ///
    /// # Blocking
    ///
    /// Blocks under the same conditions as [`WatchBuilder::watch`](crate::WatchBuilder::watch).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::error::WatchError;
    /// use eventcast::{EventBroadcaster, MemorySink};
    ///
    /// let events = EventBroadcaster::new()?;
    /// assert!(events.recording().start(MemorySink::new()).is_ok());
    /// events.shutdown();
    /// assert!(matches!(events.recording().start(MemorySink::new()), Err(WatchError::Closed)));
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    pub fn start(self, sink: impl EventSink) -> Result<RecordingHandle, WatchError> {
        let Self { watch, correlator, retry, retry_if, on_outage, workers, recordings, .. } = self;
        let order = self.order.unwrap_or_else(|| sink.write_order());
        retry.check()?;
        let series = self.series.unwrap_or_else(|| Some(SeriesOptions::of(order)));
        series.as_ref().map_or(Ok(()), SeriesOptions::check)?;
        let series = series.map(|options| options.within(sink.ttl()));
        let needed = sink.needed_thread();
        check_workers(workers, order)?;
        let has_capacity = self.group_queue_capacity != Some(0);
        BuildError::require(has_capacity, "group_queue_capacity", 0, "1 event or more")?;
        let capacity = correlator.cache_size;
        let refresh_every = self.refresh_every.unwrap_or_else(|| sink.refresh_every());
        let pace = Pace { update_every: self.update_every, refresh_every, capacity };
        pace.check()?;
        let correlator = EventCorrelator::new_of_recording(correlator.clock(recordings.clock.clone()))?;
        let state_since = Some(recordings.clock.now().into());
        let tally = RecordingStats { state_since, ..RecordingStats::default() };
        let stats = Arc::new(Mutex::new(tally.clone()));
        let sink = Arc::new(sink);
        let handle = |watch| RecordingHandle {
            watch,
            bus: recordings.bus.clone(),
            flushes: recordings.flushes.clone(),
            stats: stats.clone(),
            needed: needed.clone(),
        };
        let watch = watch.spawn_bulk(|reader| {
            let watch = reader.handle();
            let name = watch.name();
            let writers = Writers::new(&sink, workers, &name, order, &watch).map_err(WatchError::Thread)?;
            let share = share(self.group_queue_capacity, reader.capacity(), watch.stats().policy);
            let grouping = (order == WriteOrder::PerKey).then_some(sink as Arc<dyn EventSink>);
            let (stats, losses) = (stats.clone(), recordings.losses.clone());
            // The recording is added to the list before the recording runs. A thread that observes
            // an effect of the recording therefore finds the recording in the list, even during a
            // concurrent shutdown.
            recordings.add(handle(watch));
            let driver = Driver {
                writers,
                correlator,
                series: SeriesMemory::new(series),
                flushes: recordings.flushes.clone(),
                pending: PendingWrites::new(order, grouping, share, pace),
                refused: RefusedCounts::new(capacity),
                breaker: CircuitBreaker::default(),
                judged: Vec::new(),
                answers: 0,
                answered: None,
                away_at: 0,
                looked_at: recordings.clock.deadline(Duration::ZERO).unwrap_or_default(),
                slow_at: None,
                has_new_groups: false,
                alerts: Alerts::new(on_outage),
                is_ending: false,
                name,
                order,
                clock: recordings.clock.clone(),
                retry,
                retry_if,
                tally,
                stats,
                losses,
                decided: 0,
                ops: Ops::default(),
                reader,
            };
            Ok(move || driver.run())
        })?;
        Ok(handle(watch))
    }
}

/// Returns a group's share of the waiting writes.
fn share(chosen: Option<usize>, capacity: u64, policy: Option<OverflowPolicy>) -> Share {
    match (policy, chosen) {
        // With `Wait`, a full queue does not cause losses, so a group's share is unlimited.
        (Some(OverflowPolicy::Wait), _) => Share { of_one: u64::MAX, lent: u64::MAX },
        (_, Some(len)) => Share { of_one: len as u64, lent: 0 },
        (_, None) => Share { of_one: (capacity / 4).max(1), lent: capacity / 2 },
    }
}

fn check_workers(workers: usize, order: WriteOrder) -> Result<(), BuildError> {
    let is_ordered = order != WriteOrder::Bus || workers == 1;
    BuildError::require(is_ordered, "workers", workers, "1 thread with WriteOrder::Bus")?;
    let allowed = format!("1 to {MAX_WORKERS} threads");
    BuildError::require((1..=MAX_WORKERS).contains(&workers), "workers", workers, allowed)
}
