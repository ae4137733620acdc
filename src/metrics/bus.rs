//! The metrics of a bus and its watchers.

use std::collections::BTreeMap;

use ::metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use crate::bus::counters::{BusStats, WatcherStats};

/// The label for departed watchers whose names are not kept.
const OTHER: &str = "(other)";

const OLDEST_AGE: &str = "eventcast_watcher_oldest_age_seconds";

const COUNTER: bool = true;
const GAUGE: bool = false;

const DESCRIPTIONS: &[(&str, bool, &str)] = &[
    ("eventcast_published_total", COUNTER, "Events passed to publishers."),
    ("eventcast_accepted_total", COUNTER, "Accepted events, without those in the incoming queue."),
    ("eventcast_rejected_total", COUNTER, "Events that the bus refused, by reason."),
    ("eventcast_pending", GAUGE, "Accepted events that are waiting in the incoming queue."),
    ("eventcast_missed_total", COUNTER, "Events that publishers reported as missing."),
    ("eventcast_unheard_total", COUNTER, "Accepted events that the bus processed while it had no watcher."),
    ("eventcast_watchers", GAUGE, "Registered watchers."),
    ("eventcast_watcher_offered_total", COUNTER, "Events that passed the watcher's filter."),
    ("eventcast_watcher_delivered_total", COUNTER, "Offered events that were received."),
    ("eventcast_watcher_dropped_total", COUNTER, "Offered events that were lost, by reason."),
    ("eventcast_watcher_filtered_total", COUNTER, "Events that the watcher's filter refused."),
    ("eventcast_watcher_missed_total", COUNTER, "Events missed because the bus did not have them."),
    ("eventcast_watcher_evictions_total", COUNTER, "Watchers evicted because their queue was full."),
    ("eventcast_watcher_panics_total", COUNTER, "Panics in the watcher's filter, hook or handler."),
    ("eventcast_watcher_queued", GAUGE, "Events in the queue, or borrowed by the reader."),
    ("eventcast_watcher_lag", GAUGE, "Offered events that have been neither delivered nor lost yet."),
    (
        "eventcast_watcher_high_water",
        GAUGE,
        "The most events that a registered watcher's queue has held, not counting events from the history.",
    ),
];

pub(super) fn describe() {
    for (name, is_counter, text) in DESCRIPTIONS {
        if *is_counter {
            describe_counter!(*name, Unit::Count, *text);
        } else {
            describe_gauge!(*name, Unit::Count, *text);
        }
    }
    describe_gauge!(
        OLDEST_AGE,
        Unit::Seconds,
        "How long the oldest event has waited, if the bus has a monitor."
    );
}

/// Converts a count to a gauge value, which is exact up to 2^53.
#[allow(clippy::cast_precision_loss, reason = "a gauge is a float")]
fn level(count: u64) -> f64 {
    count as f64
}

impl BusStats {
    /// Publishes these counters through the `metrics` crate, for a bus with the given name. Call
    /// this method when metrics are scraped. A scrape costs one `bus.stats()` call and a few dozen
    /// calls to the metrics recorder.
    ///
    /// `docs/stability.md` in the repository lists the metrics with their labels. Each watcher is
    /// labelled with its name. The values include all watchers that have had the name, both
    /// registered and [departed](BusStats::departed_by_name), so counters never decrease when a
    /// watcher is dropped. The `(other)` series sums up the values of departed watchers whose names
    /// are not kept in `departed_by_name`. A bus that has had no such watchers does not have this
    /// series.
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
        counter!("eventcast_unheard_total", "bus" => bus()).absolute(self.unheard);
        for (reason, count) in [("full", self.rejected_full), ("closed", self.rejected_closed)] {
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
                ("conflated", figures.dropped.conflated),
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
            gauge!(OLDEST_AGE, &labels()).set(figures.oldest_age.as_secs_f64());
        }
    }

    /// Returns the values for each label, including the values of departed watchers.
    fn by_label(&self) -> BTreeMap<&str, WatcherStats> {
        let mut labels: BTreeMap<&str, WatcherStats> = BTreeMap::new();
        // A departed watcher no longer has a queue, so its high-water mark does not count.
        let mut rest = WatcherStats { high_water: 0, ..self.departed.clone() };
        for gone in &self.departed_by_name {
            rest.subtract(gone);
            labels.entry(&gone.name).or_default().add(&WatcherStats { high_water: 0, ..gone.clone() });
        }
        for watcher in &self.watchers {
            labels.entry(&watcher.name).or_default().add(watcher);
        }
        // Without this check, a bus whose watchers all have names would export a series of zeros.
        // If all counters in `rest` are zero, none of these departed watchers has left a gauge that
        // needs to be reset.
        let name = rest.name.clone();
        if rest != (WatcherStats { name, policy: rest.policy, ..WatcherStats::default() }) {
            labels.entry(OTHER).or_default().add(&rest);
        }
        labels
    }
}
