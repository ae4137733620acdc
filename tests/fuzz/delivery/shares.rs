//! The documentation's promises about groups: which of a group's events may be lost, and which of
//! its operations may be under way.

use std::collections::{BTreeMap, HashMap, HashSet};

use eventcast::OverflowPolicy;
use eventcast::record::LossReason;
use eventcast::sink::{SinkMode, WriteOrder};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::evidence::{Decisions, Evidence, Told, Write};
use super::ops::{Op, Subject};
use super::program::{Answer, Groups, Options};

/// Checks that every loss at the sink names its group, and that no other loss names a group. A
/// group is full only if the options allow a full group.
pub fn check_told(evidence: &Evidence<'_>) -> Result<(), TestCaseError> {
    let options = evidence.options;
    let names: HashSet<&str> = evidence.decided.iter().map(|decided| options.group(&decided.event)).collect();
    for told in evidence.told {
        let group = match &told.event {
            Some(event) if !told.is_dropped() => options.group(event),
            _ => "",
        };
        // An event that is abandoned at shutdown may be reported without its group.
        let is_nameless = told.reason == LossReason::Abandoned && told.group.is_empty();
        prop_assert!(told.group == group || is_nameless, "{:?} belongs to {:?}", told, group);
    }
    check_rejected(evidence)?;
    for group in &evidence.stats.degraded_groups {
        prop_assert!(names.contains(&*group.group), "{:?} is none of {:?}", group, names);
    }
    let has_groups = options.groups != Groups::One && options.order == WriteOrder::PerKey;
    prop_assert!(has_groups || evidence.stats.group_full == 0, "{:?}", evidence.stats);
    prop_assert!(options.policy != OverflowPolicy::Wait || evidence.stats.group_full == 0);
    let (threads, asked) = evidence.asked;
    prop_assert!(threads <= 1, "{} threads decide and ask for groups", threads);
    let decided = evidence.decided.len() as u64;
    prop_assert!(asked <= decided, "asked {} times for the groups of {} events", asked, decided);
    Ok(())
}

/// Checks that only a response from the sink rejects an event. An unanswered operation is tried
/// again, except that if a batch gets too few responses, the rest of the batch is rejected.
fn check_rejected(evidence: &Evidence<'_>) -> Result<(), TestCaseError> {
    let options = evidence.options;
    let rejects = |op: &Op, is_of_group: bool| match op.answer {
        Answer::Refuse | Answer::Panic | Answer::PanicBatch | Answer::Forbid => is_of_group,
        Answer::Short => options.mode == SinkMode::Batches,
        _ => false,
    };
    for told in evidence.told.iter().filter(|told| told.reason == LossReason::Rejected) {
        let group = told.event.as_ref().map(|event| options.group(event));
        let mut before = evidence.ops.iter().filter(|op| op.began < told.moment);
        let is_rejected = before.any(|op| rejects(op, Some(options.group(&op.event)) == group));
        prop_assert!(is_rejected, "nothing rejects {:?}", told);
    }
    Ok(())
}

pub fn check(evidence: &Evidence<'_>, decisions: &Decisions) -> Result<(), TestCaseError> {
    if evidence.options.groups == Groups::One || evidence.options.order == WriteOrder::Bus {
        return Ok(());
    }
    let groups = History::new(evidence, decisions);
    groups.check_losses()?;
    groups.check_waiting()?;
    groups.check_places()?;
    groups.check_outages()
}

/// Returns whether the response means that the store is unavailable or the group is not served.
fn is_unserved(op: &Op) -> bool {
    use Answer::{Forbid, GroupUnavailable, Short, TimeOut, Unavailable};
    matches!(op.answer, Forbid | GroupUnavailable | Short | TimeOut | Unavailable)
}

/// Everything that happened, indexed by stored event and by group.
struct History<'e> {
    evidence: &'e Evidence<'e>,
    options: &'e Options,
    writes: &'e [Write],
    of_subject: HashMap<&'e Subject, Vec<&'e Write>>,
    ops: HashMap<&'e Subject, Vec<&'e Op>>,
    told: HashMap<Subject, Vec<&'e Told>>,
    /// The `moment` of the first decision about an event in each group.
    since: BTreeMap<&'e str, u64>,
}

