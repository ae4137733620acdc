//! What holds for the correlator whatever comes: random events, options and times.
#![cfg(feature = "recorder")]

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use eventcast::{
    Correlation, CorrelatorOptions, Event, EventCorrelator, FakeClock, ObjectReference, Timestamp,
};
use proptest::prelude::*;

/// One occurrence: what it is about, and how long after the one before.
#[derive(Clone, Copy, Debug)]
struct Occurrence {
    object: u8,
    reason: u8,
    message: u8,
    is_warning: bool,
    after: u16,
}

impl Occurrence {
    fn event(self, at: Timestamp) -> Event {
        let mut event = Event::default();
        event.metadata.namespace = "ns".into();
        event.metadata.name = format!("pod-{}.{}", self.object, self.message).into();
        event.involved_object =
            ObjectReference::new("Pod", format!("pod-{}", self.object)).in_namespace("ns");
        event.source.component = "kubelet".into();
        event.reason = format!("Reason{}", self.reason).into();
        event.message = format!("message {} <&>", self.message).into();
        event.type_ = if self.is_warning { "Warning".into() } else { "Normal".into() };
        event.first_timestamp = Some(at);
        event.last_timestamp = Some(at);
        event.count = 1;
        event
    }

    fn key(self) -> (u8, u8, u8, bool) {
        (self.object, self.reason, self.message, self.is_warning)
    }
}

fn occurrences() -> impl Strategy<Value = Vec<Occurrence>> {
    // Mostly in bursts, sometimes after a long time.
    let after = prop_oneof![4 => Just(0_u16), 4 => 1_u16..30, 1 => 300_u16..2000];
    let one = (0_u8..4, 0_u8..2, 0_u8..7, any::<bool>(), after).prop_map(
        |(object, reason, message, is_warning, after)| Occurrence {
            object,
            reason,
            message,
            is_warning,
            after,
        },
    );
    prop::collection::vec(one, 1..150)
}

fn options() -> impl Strategy<Value = CorrelatorOptions> {
    let filter = prop::option::of((1_u32..8, prop_oneof![Just(1.0_f32 / 300.0), Just(0.1), Just(2.0)]));
    let aggregation = prop::option::of((1_usize..6, 1_u64..600));
    (filter, aggregation).prop_map(|(filter, aggregation)| {
        let mut options = CorrelatorOptions::default();
        if let (Some(spam_filter), Some((burst, qps))) = (&mut options.spam_filter, filter) {
            (spam_filter.burst, spam_filter.qps) = (burst, qps);
        } else {
            options.spam_filter = None;
        }
        if let (Some(folding), Some((max_events, seconds))) = (&mut options.aggregation, aggregation) {
            (folding.max_events, folding.max_interval) = (max_events, Duration::from_secs(seconds));
        } else {
            options.aggregation = None;
        }
        options
    })
}

#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Create(Event),
    Update(Event, String),
    Skip,
}

/// A correlator on a clock, driven as a recording drives it.
struct Rig {
    clock: FakeClock,
    correlator: EventCorrelator,
    versions: u32,
}

impl Rig {
    fn new(options: &CorrelatorOptions) -> Self {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        let correlator = EventCorrelator::new(options.clone().clock(clock.clock())).unwrap();
        Self { clock, correlator, versions: 0 }
    }

