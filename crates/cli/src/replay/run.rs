//! Runs events through correlators, assuming that writes always succeed.
//!
//! In a cluster, each program that reports events has its own correlator. A replay therefore uses a
//! separate correlator for each reporter.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::SystemTime;

use eventcast::correlator::{Correlation, CorrelationKey, EventCorrelator};
use eventcast::stats::CorrelatorStats;
use eventcast::testing::FakeClock;
use eventcast::{CorrelatorOptions, Event, ObjectReference, Text};

use super::input::Dated;
use super::progress::Replayed;
use crate::support::time::system_time;

/// The number of events between two updates of the progress.
const STEP: usize = 1024;

/// The outcome of a run.
pub(crate) struct Outcome {
    /// The totals of all correlators.
    pub(crate) stats: CorrelatorStats,
    /// The number of reporters.
    pub(crate) reporters: u64,
    /// The counts for each key, beginning with the key that has the most events.
    pub(crate) keys: Vec<(Key, Tally)>,
}

/// The object, reason and source by which events are counted. These strings are not escaped.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) object: String,
    pub(crate) reason: Text,
    pub(crate) source: Text,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) events: u64,
    pub(crate) created: u64,
    pub(crate) updated: u64,
    pub(crate) filtered: u64,
}

impl Outcome {
    pub(crate) fn events(&self) -> u64 {
        self.stats.created + self.stats.updated + self.stats.filtered
    }

    /// Returns the number of writes to the store, which is one write for each event that is not
    /// skipped. When a real recording ends, it also writes the count of each stored event whose
    /// repeats were skipped.
    pub(crate) fn calls(&self) -> u64 {
        self.stats.created + self.stats.updated
    }
}

/// The program that reported an event, identified by the program's name and its host or instance.
type Reporter = (Text, Text);

pub(crate) fn run(
    options: &CorrelatorOptions,
    events: &[Dated],
    replayed: &Replayed,
) -> Result<Outcome, String> {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    let options = options.clone().clock(clock.clock());
    let new = || EventCorrelator::new_exact(options.clone()).map_err(|error| as_flag(&error.to_string()));
    // Invalid options result in an error even if there are no events.
    new()?;
    let mut correlators: HashMap<Reporter, EventCorrelator> = HashMap::new();
    let mut keys: HashMap<Key, Tally> = HashMap::new();
    let mut writes = 0_u64;
    for (number, Dated { at, event, .. }) in events.iter().enumerate() {
        clock.set(system_time(*at));
        let correlator = match correlators.entry(reporter_of(event)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(new()?),
        };
        let tally = keys.entry(key_of(event)).or_default();
        tally.events += 1;
        let decision = correlator.correlate(event);
        match &decision {
            Correlation::Create { .. } => tally.created += 1,
            Correlation::Update { .. } => tally.updated += 1,
            _ => tally.filtered += 1,
        }
        store(correlator, decision, &mut writes);
        if (number + 1) % STEP == 0 {
            replayed.add(STEP);
        }
    }
    let mut keys: Vec<(Key, Tally)> = keys.into_iter().collect();
    keys.sort_by(|(key, tally), (other, its)| its.events.cmp(&tally.events).then_with(|| key.cmp(other)));
    let reporters = correlators.len() as u64;
    Ok(Outcome { stats: sum(correlators.values().map(EventCorrelator::stats)), reporters, keys })
}

fn reporter_of(event: &Event) -> Reporter {
    let source = &event.source;
    if source.component.is_empty() {
        (event.reporting_controller.clone(), event.reporting_instance.clone())
    } else {
        (source.component.clone(), source.host.clone())
    }
}

fn sum(all: impl Iterator<Item = CorrelatorStats>) -> CorrelatorStats {
    let mut sum = CorrelatorStats::default();
    for stats in all {
        sum.created += stats.created;
        sum.updated += stats.updated;
        sum.aggregated += stats.aggregated;
        sum.filtered += stats.filtered;
        sum.evicted += stats.evicted;
    }
    sum
}

/// Rewrites an error from the library. The library's error begins with an option name, and the
/// rewritten error begins with the name of the corresponding flag.
fn as_flag(error: &str) -> String {
    let (name, rest) = error.split_once(' ').unwrap_or((error, ""));
    format!("--{} {rest}", name.replace('_', "-"))
}

fn key_of(event: &Event) -> Key {
    let source =
        if event.source.component.is_empty() { &event.reporting_controller } else { &event.source.component };
    let ObjectReference { kind, namespace, name, .. } = &event.involved_object;
    let parts: Vec<&str> =
        [kind, namespace, name].into_iter().map(Text::as_str).filter(|part| !part.is_empty()).collect();
    Key { object: parts.join("/"), reason: event.reason.clone(), source: source.clone() }
}

/// Confirms the write to the correlator by passing it the event that a store would have returned.
fn store(correlator: &EventCorrelator, decision: Correlation, writes: &mut u64) {
    let (mut stored, key): (Event, CorrelationKey) = match decision {
        Correlation::Create { event, key, .. } | Correlation::Update { event, key, .. } => (event, key),
        _ => return,
    };
    *writes += 1;
    stored.metadata.set_resource_version(writes.to_string());
    correlator.confirm(key, &stored);
}
