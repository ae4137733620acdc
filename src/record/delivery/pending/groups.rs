//! The groups of a recording's events, and the rules that determine which group may use a slot now.
//! A slot (see `Places`) allows one operation to be in progress.
//!
//! The sink determines the group of each event. A group is degraded (see `is_sick`) if the group is
//! slow or closed. Degraded groups get a bounded share of the operations in progress and of the
//! waiting writes:
//!
//! - A group is *slow* if its operations take too long ([`slow`](super::slow)).
//! - A group is *closed* while its breaker is open.
//! - Together, the degraded groups may use half of all slots. Each degraded group may use one slot,
//!   and the degraded groups take turns. A new group may use one slot until the group receives its
//!   first response. Any other group may use a quarter of the slots or, if only degraded groups
//!   also have something to send, all slots. In both cases, a quarter of the slots remains reserved
//!   for groups that are not degraded and have no operation in progress.
//! - Each group has a share of the waiting writes, and the degraded groups together have twice that
//!   share. A group that is not degraded may exceed its share while the queue is empty enough.
//!
//! While there is only one group, that group may use all slots and the whole queue.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use crate::catch::catch_panic;
use crate::record::event::{Event, Text, Timestamp};
use crate::record::sink::EventSink;
use crate::sync::Arc;

use super::super::breaker::{BreakerState, CircuitBreaker};
use super::lane::{Entry, GroupIndex, KeyState, Lane};

/// The number of groups that are kept although they have nothing to write.
const KEPT: usize = 1024;

/// A group.
#[derive(Default)]
pub(in super::super) struct Group {
    pub(in super::super) name: Text,
    /// The writes that are ready (`lane`), and the number of these writes (`ready`).
    pub(super) lane: Lane,
    pub(super) ready: usize,
    /// The number of keys (`keys`), of writes that count against the share (`load`), and of
    /// operations in progress (`under_way`).
    pub(super) keys: usize,
    pub(super) load: u64,
    under_way: usize,
    /// Whether the group has received a response.
    pub(super) is_known: bool,
    pub(super) is_slow: bool,
    /// The time limit that an operation reached when it made the group slow.
    pub(in super::super) slow_after: Duration,
    pub(super) quick: u8,
    pub(in super::super) breaker: CircuitBreaker,
    /// The number of responses to the group so far.
    pub(in super::super) answers: u64,
    /// The number of responses that all groups together had received when this group was closed.
    /// `None` while this group is not closed.
    pub(in super::super) closed_at: Option<u64>,
    /// The time of the first refusal since the store last served the group.
    pub(in super::super) refused_at: Option<Duration>,
    /// The number of consecutive operations that the store did not serve, either because the store
    /// did not respond or because it refused the operations as forbidden.
    pub(in super::super) missed: u32,
    /// The reason why the group is degraded, and the time at which that began. `None` while the
    /// group is not degraded.
    pub(in super::super) trouble: Option<Box<Trouble>>,
    /// The time at which an operation of the group last ended.
    pub(super) ended_at: Duration,
    /// The value of `answers` when the store last refused to serve the group.
    pub(in super::super) refused_answers: u64,
    /// The position in the order in which groups became idle. `None` while the group is not idle.
    idle_since: Option<u64>,
}

/// The reason why a group is degraded.
#[derive(Clone, Debug)]
pub(in super::super) struct Trouble {
    pub(in super::super) since: Timestamp,
    pub(in super::super) text: String,
    /// Whether the outage hook has been called.
    pub(in super::super) is_told: bool,
    /// Whether the trouble was part of an outage of the store that has ended. The trouble is
    /// attributed to the group only if a probe fails, or if there is no slot for a probe.
    pub(in super::super) was_store: bool,
}

impl Group {
    pub(in super::super) fn is_closed(&self) -> bool {
        self.breaker.since().is_some()
    }

    pub(in super::super) fn is_sick(&self) -> bool {
        self.is_slow || self.is_closed()
    }
}

