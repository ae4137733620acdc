//! The evidence about a recording, and the model. The model is a correlator that makes decisions
//! about the same events.

use std::collections::{BTreeMap, HashSet};
use std::time::SystemTime;

use eventcast::correlator::{Correlation, EventCorrelator};
use eventcast::record::LossReason;
use eventcast::stats::RecordingStats;
use eventcast::testing::FakeClock;
use eventcast::{CorrelatorOptions, Event, Text, Timestamp};

use super::ops::{Op, Subject, is_group};
use super::program::Options;

/// The part of an event that a store must have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Known {
    pub count: i32,
    message: Text,
    /// The first and the last time. `None` if the correlator created the event at an unknown time.
    times: Option<[Option<Timestamp>; 2]>,
}

impl Known {
    pub fn of(event: &Event, is_timed: bool) -> Self {
        let has_times = is_timed || !is_group(event);
        let times = has_times.then_some([event.first_timestamp, event.last_timestamp]);
        Self { count: event.count, message: event.message.clone(), times }
    }
}

/// Returns the group's name and the member's name, as the correlator would choose them.
pub fn similar(event: &Event) -> (Text, Text) {
    let object = &event.involved_object;
    let group = format!("{}/{} {} {}", object.namespace, object.name, event.type_, event.reason);
    (group.into(), event.message.clone())
}

/// A loss reported to the hook.
#[derive(Clone, Debug)]
pub struct Told {
    pub moment: u64,
    pub reason: LossReason,
    pub place: String,
    pub group: String,
    pub count: u64,
    pub event: Option<Event>,
}

impl Told {
    /// Returns whether the event was lost before the recording decided what to do with it.
    pub fn is_dropped(&self) -> bool {
        matches!(self.reason, LossReason::Dropped(_))
    }
}

/// An event in its state when the recording decides about it, and the time of the decision.
#[derive(Clone, Debug)]
pub struct Decided {
    pub moment: u64,
    pub at: SystemTime,
    pub event: Event,
}

/// The beginning or the end of an outage, which affects a group or the whole store.
#[derive(Clone, Debug)]
pub struct Outage {
    pub moment: u64,
    pub group: Option<String>,
    pub is_over: bool,
}

impl Outage {
    pub fn is_of(&self, group: Option<&str>) -> bool {
        self.group.as_deref() == group
    }
}

/// Everything that is known about an idle recording.
pub struct Evidence<'e> {
    pub options: &'e Options,
    /// The events, in the order of the recording's decisions.
    pub decided: &'e [Decided],
    pub stats: &'e RecordingStats,
    pub told: &'e [Told],
    pub outages: &'e [Outage],
    pub ops: &'e [Op],
    pub stored: &'e [Event],
    /// The `moment`s at which the recording had received the responses to all finished operations.
    pub rests: &'e [u64],
    /// The number of threads that made decisions and requested groups, and the number of such
    /// requests.
    pub asked: (usize, u64),
    /// The number of calls to the sink that contained several operations.
    pub several: u64,
    /// Whether the recording has ended.
    pub is_over: bool,
}

/// A decision to write a state of a stored event.
pub struct Write {
    pub moment: u64,
    pub subject: Subject,
    pub group: String,
    pub known: Known,
    /// Whether the write may be skipped because a later decision may replace it.
    pub is_held: bool,
}

/// A correlator's decisions about the same events.
pub struct Decisions {
    /// All states to write, in order.
    pub all: Vec<Write>,
    pub skipped: u64,
    pub aggregated: u64,
}

impl Decisions {
    /// Returns the newest state of each event.
    pub fn newest(&self) -> BTreeMap<&Subject, &Known> {
        self.all.iter().map(|write| (&write.subject, &write.known)).collect()
    }

    pub fn held(&self) -> HashSet<(&Subject, &Known)> {
        let held = self.all.iter().filter(|write| write.is_held);
        held.map(|write| (&write.subject, &write.known)).collect()
    }
}

/// Makes decisions about the same events at the same times, without delivering anything.
pub fn decide(options: &Options, decided: &[Decided]) -> Decisions {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    let build: CorrelatorOptions = options.correlator().aggregate_key(similar).clock(clock.clock());
    let correlator = EventCorrelator::new(build).unwrap();
    let (mut all, mut skipped) = (Vec::new(), 0);
    for Decided { moment, at, event } in decided {
        clock.set(*at);
        let (event, is_held) = match correlator.correlate_or_hold(event) {
            Correlation::Create { event, .. } | Correlation::Update { event, .. } => (event, false),
            Correlation::Held { event, .. } => (event, true),
            _ => {
                skipped += 1;
                continue;
            }
        };
        let (subject, group) = (Subject::of(&event), options.group(&event).to_owned());
        let known = Known::of(&event, options.is_timed);
        all.push(Write { moment: *moment, subject, group, known, is_held });
    }
    Decisions { all, skipped, aggregated: correlator.stats().aggregated }
}
