//! Statistics as metrics, through the `metrics` facade. The program publishes them by a call, so
//! this module has no thread and no timer.
//!
//! Counters are set, not incremented, so publishing twice does no harm. A label is a name that the
//! program chose. Everything without a name is summed up, so that watchers which come and go by the
//! thousand are one series and not thousands.

use std::collections::BTreeMap;

use ::metrics::{Unit, counter, gauge};

use crate::counters::{BusStats, WatcherStats};

/// The label of watchers to which the program gave no name.
const UNNAMED: &str = "(unnamed)";

/// Gives the `metrics` recorder a text and a unit for each metric. One call at the start is enough,
/// after the recorder was installed. [`BusStats::emit_metrics`] and its like publish the figures.
///
/// # Examples
///
/// ```
/// eventcast::metrics::describe_metrics();
/// ```
pub fn describe_metrics() {
    for (name, is_counter, text) in DESCRIPTIONS {
        if *is_counter {
            ::metrics::describe_counter!(*name, Unit::Count, *text);
        } else {
            ::metrics::describe_gauge!(*name, Unit::Count, *text);
        }
    }
    #[cfg(feature = "recorder")]
    recorder::describe();
}

const COUNTER: bool = true;
const GAUGE: bool = false;

const DESCRIPTIONS: &[(&str, bool, &str)] = &[
    ("eventcast_published_total", COUNTER, "Events given to publishers."),
    ("eventcast_accepted_total", COUNTER, "Of these: taken for distribution."),
    ("eventcast_rejected_total", COUNTER, "Of these: handed back, by reason."),
    ("eventcast_pending", GAUGE, "Of the accepted ones: waiting in the incoming queue."),
    ("eventcast_missed_total", COUNTER, "Events that a publisher has reported as missing."),
    ("eventcast_watchers", GAUGE, "Watchers that are registered."),
    ("eventcast_watcher_offered_total", COUNTER, "Events that passed the watcher's filter."),
    ("eventcast_watcher_delivered_total", COUNTER, "Of these: received."),
    ("eventcast_watcher_dropped_total", COUNTER, "Of these: lost, by reason."),
    ("eventcast_watcher_filtered_total", COUNTER, "Events that the watcher's filter refused."),
    ("eventcast_watcher_missed_total", COUNTER, "Events that the bus did not have for the watcher."),
    ("eventcast_watcher_evictions_total", COUNTER, "Watchers that were ended for being full."),
    ("eventcast_watcher_panics_total", COUNTER, "Panics of the watcher's filter, hook or handler."),
    ("eventcast_watcher_queued", GAUGE, "Events in the queue, or borrowed by the reader."),
    ("eventcast_watcher_lag", GAUGE, "Events offered, and neither delivered nor lost yet."),
    (
        "eventcast_watcher_high_water",
        GAUGE,
        "The most that the queue of one that is registered ever held, not counting what came from the history.",
    ),
];

/// Returns a count as a gauge's value, which is exact up to 2^53.
#[allow(clippy::cast_precision_loss, reason = "a gauge is a float")]
fn level(count: u64) -> f64 {
    count as f64
}