/// A group's share of the waiting writes, once other groups are known.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Share {
    pub(in super::super) of_one: u64,
    /// A group that is not degraded may exceed its share while fewer than this number of writes are
    /// waiting in total.
    pub(in super::super) lent: u64,
}

/// The slots for operations that may be in progress at the same time.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Places {
    pub(in super::super) total: usize,
    pub(in super::super) free: usize,
    /// Whether each write should be attempted once, regardless of the state of its group.
    pub(in super::super) is_ending: bool,
}

#[derive(Default)]
pub(in super::super) struct Groups {
    /// The sink, which determines each event's group. `None` if there is only one group.
    sink: Option<Arc<dyn EventSink>>,
    list: Vec<Group>,
    free: Vec<GroupIndex>,
    by_name: HashMap<Text, GroupIndex, ahash::RandomState>,
    /// The group with an empty name, which is the only group of most sinks.
    unnamed: Option<GroupIndex>,
    /// The groups with ready writes, in the order of their turns.
    turn: VecDeque<GroupIndex>,
    pub(super) sick: Vec<GroupIndex>,
    /// The groups that were degraded, each with the reason why it was degraded.
    pub(super) recovered: Vec<(Text, Box<Trouble>)>,
    idle: BTreeSet<(u64, GroupIndex)>,
    stamp: u64,
    /// The durations of the last operations.
    pub(super) recent: VecDeque<(GroupIndex, Duration)>,
}

impl Groups {
    pub(super) fn new(sink: Option<Arc<dyn EventSink>>) -> Self {
        Self { sink, ..Self::default() }
    }

    /// Returns whether more than one group is known.
    pub(in super::super) fn are_several(&self) -> bool {
        self.by_name.len() > 1
    }

    pub(in super::super) fn at(&self, group: GroupIndex) -> &Group {
        &self.list[group as usize]
    }

    pub(in super::super) fn at_mut(&mut self, group: GroupIndex) -> &mut Group {
        &mut self.list[group as usize]
    }

    /// Returns an event's group. Adds the group if it is new.
    pub(super) fn of(&mut self, event: &Event) -> GroupIndex {
        let name = match &self.sink {
            Some(sink) => catch_panic(|| sink.group(event)).unwrap_or_default(),
            None => "",
        };
        if name.is_empty() {
            if let Some(group) = self.unnamed {
                return group;
            }
        }
        match self.by_name.get(name) {
            Some(group) => *group,
            None => self.add(Text::from(name)),
        }
    }

    fn add(&mut self, name: Text) -> GroupIndex {
        if self.idle.len() >= KEPT {
            if let Some((_, group)) = self.idle.pop_first() {
                self.forget(group);
            }
        }
        let group = Group { name: name.clone(), ..Group::default() };
        let at = self.free.pop().unwrap_or(self.list.len() as GroupIndex);
        match self.list.get_mut(at as usize) {
            Some(free) => *free = group,
            None => self.list.push(group),
        }
        if name.is_empty() {
            self.unnamed = Some(at);
        }
        self.by_name.insert(name, at);
        self.mark_idle(at);
        at
    }

    fn forget(&mut self, group: GroupIndex) {
        let name = std::mem::take(&mut self.list[group as usize].name);
        if name.is_empty() {
            self.unnamed = None;
        }
        self.by_name.remove(&name);
        if let Some(trouble) = self.list[group as usize].trouble.take() {
            self.recovered.push((name, trouble));
        }
        self.sick.retain(|sick| *sick != group);
        self.recent.retain(|(of, _)| *of != group);
        self.list[group as usize] = Group::default();
        self.free.push(group);
    }

    fn mark_idle(&mut self, group: GroupIndex) {
        self.stamp += 1;
        self.list[group as usize].idle_since = Some(self.stamp);
        self.idle.insert((self.stamp, group));
    }

    // ── keys and writes ──

    pub(super) fn add_key(&mut self, group: GroupIndex) {
        let entry = &mut self.list[group as usize];
        entry.keys += 1;
        if let Some(since) = entry.idle_since.take() {
            self.idle.remove(&(since, group));
        }
    }

