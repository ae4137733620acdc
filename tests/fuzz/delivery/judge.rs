//! Compares the state that a store must have after the recorded events with the store's actual
//! state.

use std::collections::{BTreeMap, HashMap, HashSet};

use eventcast::Event;
use eventcast::record::LossReason;
use eventcast::sink::WriteOrder;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::evidence::{Decided, Decisions, Evidence, Known, decide};
use super::ops::{Outcome, Subject};
use super::program::Answer;
use super::shares;

impl Evidence<'_> {
    pub fn judge(&self) -> Result<(), TestCaseError> {
        self.check_outcomes()?;
        self.check_writes()?;
        shares::check_told(self)?;
        if !self.options.is_determined() {
            return self.check_counts();
        }
        let decisions = decide(self.options, self.decided);
        self.check_store(&decisions)?;
        if self.is_over { shares::check(self, &decisions) } else { Ok(()) }
    }

    /// Checks that every delivered event has one outcome, and that lost events were reported to the
    /// hook. A later write may have carried the count of a lost event.
    fn check_outcomes(&self) -> Result<(), TestCaseError> {
        let stats = self.stats;
        let stored = stats.created + stats.updated + stats.skipped;
        let lost =
            stats.already_existed + stats.rejected + stats.exhausted + stats.group_full + stats.abandoned;
        prop_assert_eq!(stats.watcher.delivered, stored + lost, "{:?}", stats);
        prop_assert_eq!(stats.watcher.delivered, self.decided.len() as u64, "{:?}", stats);
        prop_assert!(stats.recreated <= stats.created, "{:?}", stats);
        let mut carried = 0;
        for (reason, count) in [
            (LossReason::AlreadyExists, stats.already_existed),
            (LossReason::Rejected, stats.rejected),
            (LossReason::Exhausted, stats.exhausted),
            (LossReason::GroupFull, stats.group_full),
            (LossReason::Abandoned, stats.abandoned),
        ] {
            let told = self.told.iter().filter(|told| told.reason == reason);
            let told = told.map(|told| told.count).sum::<u64>();
            prop_assert!(told >= count, "{} told as {}: {:?}", told, reason, stats);
            carried += told - count;
        }
        prop_assert!(carried <= stats.coalesced, "{} carried: {:?}", carried, stats);
        Ok(())
    }

    /// Checks that every event counted as stored reached the store in one of the writes that
    /// succeeded.
    fn check_writes(&self) -> Result<(), TestCaseError> {
        let count = |outcome: Outcome| self.ops.iter().filter(|op| op.outcome == outcome).count() as u64;
        prop_assert_eq!(count(Outcome::Running), 0);
        // If an event is already in the store, it counts as stored by the earlier attempt, provided
        // that the earlier attempt stored the event's newest state.
        let (done, exists) = (count(Outcome::Done), count(Outcome::Exists));
        let written = done..=done + exists;
        prop_assert!(written.contains(&self.stats.written()), "{:?} written: {:?}", written, self.stats);
        prop_assert!(self.stats.coalesced <= self.stats.created + self.stats.updated, "{:?}", self.stats);
        // In bus order, only held events and lost events share a write.
        let shares = self.options.order == WriteOrder::PerKey || self.options.holds();
        prop_assert!(self.stats.coalesced == 0 || shares || !self.told.is_empty());
        Ok(())
    }

    /// Checks that the store has the newest state of each event whose loss was not reported to the
    /// hook, and has no state without a decision to write that state.
    fn check_store(&self, decisions: &Decisions) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.stats.skipped, decisions.skipped);
        prop_assert_eq!(self.stats.aggregated, decisions.aggregated);
        prop_assert_eq!(self.stats.evicted, 0);
        let known = |event: &Event| (Subject::of(event), Known::of(event, self.options.is_timed));
        let all: HashSet<_> =
            decisions.all.iter().map(|write| (write.subject.clone(), write.known.clone())).collect();
        let mut names: HashMap<Subject, &str> = HashMap::new();
        let nobody_else_writes = self.ops.iter().all(|op| op.answer != Answer::Taken);
        for event in self.stored {
            prop_assert!(all.contains(&known(event)), "nobody decided {:?}", event);
            let other = names.insert(Subject::of(event), &event.metadata.name);
            prop_assert!(other.is_none() || !nobody_else_writes, "{:?} is also {:?}", event, other);
        }
        let lost: HashSet<_> = self.told.iter().filter_map(|told| told.event.as_ref()).map(known).collect();
        for (subject, newest) in decisions.newest() {
            if !lost.contains(&(subject.clone(), newest.clone())) {
                let found = self.stored_as(subject).map(|event| known(event).1);
                prop_assert_eq!(found.as_ref(), Some(newest), "{:?}", subject);
            }
        }
        if self.options.order == WriteOrder::Bus { self.check_order(decisions) } else { Ok(()) }
    }

    /// Checks that every event is counted in some stored event with the same key, unless the
    /// event's loss was reported to the hook. A key may have several stored events, because the
    /// correlator evicts entries.
    fn check_counts(&self) -> Result<(), TestCaseError> {
        if !self.options.counts_each() {
            return Ok(());
        }
        let mut highest: HashMap<(Subject, &str), i32> = HashMap::new();
        for op in self.ops.iter().filter(|op| op.is_stored()) {
            let highest = highest.entry((op.subject.clone(), &*op.event.metadata.name)).or_default();
            *highest = op.event.count.max(*highest);
        }
        let mut counted: HashMap<Subject, u64> = HashMap::new();
        for ((subject, _), count) in highest {
            *counted.entry(subject).or_default() += u64::try_from(count).unwrap();
        }
        for told in self.told.iter().filter(|told| !told.is_dropped()) {
            let subject = told.event.as_ref().map(Subject::of);
            *subject.map_or(&mut 0, |subject| counted.entry(subject).or_default()) += told.count;
        }
        let mut decided: BTreeMap<Subject, u64> = BTreeMap::new();
        for Decided { event, .. } in self.decided {
            *decided.entry(Subject::of(event)).or_default() += 1;
        }
        for (subject, decided) in decided {
            let counted = counted.get(&subject).copied().unwrap_or(0);
            prop_assert!(counted >= decided, "{} of {} are counted: {:?}", counted, decided, subject);
        }
        Ok(())
    }

    /// Returns the most recently written stored event with this subject. There is more than one
    /// such event if the event had to take a different name.
    fn stored_as(&self, subject: &Subject) -> Option<&Event> {
        let last = self.ops.iter().rev().find(|op| op.subject == *subject && op.is_stored())?;
        let is_last = |event: &&Event| {
            Subject::of(event) == *subject && event.metadata.name == last.event.metadata.name
        };
        self.stored.iter().find(is_last)
    }

    /// Checks that operations reach the sink in the order of the decisions, except for operations
    /// that were lost before their turn.
    fn check_order(&self, decisions: &Decisions) -> Result<(), TestCaseError> {
        // The index of the first decision that has not reached the sink.
        let mut next = 0;
        let held = decisions.held();
        let all = decisions.all.iter().map(|write| (&write.subject, &write.known));
        let known = |event: &Event| (Subject::of(event), Known::of(event, self.options.is_timed));
        let lost: HashSet<_> = self.told.iter().filter_map(|told| told.event.as_ref()).map(known).collect();
        let is_lost =
            |(subject, known): &(&Subject, &Known)| lost.contains(&((*subject).clone(), (*known).clone()));
        let passed: Vec<_> = all.filter(|decision| !held.contains(decision)).collect();
        for op in self.ops {
            let known = Known::of(&op.event, self.options.is_timed);
            let written = (&op.subject, &known);
            // Held writes are sent some time after the decision.
            if held.contains(&written) {
                continue;
            }
            if next > 0 && passed[next - 1] == written {
                continue;
            }
            let found = passed[next..].iter().position(|decision| *decision == written);
            let is_next = found.is_some_and(|skipped| passed[next..next + skipped].iter().all(is_lost));
            prop_assert!(is_next, "{:?} comes instead of {:?}", written, passed.get(next));
            next += found.unwrap_or_default() + 1;
        }
        prop_assert!(passed[next..].iter().all(is_lost), "{} never came", next);
        Ok(())
    }
}