impl BusStats {
    /// Publishes these figures through the `metrics` crate, for a bus of this name. Call it when
    /// metrics are scraped. A scrape costs `bus.stats()` and a few dozen calls of the recorder.
    ///
    /// `docs/stability.md` in the repository lists the metrics with their labels. A watcher's label
    /// is its name. The figures are those of all watchers that had the name, both the registered
    /// ones and the [departed](BusStats::departed_by_name) ones. Watchers without a given name are
    /// summed up as `(unnamed)`. Counters therefore do not go back when a watcher is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// bus.stats().emit_metrics("orders");
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    pub fn emit_metrics(&self, bus: &str) {
        let bus = || bus.to_owned();
        counter!("eventcast_published_total", "bus" => bus()).absolute(self.published());
        counter!("eventcast_accepted_total", "bus" => bus()).absolute(self.accepted);
        counter!("eventcast_missed_total", "bus" => bus()).absolute(self.missed);
        for (reason, count) in [("full", self.rejected_full), ("stopped", self.rejected_stopped)] {
            counter!("eventcast_rejected_total", "bus" => bus(), "reason" => reason).absolute(count);
        }
        gauge!("eventcast_pending", "bus" => bus()).set(level(self.pending));
        gauge!("eventcast_watchers", "bus" => bus()).set(level(self.watchers.len() as u64));
        for (name, figures) in self.by_label() {
            let labels = || [("bus", bus()), ("watcher", name.to_owned())];
            for (metric, count) in [
                ("eventcast_watcher_offered_total", figures.offered),
                ("eventcast_watcher_delivered_total", figures.delivered),
                ("eventcast_watcher_filtered_total", figures.filtered),
                ("eventcast_watcher_missed_total", figures.missed),
                ("eventcast_watcher_evictions_total", figures.evictions),
                ("eventcast_watcher_panics_total", figures.panics),
            ] {
                counter!(metric, &labels()).absolute(count);
            }
            for (reason, count) in [
                ("incoming", figures.dropped.incoming),
                ("oldest", figures.dropped.oldest),
                ("timed_out", figures.dropped.timed_out),
                ("stopped", figures.dropped.stopped),
                ("abandoned", figures.dropped.abandoned),
            ] {
                let [bus, watcher] = labels();
                let labels = [bus, watcher, ("reason", reason.to_owned())];
                counter!("eventcast_watcher_dropped_total", &labels).absolute(count);
            }
            for (metric, count) in [
                ("eventcast_watcher_queued", figures.queued),
                ("eventcast_watcher_lag", figures.lag),
                ("eventcast_watcher_high_water", figures.high_water),
            ] {
                gauge!(metric, &labels()).set(level(count));
            }
        }
    }

    /// Returns the figures of each label, including those of departed watchers.
    fn by_label(&self) -> BTreeMap<&str, WatcherStats> {
        let mut labels: BTreeMap<&str, WatcherStats> = BTreeMap::new();
        // A departed watcher has no queue any more.
        let mut rest = WatcherStats { high_water: 0, ..self.departed.clone() };
        for gone in &self.departed_by_name {
            rest.subtract(gone);
            labels.entry(&gone.name).or_default().add(&WatcherStats { high_water: 0, ..gone.clone() });
        }
        for watcher in &self.watchers {
            let label = if watcher.is_unnamed() { UNNAMED } else { &watcher.name };
            labels.entry(label).or_default().add(watcher);
        }
        labels.entry(UNNAMED).or_default().add(&rest);
        labels
    }
}

#[cfg(feature = "recorder")]
mod recorder {
    use std::collections::BTreeMap;

    use ::metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

    use crate::record::broadcaster::EventBroadcasterStats;
    use crate::record::correlator::CorrelatorStats;
    use crate::record::recorder::RecorderStats;
    use crate::record::stats::RecordingStats;

    const DESCRIPTIONS: &[(&str, &str)] = &[
        ("eventcast_recorder_refused_total", "Events that recorders refused, by reason."),
        ("eventcast_recorder_truncated_total", "Events whose message was cut."),
        ("eventcast_recorder_hook_panics_total", "Panics of the function that is told of losses."),
        ("eventcast_recording_events_total", "Events that the recording has handled, by outcome."),
        ("eventcast_recording_recreated_total", "Events created again because the stored one had expired."),
        ("eventcast_recording_coalesced_total", "Events stored together with a later one, in one write."),
        ("eventcast_recording_aggregated_total", "Events folded into one for a group."),
        ("eventcast_recording_retried_total", "Attempts beyond the first ones."),
        ("eventcast_recording_panics_total", "Panics of the sink or of the correlator's functions."),
        (
            "eventcast_recording_evicted_total",
            "What the recording forgot to make room: entries of its correlator, and series.",
        ),
        ("eventcast_correlator_events_total", "Events that the correlator has decided about, by decision."),
        ("eventcast_correlator_aggregated_total", "Events folded into one for a group."),
        ("eventcast_correlator_evicted_total", "What the correlator forgot to make room."),
    ];

    pub(super) fn describe() {
        for (name, text) in DESCRIPTIONS {
            describe_counter!(*name, Unit::Count, *text);
        }
        describe_gauge!(UNAVAILABLE, Unit::Count, "Whether the recording's store is unavailable: 1, or 0.");
        describe_gauge!(DEGRADED, Unit::Count, "The groups that the store serves slowly or not at all.");
    }

    const UNAVAILABLE: &str = "eventcast_recording_unavailable";
    const DEGRADED: &str = "eventcast_recording_degraded_groups";