impl<'e> History<'e> {
    fn new(evidence: &'e Evidence<'e>, decisions: &'e Decisions) -> Self {
        let writes = &decisions.all[..];
        let mut history = Self {
            evidence,
            options: evidence.options,
            writes,
            of_subject: HashMap::new(),
            ops: HashMap::new(),
            told: HashMap::new(),
            since: BTreeMap::new(),
        };
        for write in writes {
            history.of_subject.entry(&write.subject).or_default().push(write);
            // A held event does not have to be written, so it does not create a group.
            if !write.is_held {
                history.since.entry(&write.group).or_insert(write.moment);
            }
        }
        for op in evidence.ops {
            history.ops.entry(&op.subject).or_default().push(op);
        }
        for told in evidence.told.iter().filter(|told| !told.is_dropped()) {
            if let Some(event) = &told.event {
                history.told.entry(Subject::of(event)).or_default().push(told);
            }
        }
        history
    }

    fn group_of(&self, op: &'e Op) -> &'e str {
        self.options.group(&op.event)
    }

    /// Returns the first `moment` at which this group and another group were known.
    fn has_others_since(&self, group: &str) -> u64 {
        let others = self.since.iter().filter(|(name, _)| **name != group);
        let first = others.map(|(_, since)| *since).min().unwrap_or(u64::MAX);
        first.max(self.since.get(group).copied().unwrap_or(u64::MAX))
    }

    /// Returns whether the group, or the store, may be in trouble at `moment`. The hook runs a
    /// little after the recording detects the trouble. If a group was closed together with the
    /// store, the group is not reported separately, and it stays closed until one of its operations
    /// is answered.
    fn is_in_trouble(&self, group: &str, moment: u64) -> bool {
        let outages = &self.evidence.outages;
        let names = |name: Option<&str>| {
            let last = outages.iter().rfind(|outage| outage.is_of(name) && outage.moment < moment);
            let next = outages.iter().find(|outage| outage.is_of(name) && outage.moment > moment);
            last.is_some_and(|last| !last.is_over) || next.is_some_and(|next| !next.is_over)
        };
        let ops = self.evidence.ops.iter().filter(|op| self.group_of(op) == group);
        let ended = ops.filter(|op| op.ended.is_some_and(|ended| ended < moment));
        let last = ended.max_by_key(|op| op.ended);
        names(None) || names(Some(group)) || last.is_some_and(is_unserved)
    }

    /// Checks the outages. The store counts as unavailable if the sink reports that it is
    /// unavailable, if two groups are not served, or if the only group is not served. An outage
    /// begins before it ends.
    fn check_outages(&self) -> Result<(), TestCaseError> {
        let mut away: HashSet<Option<&str>> = HashSet::new();
        let mut last = 0;
        for outage in self.evidence.outages {
            let (name, moment) = (outage.group.as_deref(), outage.moment);
            let was_away = if outage.is_over { away.remove(&name) } else { !away.insert(name) };
            prop_assert!(was_away == outage.is_over, "{:?} comes twice", outage);
            if name.is_some() || outage.is_over {
                continue;
            }
            let ended = self.evidence.ops.iter().filter(|op| op.ended.is_some_and(|ended| ended < moment));
            let unserved: Vec<&Op> = ended.filter(|op| is_unserved(op)).collect();
            let is_said = unserved.iter().any(|op| op.answer == Answer::Unavailable && op.ended > Some(last));
            let groups: HashSet<&str> = unserved.iter().map(|op| self.group_of(op)).collect();
            let is_one_group = self.since.values().filter(|since| **since < moment).count() < 2;
            prop_assert!(is_said || is_one_group || groups.len() > 1, "{:?} for {:?}", outage, groups);
            last = moment;
        }
        Ok(())
    }

    /// Returns the time at which, according to the hook, the trouble that the group was in at
    /// `moment` began.
    fn trouble_since(&self, group: &str, moment: u64) -> Option<u64> {
        let of_group = || self.evidence.outages.iter().filter(|outage| outage.is_of(Some(group)));
        let last = of_group().rfind(|outage| outage.moment < moment)?;
        // When the trouble is over, the recording reports this to the hook in the same round, so no
        // decision happens in between.
        let is_over_since = of_group().find(|outage| outage.moment > moment).is_some_and(|over| {
            let decided = self.evidence.decided.iter().map(|decided| decided.moment);
            !decided.into_iter().any(|decided| decided > moment && decided < over.moment)
        });
        (!last.is_over && !is_over_since).then_some(last.moment)
    }

    /// Returns the highest count of this event that the recording may have finished with by
    /// `moment`, because the response or the loss was known. With `is_sure`, returns the count that
    /// the recording must have finished with.
    fn settled(&self, subject: &Subject, moment: u64, is_sure: bool) -> i32 {
        let ops = self.ops.get(subject).map(Vec::as_slice).unwrap_or_default();
        let last_begun = ops.iter().filter(|op| op.began < moment).map(|op| op.began).max().unwrap_or(0);
        let last_rest = self.evidence.rests.iter().filter(|rest| **rest < moment).max().unwrap_or(&0);
        let is_known = |op: &&&Op| {
            let ended = op.ended.unwrap_or(u64::MAX);
            let known = if is_sure { last_begun.max(*last_rest) } else { moment };
            ended < known && (op.is_told() || !is_sure)
        };
        let written = ops.iter().filter(is_known).map(|op| op.event.count);
        let told = self.told.get(subject).map(Vec::as_slice).unwrap_or_default();
        let told = told.iter().filter(|told| told.moment < moment && told.reason != LossReason::GroupFull);
        let lost = told.filter_map(|told| told.event.as_ref().map(|event| event.count));
        written.chain(lost).max().unwrap_or(0)
    }

    /// Returns whether this state is waiting or under way at `moment`. If a full group loses a
    /// state, only that state is lost, and an earlier state may still be under way.
    fn is_open(&self, write: &Write, moment: u64, settled: i32) -> bool {
        let is_lost = |told: &Told| {
            let count = told.event.as_ref().map(|event| event.count);
            told.reason == LossReason::GroupFull && told.moment < moment && count == Some(write.known.count)
        };
        let told = self.told.get(&write.subject).map(Vec::as_slice).unwrap_or_default();
        write.moment < moment && write.known.count > settled && !told.iter().any(|told| is_lost(told))
    }

    /// Returns the maximum number of events in these groups that may have been waiting or under way
    /// at `moment`.
    fn most_waiting(&self, is_among: impl Fn(&str) -> bool, moment: u64) -> usize {
        let of_subject = self.of_subject.iter().filter(|(_, writes)| is_among(&writes[0].group));
        let count = |(subject, writes): (&&Subject, &Vec<&Write>)| {
            let settled = self.settled(subject, moment, true);
            let open = writes.iter().filter(|write| self.is_open(write, moment, settled));
            // At most the state under way and the newest state are open.
            open.count().min(2)
        };
        of_subject.map(count).sum()
    }

    /// Returns the minimum number of events in this group that must have been waiting or under way
    /// at `moment`. Counts only events decided after `from`.
    fn least_waiting(&self, group: &str, from: u64, moment: u64) -> usize {
        let of_subject = self.of_subject.iter().filter(|(_, writes)| writes[0].group == group);
        let is_waiting = |(subject, writes): (&&Subject, &Vec<&Write>)| {
            let settled = self.settled(subject, moment, false);
            let is_there = writes.iter().any(|write| self.is_open(write, moment, settled));
            // A repeat shares the place of the state that it repeats, even while that state waits
            // for another attempt. A held write has a separate place, as does the write that
            // follows it.
            let surely = self.settled(subject, moment, true);
            let mut chain = writes.iter().filter(|write| self.is_open(write, moment, surely)).peekable();
            let is_later = chain.peek().is_some_and(|first| first.moment > from);
            is_there && is_later && chain.all(|write| !write.is_held)
        };
        of_subject.filter(|of_subject| is_waiting(*of_subject)).count()
    }

    /// Returns whether an operation of this group has ended since the recording was last at rest.
    fn has_ended_since_a_rest(&self, group: &str, moment: u64) -> bool {
        let last_rest = self.evidence.rests.iter().filter(|rest| **rest < moment).max().unwrap_or(&0);
        let mut of_group = self.evidence.ops.iter().filter(|op| self.group_of(op) == group);
        of_group.any(|op| op.ended.is_some_and(|ended| ended > *last_rest && ended < moment))
    }

    /// Checks that a group loses an event for being full only if the group uses its whole share, or
    /// if the group is in trouble and all groups in trouble use theirs.
    fn check_losses(&self) -> Result<(), TestCaseError> {
        let share = self.options.share();
        for told in self.evidence.told.iter().filter(|told| told.reason == LossReason::GroupFull) {
            // The hook runs slightly later than the recording's decision.
            let event = told.event.as_ref();
            let decided = event.map_or(0, |event| self.decided(&Subject::of(event), event.count));
            prop_assert!(decided != 0 && decided < told.moment, "no decision writes {:?}", told);
            let moment = decided + 1;
            let is_alone = self.has_others_since(&told.group) > moment;
            prop_assert!(!is_alone, "{:?} is the only group", told);
            // The lost event counts as one of the events that the group would have.
            let waiting = self.most_waiting(|group| group == told.group, moment);
            // The recording may not yet have seen that the last operation ended.
            let unseen = usize::from(self.has_ended_since_a_rest(&told.group, moment));
            if waiting + unseen > share {
                continue;
            }
            let in_trouble = self.is_in_trouble(&told.group, moment);
            prop_assert!(in_trouble, "{:?}, although {} of {} wait", told, waiting, share);
            let waiting = self.most_waiting(|group| self.is_in_trouble(group, moment), moment);
            prop_assert!(waiting > 2 * share, "{:?}, although {} wait in all", told, waiting);
        }
        Ok(())
    }

    /// Checks that a group that uses its whole share gets no more capacity, except for the unused
    /// part of half of the queue.
    fn check_waiting(&self) -> Result<(), TestCaseError> {
        if self.options.policy == OverflowPolicy::Wait {
            return Ok(());
        }
        let most = self.options.share().max(self.options.lent());
        for write in self.writes {
            let from = self.has_others_since(&write.group);
            if from < write.moment {
                let waiting = self.least_waiting(&write.group, from, write.moment);
                prop_assert!(waiting <= most, "{} wait before {:?}", waiting, write.known);
            }
        }
        Ok(())
    }

    /// Returns the `moment` at which this state of an event was decided.
    fn decided(&self, subject: &Subject, count: i32) -> u64 {
        let writes = self.of_subject.get(subject).map(Vec::as_slice).unwrap_or_default();
        let write = writes.iter().find(|write| write.known.count == count && !write.is_held);
        write.map_or(0, |write| write.moment)
    }

    /// Returns whether the operation could have had a place alongside others in its group at any
    /// `moment` after its decision and its previous attempt. Of two operations that get their
    /// places at the same time, either may begin first, unless one thread performs all of them.
    fn could_have_place(&self, op: &Op, decided: u64) -> bool {
        let (group, places) = (self.group_of(op), self.options.places());
        let ops = || self.evidence.ops.iter();
        let ended = |other: &Op| other.ended.filter(|ended| *ended < op.began);
        let attempts = ops().filter(|other| other.subject == op.subject).filter_map(ended);
        let is_in_order = self.options.workers == 1;
        let from = if is_in_order { op.began - 1 } else { attempts.fold(decided, u64::max) };
        let mut moments = ops().filter_map(ended).filter(|ended| *ended > from).chain([from]);
        moments.any(|moment| {
            let under_way = || ops().filter(|other| other.is_under_way(moment + 1));
            let has_own = under_way().any(|other| self.group_of(other) == group);
            !has_own || under_way().count() < places - places / 4
        })
    }

    /// Checks that a group does not take places that belong to other groups.
    fn check_places(&self) -> Result<(), TestCaseError> {
        let places = self.options.places();
        if self.options.mode == SinkMode::Batches || places < 2 {
            return Ok(());
        }
        for op in self.evidence.ops {
            let (group, decided) = (self.group_of(op), self.decided(&op.subject, op.event.count));
            // A write that was decided earlier may already have been on its way.
            if self.has_others_since(group) >= decided {
                continue;
            }
            let under_way = self.evidence.ops.iter().filter(|other| other.is_under_way(op.began));
            let under_way: Vec<&str> = under_way.map(|other| self.group_of(other)).collect();
            let own = under_way.iter().filter(|other| **other == group).count();
            let could = own == 0 || self.could_have_place(op, decided);
            prop_assert!(could, "{} of {:?} before {:?}", own, under_way, op);
            let is_new = !self.evidence.ops.iter().any(|other| {
                self.group_of(other) == group && other.ended.is_some_and(|ended| ended < op.began)
            });
            prop_assert!(own == 0 || !is_new, "a new group has {} under way before {:?}", own, op);
            let is_sick =
                |group: &str| self.trouble_since(group, op.began).is_some_and(|since| since < decided);
            if is_sick(group) {
                prop_assert!(own == 0, "a group in trouble has {} under way before {:?}", own, op);
                let sick = under_way.iter().filter(|group| is_sick(group)).count();
                prop_assert!(sick < (places / 2).max(1), "{:?} under way before {:?}", under_way, op);
            }
        }
        Ok(())
    }
}
