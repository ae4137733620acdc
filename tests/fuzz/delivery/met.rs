//! What the programs have met. A test that never meets a fault says nothing about it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::judge::Evidence;

/// Everything that the programs of a run must meet at least once. An event whose new name is taken
/// too is not among these: it takes two such answers in a row, which a run meets about twice, and
/// the moment decides. `record::recording::attempts` has a test of it.
const ALL: [&str; 24] = [
    "Ok",
    "Lost",
    "Refuse",
    "Retry",
    "RetryAfter",
    "Unavailable",
    "Forget",
    "Taken",
    "Panic",
    "PanicBatch",
    "Short",
    "Hang",
    "created",
    "updated",
    "skipped",
    "rejected",
    "exhausted",
    "abandoned",
    "recreated",
    "coalesced",
    "aggregated",
    "evicted",
    "dropped",
    "flushed",
];

#[derive(Default)]
pub struct Met(Mutex<BTreeMap<String, u64>>);

impl Met {
    pub fn note(&self, what: &str, times: u64) {
        if times > 0 {
            *self.0.lock().unwrap().entry(what.to_owned()).or_default() += times;
        }
    }

    pub fn note_all(&self, evidence: &Evidence<'_>) {
        for op in evidence.ops {
            let answer = format!("{:?}", op.answer);
            self.note(answer.split('(').next().unwrap_or_default(), 1);
        }
        let stats = evidence.stats;
        for (what, times) in [
            ("created", stats.created),
            ("updated", stats.updated),
            ("skipped", stats.skipped),
            ("already existed", stats.already_existed),
            ("rejected", stats.rejected),
            ("exhausted", stats.exhausted),
            ("abandoned", stats.abandoned),
            ("recreated", stats.recreated),
            ("coalesced", stats.coalesced),
            ("aggregated", stats.aggregated),
            ("evicted", stats.evicted),
            ("dropped", stats.watcher.dropped.total()),
        ] {
            self.note(what, times);
        }
    }

    /// Checks that everything was met, if this was a whole run.
    pub fn check(&self) {
        let met = self.0.lock().unwrap();
        println!("met: {met:?}");
        let missing: Vec<&str> = ALL.into_iter().filter(|what| !met.contains_key(*what)).collect();
        let is_whole = std::env::var_os("EVENTCAST_CASE").is_none();
        assert!(missing.is_empty() || !is_whole, "the programs never met {missing:?}");
    }
}