    impl EventBroadcasterStats {
        /// Publishes all of these figures through the `metrics` crate, for a broadcaster of this
        /// name: those of its bus, its recorders and its recordings. See
        /// [`BusStats::emit_metrics`](crate::stats::BusStats::emit_metrics).
        pub fn emit_metrics(&self, bus: &str) {
            self.bus.emit_metrics(bus);
            self.recorder.emit_metrics(bus);
            // Recordings that share a name are summed up, whether they have ended or run.
            let mut named: BTreeMap<&str, RecordingStats> = BTreeMap::new();
            for recording in &self.recordings {
                let name = &recording.watcher.name;
                let sum = named.entry(name).or_default();
                sum.watcher.name.clone_from(name);
                sum.add(recording);
            }
            for recording in named.values() {
                recording.emit_metrics(bus);
            }
        }
    }

    impl RecorderStats {
        /// Publishes these figures through the `metrics` crate, for a broadcaster of this name. See
        /// [`BusStats::emit_metrics`](crate::stats::BusStats::emit_metrics).
        pub fn emit_metrics(&self, bus: &str) {
            let bus = || bus.to_owned();
            for (reason, count) in [
                ("full", self.full),
                ("stopped", self.stopped),
                ("disabled", self.disabled),
                ("empty_reason", self.empty_reason),
                ("invalid", self.invalid),
                ("scrub_panicked", self.scrub_panics),
            ] {
                counter!("eventcast_recorder_refused_total", "bus" => bus(), "reason" => reason)
                    .absolute(count);
            }
            counter!("eventcast_recorder_truncated_total", "bus" => bus()).absolute(self.truncated);
            counter!("eventcast_recorder_hook_panics_total", "bus" => bus()).absolute(self.hook_panics);
        }
    }

    impl RecordingStats {
        /// Publishes the figures of this recording through the `metrics` crate, for a broadcaster
        /// of this name. The figures of its watcher are among those of the bus. See
        /// [`BusStats::emit_metrics`](crate::stats::BusStats::emit_metrics).
        pub fn emit_metrics(&self, bus: &str) {
            let labels = || [("bus", bus.to_owned()), ("recording", self.watcher.name.clone())];
            for (outcome, count) in [
                ("created", self.created),
                ("updated", self.updated),
                ("skipped", self.skipped),
                ("already_existed", self.already_existed),
                ("rejected", self.rejected),
                ("exhausted", self.exhausted),
                ("group_full", self.group_full),
                ("abandoned", self.abandoned),
            ] {
                let [bus, recording] = labels();
                let labels = [bus, recording, ("outcome", outcome.to_owned())];
                counter!("eventcast_recording_events_total", &labels).absolute(count);
            }
            for (metric, count) in [
                ("eventcast_recording_recreated_total", self.recreated),
                ("eventcast_recording_coalesced_total", self.coalesced),
                ("eventcast_recording_aggregated_total", self.aggregated),
                ("eventcast_recording_retried_total", self.retried),
                ("eventcast_recording_panics_total", self.panics),
                ("eventcast_recording_evicted_total", self.evicted),
            ] {
                counter!(metric, &labels()).absolute(count);
            }
            let is_unavailable = self.unavailable_since.is_some();
            gauge!(UNAVAILABLE, &labels()).set(if is_unavailable { 1.0 } else { 0.0 });
            // At most 16 of them are listed for each recording.
            let degraded = u32::try_from(self.degraded_groups.len()).unwrap_or(u32::MAX);
            gauge!(DEGRADED, &labels()).set(f64::from(degraded));
        }
    }

    impl CorrelatorStats {
        /// Publishes these figures through the `metrics` crate, for a correlator of your own with
        /// this name. The figures of a recording's correlator are among those of the recording. See
        /// [`BusStats::emit_metrics`](crate::stats::BusStats::emit_metrics).
        pub fn emit_metrics(&self, correlator: &str) {
            let name = || correlator.to_owned();
            for (decision, count) in
                [("created", self.created), ("updated", self.updated), ("filtered", self.filtered)]
            {
                let labels = [("correlator", name()), ("decision", decision.to_owned())];
                counter!("eventcast_correlator_events_total", &labels).absolute(count);
            }
            counter!("eventcast_correlator_aggregated_total", "correlator" => name())
                .absolute(self.aggregated);
            counter!("eventcast_correlator_evicted_total", "correlator" => name()).absolute(self.evicted);
        }
    }
}
