//! Determines whether the store is available and which groups it serves, and reports changes.

use std::time::Duration;

use crate::record::event::Timestamp;
use crate::record::stats::{DegradedGroup, SinkFailure};
use crate::remote_state::RemoteState;

use super::super::outage::Outage;
use super::super::pending::{GroupIndex, Trouble};
use super::{Driver, SILENCE};

/// The maximum number of degraded groups that the statistics list.
const LISTED: usize = 16;

impl Driver {
    /// Ends a round of responses. If the store is unavailable, sets the time at which the store's
    /// next probe is due, and does the same for each unavailable group.
    pub(super) fn end_round(&mut self) {
        if let Some((rounds, wait)) = self.breaker.end_round() {
            let until = self.moment_after(self.retry.pause(rounds, wait));
            self.breaker.wait(until);
            self.log_outage();
        }
        for group in std::mem::take(&mut self.judged) {
            let breaker = &mut self.pending.groups.at_mut(group).breaker;
            if let Some((rounds, wait)) = breaker.end_round() {
                let until = self.clock.deadline(self.retry.pause(rounds, wait)).unwrap_or(Duration::MAX);
                breaker.wait(until);
                if !self.pending.groups.are_several() {
                    self.log_outage();
                }
            }
            self.pending.groups.judge_sick(group);
        }
    }

    fn log_outage(&mut self) {
        if let Some(SinkFailure { text, since, .. }) = &self.tally.last_failure {
            let outage = Outage { recording: &self.name, group: None, since: *since, cause: Some(text) };
            self.alerts.log(&self.clock, &outage);
        }
    }

    /// Determines whether the store is available, and reports any change. Once the recording is
    /// done, no event is waiting for the store, so the store no longer counts as unavailable.
    pub(super) fn judge_store(&mut self, is_done: bool) {
        let silent_since = self.silent_since();
        let known = self.tally.unavailable_since;
        let away_since = self.breaker.since().into_iter().chain(self.groups_away_since()).min();
        // Only a response ends an outage. A new group, or an attempt that ends without a response,
        // does not end an outage.
        let found = away_since.into_iter().chain(silent_since).min();
        if found.is_some() {
            self.away_at = self.answers;
        }
        let since = match found.or(known.filter(|_| self.away_at == self.answers)) {
            Some(since) if !is_done => Some(known.map_or(since, |known| known.min(since))),
            _ => None,
        };
        self.tally.unavailable_since = since;
        match (known, since) {
            (None, Some(since)) => {
                if away_since.is_none() {
                    let text = format!("no response from the sink for {} s", SILENCE.as_secs());
                    self.tally.last_failure = Some(SinkFailure { text, since, attempts: 1 });
                    self.log_outage();
                }
                if let Some(SinkFailure { text, .. }) = &self.tally.last_failure {
                    let outage = Outage { recording: &self.name, group: None, since, cause: Some(text) };
                    self.tally.panics += u64::from(self.alerts.report(&self.clock, &outage));
                }
            }
            // When the recording ends, the store may still be unavailable, so the end of the outage
            // is not reported.
            (Some(since), None) if !is_done => {
                self.pending.groups.probe_closed();
                self.has_new_groups = true;
                let outage = Outage { recording: &self.name, group: None, since, cause: None };
                self.tally.panics += u64::from(self.alerts.report(&self.clock, &outage));
            }
            _ => {}
        }
        self.judge_state(is_done);
        self.judge_groups(is_done);
    }

    fn judge_state(&mut self, is_done: bool) {
        let groups = &self.pending.groups;
        let is_refused = || groups.sick().iter().any(|group| groups.at(*group).refused_at.is_some());
        let state = match self.tally.unavailable_since {
            _ if is_done => RemoteState::Ended,
            Some(_) if is_refused() => RemoteState::Refused,
            Some(_) => RemoteState::Unavailable,
            None if self.answers == 0 => RemoteState::Connecting,
            None => RemoteState::Ready,
        };
        if state != self.tally.state {
            self.tally.state = state;
            self.tally.state_since = Some(self.clock.now().into());
        }
    }

    /// Returns the time since which the store has not responded for any group. Returns `None`
    /// unless at least two groups, or the only group, have been closed, and the store has not
    /// responded to any operation since then.
    fn groups_away_since(&self) -> Option<Timestamp> {
        let groups = &self.pending.groups;
        let sick = groups.sick().iter().map(|group| groups.at(*group));
        let silent = sick.filter(|group| group.is_closed() && group.closed_at == Some(self.answers));
        let since = silent.clone().filter_map(|group| group.breaker.since()).min();
        since.filter(|_| !groups.are_several() || silent.count() > 1)
    }

    /// Returns the time since which the sink has not responded to any operation, if the silence has
    /// lasted for at least [`SILENCE`].
    fn silent_since(&self) -> Option<Timestamp> {
        if self.answered.is_some_and(|(at, _)| !self.has_lasted(at, SILENCE)) {
            return None;
        }
        let (at, since) = self.silence()?;
        self.has_lasted(at, SILENCE).then_some(since)
    }

