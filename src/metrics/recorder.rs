//! The metrics of recorders, recordings and correlators.

use std::collections::BTreeMap;

use ::metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use crate::record::broadcaster::EventBroadcasterStats;
use crate::record::correlator::CorrelatorStats;
use crate::record::recorder::RecorderStats;
use crate::record::stats::RecordingStats;

const DESCRIPTIONS: &[(&str, &str)] = &[
    ("eventcast_recorder_refused_total", "Events that recorders refused, by reason."),
    ("eventcast_recorder_truncated_total", "Events whose message was truncated."),
    ("eventcast_recorder_hook_panics_total", "Panics in the function that is notified of losses."),
    ("eventcast_recording_events_total", "Events that the recording has handled, by outcome."),
    ("eventcast_recording_recreated_total", "Events created again because the stored event had expired."),
    ("eventcast_recording_coalesced_total", "Events stored together with a later event in one write."),
    ("eventcast_recording_aggregated_total", "Events folded into an aggregate event for a group."),
    ("eventcast_recording_retried_total", "Attempts at a write after the first one."),
    ("eventcast_recording_panics_total", "Panics in the sink or in the correlator's functions."),
    (
        "eventcast_recording_evicted_total",
        "Correlator entries and series that the recording evicted because its caches were full.",
    ),
    ("eventcast_correlator_events_total", "Events that the correlator has processed, by decision."),
    ("eventcast_correlator_aggregated_total", "Events folded into an aggregate event for a group."),
    ("eventcast_correlator_evicted_total", "Entries that the correlator's full caches evicted."),
];

pub(super) fn describe() {
    for (name, text) in DESCRIPTIONS {
        describe_counter!(*name, Unit::Count, *text);
    }
    describe_gauge!(UNAVAILABLE, Unit::Count, "1 if the recording's store is unavailable, otherwise 0.");
    describe_gauge!(DEGRADED, Unit::Count, "Groups that the store serves slowly or not at all.");
}

const UNAVAILABLE: &str = "eventcast_recording_unavailable";
const DEGRADED: &str = "eventcast_recording_degraded_groups";

impl EventBroadcasterStats {
    /// Publishes the counters of the bus, the recorders and the recordings through the `metrics`
    /// crate, for a broadcaster with the given name. See
    /// [`BusStats::emit_metrics`](crate::stats::BusStats::emit_metrics).
    pub fn emit_metrics(&self, bus: &str) {
        self.bus.emit_metrics(bus);
        self.recorder.emit_metrics(bus);
        // If recordings share a name, their counters are summed up, whether the recordings have
        // ended or are still running.
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
    fn emit_metrics(&self, bus: &str) {
        let bus = || bus.to_owned();
        for (reason, count) in [
            ("full", self.full),
            ("closed", self.closed),
            ("disabled", self.disabled),
            ("empty_reason", self.empty_reason),
            ("invalid", self.invalid),
            ("scrub_panicked", self.scrub_panics),
        ] {
            counter!("eventcast_recorder_refused_total", "bus" => bus(), "reason" => reason).absolute(count);
        }
        counter!("eventcast_recorder_truncated_total", "bus" => bus()).absolute(self.truncated);
        counter!("eventcast_recorder_hook_panics_total", "bus" => bus()).absolute(self.hook_panics);
    }
}

impl RecordingStats {
    /// Publishes the recording's counters. The counters of the recording's watcher are published
    /// together with the bus's counters.
    fn emit_metrics(&self, bus: &str) {
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
        // At most 16 groups are listed for each recording.
        let degraded = u32::try_from(self.degraded_groups.len()).unwrap_or(u32::MAX);
        gauge!(DEGRADED, &labels()).set(f64::from(degraded));
    }
}

impl CorrelatorStats {
    /// Publishes these counters through the `metrics` crate, for your own correlator with the given
    /// name. A recording's metrics already cover the recording's correlator. See
    /// [`BusStats::emit_metrics`](crate::stats::BusStats::emit_metrics).
    pub fn emit_metrics(&self, correlator: &str) {
        let name = || correlator.to_owned();
        for (decision, count) in
            [("created", self.created), ("updated", self.updated), ("filtered", self.filtered)]
        {
            let labels = [("correlator", name()), ("decision", decision.to_owned())];
            counter!("eventcast_correlator_events_total", &labels).absolute(count);
        }
        counter!("eventcast_correlator_aggregated_total", "correlator" => name()).absolute(self.aggregated);
        counter!("eventcast_correlator_evicted_total", "correlator" => name()).absolute(self.evicted);
    }
}