    pub(super) fn remove_key(&mut self, group: GroupIndex) {
        let entry = &mut self.list[group as usize];
        entry.keys -= 1;
        if entry.keys == 0 {
            self.mark_idle(group);
        }
    }

    /// Notes that a write of the group has become ready.
    pub(super) fn add_ready(&mut self, group: GroupIndex) {
        let entry = &mut self.list[group as usize];
        entry.ready += 1;
        if entry.ready == 1 {
            self.turn.push_back(group);
        }
    }

    /// Notes that a write of the group is no longer ready.
    pub(super) fn remove_ready(&mut self, group: GroupIndex) {
        let entry = &mut self.list[group as usize];
        entry.ready -= 1;
        if entry.ready == 0 {
            // Usually, this group is the last group in the queue, because it has just had its turn.
            if self.turn.back() == Some(&group) {
                self.turn.pop_back();
            } else {
                self.turn.retain(|other| *other != group);
            }
        }
    }

    /// Clears the entries of one lane or of all lanes. The lanes to be cleared must not have any
    /// ready writes.
    pub(super) fn clear_lanes(&mut self, group: Option<GroupIndex>) {
        match group {
            Some(group) => self.at_mut(group).lane = Lane::default(),
            None => self.list.iter_mut().for_each(|group| group.lane = Lane::default()),
        }
    }

    /// Returns the ready write with the lowest offset.
    pub(super) fn first_write(&mut self, keys: &[KeyState]) -> Option<Entry> {
        let Self { turn, list, .. } = self;
        turn.iter().filter_map(|group| list[*group as usize].lane.next(keys)).min()
    }

    /// Returns whether the group may have another waiting write. All degraded groups together have
    /// twice the share of one group.
    pub(super) fn has_room(&self, group: GroupIndex, share: Share, waiting: u64) -> bool {
        let entry = self.at(group);
        if !self.are_several() {
            return true;
        }
        if !entry.is_sick() {
            return entry.load < share.of_one || waiting < share.lent;
        }
        let of_sick = || self.sick.iter().map(|sick| self.at(*sick).load).sum::<u64>();
        entry.load < share.of_one && of_sick() < share.of_one.saturating_mul(2)
    }

    // ── slots ──

    /// Chooses the group that gets the next slot. Returns the group, and whether the group's
    /// operation is a probe. Returns `None` if no group may use a slot.
    pub(super) fn next(
        &mut self,
        places: Places,
        has_passed: impl Fn(Duration) -> bool,
    ) -> Option<(GroupIndex, bool)> {
        if places.free == 0 {
            return None;
        }
        let sick = || self.sick.iter().map(|sick| self.at(*sick));
        let of_sick: usize = sick().map(|sick| sick.under_way).sum();
        // Degraded groups have a separate share, so they are not counted here.
        let is_alone = self.turn.len() - sick().filter(|sick| sick.ready > 0).count() <= 1;
        for _ in 0..self.turn.len() {
            let group = self.turn.pop_front()?;
            self.turn.push_back(group);
            if let Some(is_probe) = self.admits(group, places, (of_sick, is_alone), &has_passed) {
                return Some((group, is_probe));
            }
        }
        None
    }

    /// Returns whether a group may use a slot and, if so, whether the group's operation is a probe.
    fn admits(
        &self,
        group: GroupIndex,
        places: Places,
        (of_sick, is_alone): (usize, bool),
        has_passed: impl Fn(Duration) -> bool,
    ) -> Option<bool> {
        let entry = self.at(group);
        let state = entry.breaker.state(|| entry.under_way == 0, has_passed);
        let is_probe = match state {
            BreakerState::Closed => false,
            _ if places.is_ending => false,
            BreakerState::HalfOpen => true,
            BreakerState::Open(_) => return None,
        };
        if !self.are_several() {
            return Some(is_probe);
        }
        let Places { total, free, .. } = places;
        let quarter = (total / 4).max(1);
        let may = if entry.is_sick() {
            entry.under_way == 0 && of_sick < (total / 2).max(1)
        } else if entry.under_way == 0 {
            true
        } else if !entry.is_known {
            false
        } else {
            let most = if is_alone { total } else { quarter };
            entry.under_way < most && free > quarter
        };
        may.then_some(is_probe)
    }

