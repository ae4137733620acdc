//! Accounts for every event of a run, in a single line whose numbers must add up.

use std::fmt;

use eventcast::stats::{EventBroadcasterReport, SinkFailure};

/// The number of events in one run, as counted by each party.
#[derive(Debug, Default)]
pub(crate) struct Accounting {
    /// The number of events that this program recorded.
    recorded: u64,
    /// The broadcaster's counts.
    published: u64,
    accepted: u64,
    rejected: u64,
    /// The recording's counts.
    delivered: u64,
    dropped: u64,
    queued: u64,
    stored: u64,
    counted: u64,
    given_up: u64,
    /// The store's most recent failure, or `None` if the store never failed.
    last_failure: Option<SinkFailure>,
}

impl Accounting {
    /// Creates the accounting from the shutdown report of a broadcaster with one recording.
    pub(crate) fn new(recorded: u64, report: &EventBroadcasterReport) -> Self {
        let bus = &report.bus;
        let recording = report.recordings.first().cloned().unwrap_or_default();
        Self {
            recorded,
            published: bus.published(),
            accepted: bus.accepted,
            rejected: bus.rejected_full + bus.rejected_closed,
            delivered: recording.watcher.delivered,
            dropped: recording.watcher.dropped.total(),
            queued: recording.watcher.queued,
            stored: recording.created,
            counted: recording.updated,
            given_up: recording.already_existed
                + recording.rejected
                + recording.exhausted
                + recording.abandoned,
            last_failure: recording.last_failure,
        }
    }

    /// Returns whether the counts of all parties agree.
    pub(crate) fn balances(&self) -> bool {
        self.recorded == self.published
            && self.published == self.accepted + self.rejected
            && self.accepted == self.delivered + self.dropped + self.queued
            && self.delivered == self.stored + self.counted + self.given_up
    }

    /// Returns the number of events that are missing from the store.
    pub(crate) fn lost(&self) -> u64 {
        self.rejected + self.dropped + self.queued + self.given_up
    }

    /// Returns a line that describes the store's failure if the store failed and events are missing
    /// from it, or `None` otherwise.
    pub(crate) fn failure_of_store(&self) -> Option<String> {
        let failure = self.last_failure.as_ref()?;
        let are = match self.lost() {
            0 => return None,
            1 => "1 event is".to_owned(),
            lost => format!("{lost} events are"),
        };
        // The `Display` form of the failure is already escaped.
        Some(format!("eventcast: {are} not in the store: {failure}"))
    }
}

impl fmt::Display for Accounting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { published, accepted, rejected, delivered, dropped, stored, counted, .. } = self;
        write!(f, "published {published} = accepted {accepted} + rejected {rejected}; ")?;
        write!(f, "accepted {accepted} = delivered {delivered} + dropped {dropped}")?;
        if self.queued > 0 {
            write!(f, " + queued {}", self.queued)?;
        }
        write!(f, "; delivered {delivered} = stored {stored} + counted {counted}")?;
        if self.given_up > 0 {
            write!(f, " + given up {}", self.given_up)?;
        }
        if !self.balances() {
            write!(f, "; this does not add up to the {} recorded", self.recorded)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Accounting;
    use eventcast::stats::{EventBroadcasterReport, RecordingStats, SinkFailure};

    fn report() -> EventBroadcasterReport {
        let mut report = EventBroadcasterReport::default();
        report.bus.accepted = 20;
        report.bus.rejected_full = 1;
        let mut recording = RecordingStats::default();
        recording.watcher.delivered = 18;
        recording.watcher.dropped.incoming = 2;
        recording.created = 3;
        recording.updated = 15;
        report.recordings.push(recording);
        report
    }

    #[test]
    fn it_adds_up() {
        let accounting = Accounting::new(21, &report());
        assert!(accounting.balances());
        assert_eq!(accounting.lost(), 3);
        assert_eq!(
            accounting.to_string(),
            "published 21 = accepted 20 + rejected 1; accepted 20 = delivered 18 + dropped 2; \
             delivered 18 = stored 3 + counted 15"
        );
    }

    #[test]
    fn missing_events_are_shown() {
        let off = [
            Accounting::new(20, &report()),
            Accounting { accepted: 19, ..Accounting::new(21, &report()) },
            Accounting { delivered: 17, ..Accounting::new(21, &report()) },
            Accounting { counted: 14, ..Accounting::new(21, &report()) },
        ];
        for accounting in off {
            assert!(!accounting.balances(), "{accounting:?}");
            assert!(accounting.to_string().contains("does not add up"), "{accounting}");
        }
    }

    #[test]
    fn the_failure_of_the_store_shows_if_events_are_missing() {
        let mut failure = SinkFailure::default();
        (failure.text, failure.attempts) = ("the disk \u{1b}[2J is full".to_owned(), 3);
        let mut report = report();
        assert_eq!(Accounting::new(21, &report).failure_of_store(), None, "the store did not fail");
        report.recordings[0].last_failure = Some(failure);
        let since = r"3 attempts since 1970-01-01T00:00:00Z: the disk \u{1b}[2J is full";
        let line = Accounting::new(21, &report).failure_of_store().expect("3 are lost");
        assert_eq!(line, format!("eventcast: 3 events are not in the store: {since}"));
        report.bus.rejected_full = 0;
        report.recordings[0].watcher.dropped.incoming = 1;
        let line = Accounting::new(21, &report).failure_of_store().expect("1 is lost");
        assert_eq!(line, format!("eventcast: 1 event is not in the store: {since}"));
        report.recordings[0].watcher.dropped.incoming = 0;
        assert_eq!(Accounting::new(21, &report).failure_of_store(), None, "the next attempt worked");
    }

    #[test]
    fn abandoned_and_remaining_events_are_part_of_the_sum() {
        let mut report = report();
        report.recordings[0].watcher.delivered = 16;
        report.recordings[0].watcher.queued = 2;
        report.recordings[0].updated = 12;
        report.recordings[0].abandoned = 1;
        let accounting = Accounting::new(21, &report);
        assert!(accounting.balances(), "{accounting}");
        assert_eq!(accounting.lost(), 6);
        assert!(accounting.to_string().ends_with("counted 12 + given up 1"), "{accounting}");
        assert!(accounting.to_string().contains("dropped 2 + queued 2;"), "{accounting}");
    }
}
