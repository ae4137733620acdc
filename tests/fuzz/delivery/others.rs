//! Checks the events of other groups while one namespace is in trouble.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use eventcast::OverflowPolicy;
use eventcast::sink::{SinkMode, WriteOrder};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::evidence::decide;
use super::ops::{Outcome, Subject};
use super::program::{Answer, Groups, Trouble};
use super::real::{Run, patience, wait};

/// The time after which an operation that probes an unavailable store counts as hanging.
const PROBE: Duration = Duration::from_millis(20);

impl Run<'_> {
    /// Lets the sink work except for the namespaces in trouble, and waits until all events in other
    /// namespaces have their outcomes, if the documentation promises that.
    pub fn let_others_settle(&self, trouble: Trouble) -> Result<(), TestCaseError> {
        let troubles = self.script.troubles();
        if !self.others_may_settle() {
            return Ok(());
        }
        self.script.heal_others();
        let mut is_stuck = self.stuck();
        let is_decided = wait(patience(), || {
            self.advance_if_awaited();
            self.is_decided() || is_stuck() || self.has_no_room()
        });
        prop_assert!(is_decided, "the events wait for {:?}: {:?}", troubles, self.recording.stats());
        // The newest state of each event in the other namespaces.
        let (mut newest, mut groups) = (HashMap::new(), HashMap::new());
        for write in decide(self.options, &self.decided()).all {
            let is_in_trouble = troubles.iter().any(|(namespace, _)| write.group == *namespace);
            if !write.is_held && !is_in_trouble && !write.group.is_empty() {
                newest.insert(write.subject.clone(), write.known.count);
                groups.insert(write.subject, write.group);
            }
        }
        let mut missing = Vec::new();
        let has_settled = wait(patience(), || {
            self.advance_if_awaited();
            missing = self.without_outcome(&newest);
            missing.is_empty()
                || is_stuck()
                || self.are_degraded(missing.iter().map(|subject| &groups[subject]))
        });
        prop_assert!(has_settled, "{:?} wait for {:?}: {:?}", missing, troubles, self.recording.stats());
        if !missing.is_empty() {
            return Ok(());
        }
        self.met.note(&format!("the others settle beside one that {trouble}"), (!newest.is_empty()).into());
        self.check_degraded(&troubles)
    }

    /// Checks that the statistics name the groups that are not served.
    fn check_degraded(&self, troubles: &[(String, Trouble)]) -> Result<(), TestCaseError> {
        for (namespace, trouble) in troubles {
            let ops = self.script.ops();
            let ended = ops.iter().rfind(|op| {
                op.event.involved_object.namespace == **namespace && op.outcome != Outcome::Running
            });
            let Some(refused) = ended.filter(|op| op.answer == Answer::GroupUnavailable) else { continue };
            if *trouble != Trouble::Closed || refused.trouble != Some(Trouble::Closed) {
                continue;
            }
            let (subject, count) = (refused.subject.clone(), refused.event.count);
            let is_named = wait(patience(), || {
                self.advance_if_awaited();
                let stats = self.recording.stats();
                stats.unavailable_since.is_some()
                    || stats.degraded_groups.iter().any(|group| group.group == *namespace)
                    || self.without_outcome(&HashMap::from([(subject.clone(), count)])).is_empty()
            });
            prop_assert!(is_named, "{:?} is not told: {:?}", namespace, self.recording.stats());
            self.met.note("a closed group is named", 1);
        }
        Ok(())
    }

    fn others_may_settle(&self) -> bool {
        let options = self.options;
        // A full queue with the `Wait` policy blocks everything, and so does a batch that contains
        // a hanging operation.
        !self.is_over
            && options.is_determined()
            && options.order == WriteOrder::PerKey
            && options.groups == Groups::Namespaces
            && (options.policy != OverflowPolicy::Wait || options.is_timed)
            && options.mode != SinkMode::Batches
            && options.places() >= 4
    }

    /// Returns a function that reports whether other groups are unable to make progress. Operations
    /// in namespaces in trouble may occupy all places if these operations began while only one
    /// group was known. While the store is unavailable, there is only one operation at a time, and
    /// that operation may be hanging. A recording waits for that operation for only a second, but a
    /// fake clock does not measure that second.
    fn stuck(&self) -> impl FnMut() -> bool + '_ {
        let mut since = None;
        move || {
            let is_probe = self.recording.stats().unavailable_since.is_some() && self.script.hanging() > 0;
            if !is_probe {
                since = None;
            }
            let lasts = is_probe && since.get_or_insert_with(Instant::now).elapsed() > PROBE;
            lasts || self.script.hanging() >= self.options.places()
        }
    }

    /// Returns whether these groups are slow, or are closed, and are waiting for hanging
    /// operations. All groups in trouble share half of the places.
    fn are_degraded<'g>(&self, mut groups: impl Iterator<Item = &'g String>) -> bool {
        let degraded = self.recording.stats().degraded_groups;
        let is_degraded = |group: &String| degraded.iter().any(|degraded| degraded.group == *group);
        self.script.hanging() >= self.options.places() / 2 && groups.all(is_degraded)
    }

    /// Returns whether waiting events fill the queue, so that no further event can be decided. All
    /// waiting events may be in one namespace, if there was no other namespace before or if that
    /// namespace's share is large.
    fn has_no_room(&self) -> bool {
        self.waiting() >= self.options.queue_capacity as u64
    }

    /// Returns the events that are neither lost nor stored in this or a later state.
    fn without_outcome(&self, newest: &HashMap<Subject, i32>) -> Vec<Subject> {
        let (ops, told) = (self.script.ops(), self.told());
        let stored = ops.iter().filter(|op| op.is_stored()).map(|op| (op.subject.clone(), op.event.count));
        let lost = told.iter().filter(|told| !told.is_dropped()).filter_map(|told| told.event.as_ref());
        let lost = lost.map(|event| (Subject::of(event), event.count));
        let mut known: HashMap<Subject, i32> = HashMap::new();
        for (subject, count) in stored.chain(lost) {
            let known = known.entry(subject).or_default();
            *known = count.max(*known);
        }
        let is_open = |(subject, count): &(&Subject, &i32)| known.get(*subject).unwrap_or(&0) < *count;
        newest.iter().filter(is_open).map(|(subject, _)| subject.clone()).collect()
    }
}