    /// Notes that an operation begins.
    pub(super) fn begin(&mut self, group: GroupIndex) {
        self.at_mut(group).under_way += 1;
        self.at_mut(group).load += 1;
    }

    /// Notes that an operation has ended.
    pub(super) fn end(&mut self, group: GroupIndex) {
        self.at_mut(group).under_way -= 1;
        self.at_mut(group).load -= 1;
    }

    /// Returns whether any other group that is not degraded has something to send.
    pub(in super::super) fn have_others(&self, group: GroupIndex) -> bool {
        self.turn.iter().any(|other| *other != group && !self.at(*other).is_sick())
    }

    /// Returns the groups that were degraded, each with the reason why it was degraded.
    pub(in super::super) fn take_recovered(&mut self) -> Vec<(Text, Box<Trouble>)> {
        std::mem::take(&mut self.recovered)
    }

    /// Returns the degraded groups.
    pub(in super::super) fn sick(&self) -> &[GroupIndex] {
        &self.sick
    }

    /// Returns the time at which the next closed group may be probed.
    pub(in super::super) fn next_probe(&self, now: Duration) -> Option<Duration> {
        let ready = self.sick.iter().map(|group| self.at(*group)).filter(|group| group.ready > 0);
        let until = ready.filter_map(|group| match group.breaker.state(|| true, |at| at <= now) {
            BreakerState::Open(until) => until,
            _ => None,
        });
        until.min()
    }

    /// Clears the times at which the store began to refuse groups.
    pub(in super::super) fn forget_refusals(&mut self) {
        for group in &self.sick {
            self.list[*group as usize].refused_at = None;
        }
    }

    /// Allows each closed group to be probed now, because the store is available again. If a group
    /// was not reported separately, its failures were part of the store's outage.
    pub(in super::super) fn probe_closed(&mut self) {
        for group in &self.sick {
            let entry = &mut self.list[*group as usize];
            entry.breaker.end_wait();
            if let Some(trouble) = entry.trouble.as_mut().filter(|trouble| !trouble.is_told) {
                trouble.was_store = true;
            }
        }
    }

    /// Returns whether slow groups are using all slots that degraded groups may use. If so, the
    /// probe of a closed group waits until an operation of a slow group ends.
    pub(in super::super) fn slow_have_places(&self, total: usize) -> bool {
        let slow = self.sick.iter().map(|sick| self.at(*sick)).filter(|group| group.is_slow);
        slow.map(|group| group.under_way).sum::<usize>() >= (total / 2).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sink with a group for each reason.
    struct PerReason;

    impl EventSink for PerReason {
        fn create(&self, event: &Event) -> Result<Event, crate::SinkError> {
            Ok(event.clone())
        }

        fn patch(&self, event: &Event) -> Result<Event, crate::SinkError> {
            Ok(event.clone())
        }

        fn group<'e>(&self, event: &'e Event) -> &'e str {
            &event.reason
        }
    }

    #[test]
    fn groups_with_nothing_to_write_are_forgotten_when_there_are_many() {
        let mut groups = Groups::new(Some(Arc::new(PerReason)));
        let event = |number: usize| {
            let mut event = Event::default();
            event.reason = number.to_string().into();
            event
        };
        // This group has something to write.
        let kept = groups.of(&event(0));
        groups.add_key(kept);
        for number in 1..10 * KEPT {
            let group = groups.of(&event(number));
            groups.add_key(group);
            groups.set_slow(group, Duration::from_secs(1));
            groups.remove_key(group);
        }
        assert_eq!(groups.of(&event(0)), kept);
        assert!(groups.list.len() <= KEPT + 2, "{}", groups.list.len());
        assert_eq!((groups.by_name.len(), groups.idle.len()), (KEPT + 1, KEPT));
        assert!(groups.sick.len() <= KEPT);
    }
}