    /// Returns the time at which the sink will have been silent for too long if the sink has not
    /// responded by then. Returns `None` if there is no such time, for example if the clock is
    /// fake, if no operation is in progress, or if the store already counts as unavailable. If the
    /// returned time has passed since the last [judgement](Self::judge_store), the driver's sleep
    /// ends immediately.
    pub(super) fn silence_begins(&self) -> Option<Duration> {
        if self.clock.is_fake() || self.pending.in_flight() == 0 {
            return None;
        }
        let last = self.answered.map(|(at, _)| at).filter(|at| !self.has_lasted(*at, SILENCE));
        let at = last.or_else(|| Some(self.silence()?.0))?;
        let is_told = self.tally.unavailable_since.is_some() && self.has_lasted(at, SILENCE);
        (!is_told).then(|| at.saturating_add(SILENCE))
    }

    /// Returns the time since which the sink has not responded to any operation although an
    /// operation is in progress.
    fn silence(&self) -> Option<(Duration, Timestamp)> {
        let groups = &self.pending.groups;
        if groups.are_several() {
            // An operation that began before the last response, or when its group was degraded,
            // does not indicate the state of the store. While the other groups have nothing to
            // send, a single waiting group does not indicate the state of the store either.
            let answered = self.answered.map_or(Duration::ZERO, |(at, _)| at);
            let well = || self.pending.under_way().filter(|op| !op.was_sick);
            let first = well().filter(|op| op.since.0 >= answered).min_by_key(|op| op.since)?;
            let has_others = well().any(|op| op.group != first.group) || groups.have_others(first.group);
            return has_others.then_some(first.since);
        }
        let first = self.pending.under_way().min_by_key(|op| op.since)?;
        Some(self.answered.map_or(first.since, |answered| answered.max(first.since)))
    }

    /// Returns whether a call to the sink that began at `since` has lasted for at least `time`. A
    /// call takes real time, which a fake clock does not measure.
    pub(super) fn has_lasted(&self, since: Duration, time: Duration) -> bool {
        !self.clock.is_fake() && self.has_passed(since.saturating_add(time))
    }

    // ── groups ──

    /// Returns the time at which the next closed group may be probed.
    pub(super) fn next_probe(&self) -> Option<Duration> {
        if self.pending.groups.sick().is_empty() || self.free_places() == 0 {
            return None;
        }
        // If a group's probe was due when the driver last gave work to the writers, the group was
        // either probed then, or no slot was free for the probe.
        self.pending.groups.next_probe(self.looked_at)
    }

    /// Finds the slow groups, and reports the groups that have become degraded or have recovered.
    fn judge_groups(&mut self, is_done: bool) {
        if !self.pending.groups.are_several() {
            return;
        }
        let now = self.moment_after(Duration::ZERO);
        self.slow_at = self.pending.judge_slow(now);
        self.pending.groups.forget_troubles(now);
        for (group, trouble) in self.pending.groups.take_recovered() {
            self.has_new_groups = true;
            if trouble.is_told && !is_done {
                let (group, since) = (Some(&*group), trouble.since);
                let outage = Outage { recording: &self.name, group, since, cause: None };
                self.tally.panics += u64::from(self.alerts.report(&self.clock, &outage));
            }
        }
        // An outage of the store is reported once, and not for each of its groups.
        if self.tally.unavailable_since.is_none() && !is_done {
            for at in 0..self.pending.groups.sick().len() {
                let group = self.pending.groups.sick()[at];
                self.tell(group);
            }
        }
    }

    /// Reports once that a group is degraded. If a group was closed during an outage of the store,
    /// the group is probed before it is reported, provided that a slot is available for the probe.
    fn tell(&mut self, group: GroupIndex) {
        let now = Timestamp::from(self.clock.now());
        let has_no_probe = self.pending.groups.slow_have_places(self.writers.places(true));
        let entry = self.pending.groups.at_mut(group);
        let is_known = entry.trouble.as_ref().is_some_and(|trouble| !trouble.was_store);
        if !is_known && !entry.is_closed() {
            // The limit may be derived from a median, which is precise to the nanosecond, so the
            // limit is shown only in milliseconds.
            let text = format!("an operation has taken more than {} ms", entry.slow_after.as_millis());
            entry.trouble = Some(Box::new(Trouble { since: now, text, is_told: false, was_store: false }));
        }
        let Some(trouble) = entry.trouble.as_mut().filter(|trouble| has_no_probe || !trouble.was_store)
        else {
            return;
        };
        trouble.was_store = false;
        if std::mem::replace(&mut trouble.is_told, true) {
            return;
        }
        self.has_new_groups = true;
        let (group, cause) = (Some(&*entry.name), Some(&*trouble.text));
        let outage = Outage { recording: &self.name, group, since: trouble.since, cause };
        self.tally.panics += u64::from(self.alerts.report(&self.clock, &outage));
    }

    /// Returns the degraded groups for the statistics.
    pub(super) fn degraded_groups(&self) -> Vec<DegradedGroup> {
        let groups = &self.pending.groups;
        let sick = groups.sick().iter().map(|group| groups.at(*group)).filter_map(|group| {
            let Trouble { since, text, .. } =
                &**group.trouble.as_ref().filter(|trouble| !trouble.was_store)?;
            Some(DegradedGroup { group: group.name.to_string(), since: *since, text: text.clone() })
        });
        if groups.are_several() { sick.take(LISTED).collect() } else { Vec::new() }
    }
}
