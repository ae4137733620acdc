//! Records the cases that the programs have covered. If a test never triggers a fault, it proves
//! nothing about that fault.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;

use eventcast::sink::{SinkMode, WriteOrder};

use super::evidence::Evidence;
use super::ops::Op;

/// Every case that a run's programs must cover at least once. The list does not include an event
/// whose new name is taken as well. That case requires two such responses in a row, which occurs
/// only about twice per run, depending on timing. `record::delivery::attempts` tests that case.
const ALL: [&str; 49] = [
    "Ok",
    "Lost",
    "Refuse",
    "Retry",
    "RetryAfter",
    "Unavailable",
    "GroupUnavailable",
    "TimeOut",
    "Forbid",
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
    "group full",
    "abandoned",
    "recreated",
    "coalesced",
    "aggregated",
    "evicted",
    "dropped",
    "flushed",
    "one by one",
    "in batches",
    "in flight",
    "in the order of the bus",
    "two groups or more",
    "a group without a name, because the sink panicked",
    "several operations in a call",
    "an answer out of order",
    "a late answer",
    "a late answer on another thread",
    "a dropped call",
    "a namespace that hangs",
    "a namespace that is slow",
    "a namespace that is closed",
    "a namespace that is forbidden",
    "the others settle beside one that hangs",
    "the others settle beside one that is slow",
    "the others settle beside one that is closed",
    "the others settle beside one that is forbidden",
    "a degraded group",
    "a closed group is named",
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
        self.note_groups(evidence);
        let stats = evidence.stats;
        for (what, times) in [
            ("created", stats.created),
            ("updated", stats.updated),
            ("skipped", stats.skipped),
            ("already existed", stats.already_existed),
            ("rejected", stats.rejected),
            ("exhausted", stats.exhausted),
            ("group full", stats.group_full),
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

    fn note_groups(&self, evidence: &Evidence<'_>) {
        let (options, ops) = (evidence.options, evidence.ops);
        let mode = match options.mode {
            _ if options.order == WriteOrder::Bus => "in the order of the bus",
            SinkMode::OneByOne => "one by one",
            SinkMode::Batches => "in batches",
            _ => "in flight",
        };
        self.note(mode, ops.len() as u64);
        self.note("several operations in a call", evidence.several);
        for op in ops {
            if let Some(trouble) = op.trouble {
                self.note(&format!("a namespace that {trouble}"), 1);
            }
        }
        let is_overtaken =
            |op: &&Op| ops.iter().any(|other| other.began > op.began && other.ended < op.ended);
        self.note("an answer out of order", ops.iter().filter(is_overtaken).count() as u64);
        let groups: HashSet<&str> =
            evidence.decided.iter().map(|decided| options.group(&decided.event)).collect();
        self.note("two groups or more", (groups.len() > 1).into());
        let panics = evidence.decided.iter().any(|decided| options.group_panics(&decided.event));
        self.note(
            "a group without a name, because the sink panicked",
            (panics && groups.contains("")).into(),
        );
        let degraded = evidence.outages.iter().filter(|outage| outage.group.is_some() && !outage.is_over);
        self.note("a degraded group", degraded.count() as u64);
    }

    /// Checks that all cases were covered, if this was a full run.
    pub fn check(&self) {
        let met = self.0.lock().unwrap();
        println!("met: {met:?}");
        let missing: Vec<&str> = ALL.into_iter().filter(|what| !met.contains_key(*what)).collect();
        let is_whole = std::env::var_os("EVENTCAST_CASE").is_none();
        assert!(missing.is_empty() || !is_whole, "the programs did not cover {missing:?}");
    }
}