    /// The answer, which is confirmed with a new version.
    fn step(&mut self, one: Occurrence) -> Answer {
        self.clock.advance(Duration::from_secs(one.after.into()));
        self.versions += 1;
        let event = one.event(Timestamp::from(self.clock.clock().now()));
        match self.correlator.correlate(&event) {
            Correlation::Create { event, key, .. } => {
                self.correlator.confirm(key, &event);
                Answer::Create(event)
            }
            Correlation::Update { event, patch, key, .. } => {
                self.correlator.confirm(key, &event);
                Answer::Update(event, patch.as_str().to_owned())
            }
            Correlation::Skip(_) => Answer::Skip,
            other => panic!("{other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// A count is how often exactly this has occurred, skipped ones included.
    #[test]
    fn a_count_is_the_number_of_occurrences(all in occurrences(), mut options in options()) {
        options.aggregation = None;
        let mut rig = Rig::new(&options);
        let mut counts: HashMap<_, i32> = HashMap::new();
        for one in all {
            let count = counts.entry(one.key()).or_default();
            *count += 1;
            match rig.step(one) {
                Answer::Create(event) => prop_assert_eq!((event.count, *count), (1, 1)),
                Answer::Update(event, _) => prop_assert_eq!(event.count, *count),
                Answer::Skip => {}
            }
        }
    }

    /// Folded ones too: the counts of one stored event never skip or repeat a number but for what was filtered.
    #[test]
    fn counts_of_a_stored_event_grow(all in occurrences(), options in options()) {
        let mut rig = Rig::new(&options);
        let mut last: HashMap<_, (i32, bool)> = HashMap::new();
        let unlimited = options.spam_filter.is_none();
        for one in all {
            let (event, is_new) = match rig.step(one) {
                Answer::Create(event) => (event, true),
                Answer::Update(event, _) => (event, false),
                Answer::Skip => continue,
            };
            let is_folded = event.message.starts_with("(combined");
            let member = if is_folded { None } else { Some(one.message) };
            let (before, seen) = last.entry((one.object, one.reason, one.is_warning, member)).or_default();
            prop_assert!(event.count > *before, "{} after {}", event.count, before);
            prop_assert!(!unlimited || event.count == *before + 1);
            prop_assert!(!(is_new && *seen), "created twice");
            (*before, *seen) = (event.count, true);
        }
    }

    /// Below the size of the caches the objects know nothing of each other.
    #[test]
    fn one_objects_answers_do_not_depend_on_anothers(all in occurrences(), options in options()) {
        let mut together = Rig::new(&options);
        let answers: Vec<Answer> = all.iter().map(|one| together.step(*one)).collect();
        for object in 0..4 {
            let mut alone = Rig::new(&options);
            for (one, answer) in all.iter().zip(&answers) {
                if one.object == object {
                    prop_assert_eq!(&alone.step(*one), answer);
                } else {
                    alone.clock.advance(Duration::from_secs(one.after.into()));
                }
            }
        }
    }

    /// What is skipped uses nothing up: more of it at the same moment is skipped too, and what comes later is decided as
    /// if it had not been there, but for the counts.
    #[test]
    fn a_skip_changes_nothing_but_the_count(all in occurrences(), options in options(), more in 1_usize..4) {
        let (mut once, mut often) = (Rig::new(&options), Rig::new(&options));
        for one in all {
            let (first, second) = (once.step(one), often.step(one));
            let kind = |answer: &Answer| matches!(answer, Answer::Skip);
            prop_assert_eq!(kind(&first), kind(&second));
            if first == Answer::Skip {
                for _ in 0..more {
                    prop_assert_eq!(often.step(Occurrence { after: 0, ..one }), Answer::Skip);
                }
            }
        }
    }

    /// Whatever is forgotten on the way.
    #[test]
    fn the_books_balance(all in occurrences(), mut options in options(), size in 1_usize..20) {
        options.lru_cache_size = size;
        let mut rig = Rig::new(&options);
        let (mut created, mut updated, mut filtered) = (0, 0, 0);
        for one in &all {
            match rig.step(*one) {
                Answer::Create(event) => {
                    prop_assert_eq!(event.count, 1);
                    created += 1;
                }
                Answer::Update(event, patch) => {
                    prop_assert!(event.count > 1);
                    let patch: serde_json::Value = serde_json::from_str(&patch).unwrap();
                    prop_assert_eq!(&patch["count"], event.count);
                    prop_assert_eq!(&patch["message"], event.message.as_str());
                    let at = event.last_timestamp.unwrap();
                    prop_assert_eq!(&patch["lastTimestamp"], &format!("{at:.0}"));
                    updated += 1;
                }
                Answer::Skip => filtered += 1,
            }
        }
        let stats = rig.correlator.stats();
        prop_assert_eq!((stats.created, stats.updated, stats.filtered), (created, updated, filtered));
        prop_assert_eq!(created + updated + filtered, all.len() as u64);
        prop_assert!(stats.aggregated <= all.len() as u64);
        // No cache takes more than one new entry for each event.
        prop_assert!(stats.evicted <= 3 * (all.len() as u64).saturating_sub(size as u64));
    }
}
