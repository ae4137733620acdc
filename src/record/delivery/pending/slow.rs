//! Determines which groups are slow.
//!
//! A group becomes *slow* once one of its operations has run for [`SLOW`] and for [`TIMES`] times
//! the median duration of the other groups' operations. The group stays slow until [`QUICK`]
//! consecutive responses were fast, or until the group has had nothing to write for [`FORGOTTEN`].

use std::time::Duration;

use super::super::breaker::CircuitBreaker;
use super::groups::Groups;
use super::lane::GroupIndex;

/// The time for which an operation must have run before its group can become slow.
const SLOW: Duration = Duration::from_millis(250);
/// The time for which an operation must have run before its group can become slow, if no recent
/// operation belongs to another group.
const SLOW_ALONE: Duration = Duration::from_secs(1);
/// The factor by which a slow group's operations take longer than the operations of other groups.
const TIMES: u32 = 10;
/// The number of consecutive fast responses after which a group is no longer slow.
const QUICK: u8 = 8;
/// The time after which a group that has nothing to write is no longer degraded.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// The number of most recent operations whose durations are kept.
const RECENT: usize = 64;

impl Groups {
    /// Clears the degraded state of the groups that have nothing to write and whose last operation
    /// ended at least [`FORGOTTEN`] ago.
    pub(in super::super) fn forget_troubles(&mut self, now: Duration) {
        for at in (0..self.sick.len()).rev() {
            let group = self.sick[at];
            let entry = self.at_mut(group);
            if entry.keys == 0 && now.saturating_sub(entry.ended_at) >= FORGOTTEN {
                (entry.is_slow, entry.breaker) = (false, CircuitBreaker::default());
                (entry.closed_at, entry.refused_at, entry.missed) = (None, None, 0);
                self.judge_sick(group);
            }
        }
    }

    /// Notes the duration of an operation that has just ended. `is_answer` is true if the store
    /// responded.
    pub(in super::super) fn took(
        &mut self,
        group: GroupIndex,
        took: Duration,
        now: Duration,
        is_answer: bool,
    ) {
        self.at_mut(group).ended_at = now;
        let is_slow = self.is_too_slow(group, took);
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((group, took));
        let entry = self.at_mut(group);
        entry.is_known |= is_answer;
        if entry.is_slow {
            entry.quick = if is_slow.is_some() || !is_answer { 0 } else { entry.quick + 1 };
            if entry.quick >= QUICK {
                (entry.is_slow, entry.quick) = (false, 0);
                self.judge_sick(group);
            }
        } else if let Some(limit) = is_slow {
            self.set_slow(group, limit);
        }
    }

    /// Returns the time after which an operation of this group makes the group slow.
    fn limit(&self, group: GroupIndex) -> Duration {
        let others = self.recent.iter().filter(|(of, _)| *of != group).map(|(_, took)| *took);
        let mut others: Vec<_> = others.collect();
        let middle = others.len() / 2;
        if others.is_empty() {
            return SLOW_ALONE;
        }
        let (_, median, _) = others.select_nth_unstable(middle);
        SLOW.max(median.saturating_mul(TIMES))
    }

    /// Returns the limit that an operation has reached, if the operation makes its group slow.
    fn is_too_slow(&self, group: GroupIndex, took: Duration) -> Option<Duration> {
        if took < SLOW || !self.are_several() {
            return None;
        }
        Some(self.limit(group)).filter(|limit| took >= *limit)
    }

    /// Marks groups as slow if one of their operations has run for too long. `under_way` yields the
    /// group and the start time of each operation. Returns the time at which the next group becomes
    /// slow.
    pub(in super::super) fn judge_slow(
        &mut self,
        under_way: impl Iterator<Item = (GroupIndex, Duration)>,
        now: Duration,
    ) -> Option<Duration> {
        let mut next = None::<Duration>;
        for (group, since) in under_way {
            if self.at(group).is_slow {
                continue;
            }
            // The limit is computed only for long operations.
            let mut limit = SLOW;
            if since.saturating_add(limit) <= now {
                limit = self.limit(group);
            }
            let at = since.saturating_add(limit);
            if at <= now {
                self.set_slow(group, limit);
            } else {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        next
    }

    pub(super) fn set_slow(&mut self, group: GroupIndex, limit: Duration) {
        let entry = self.at_mut(group);
        (entry.is_slow, entry.slow_after, entry.quick) = (true, limit, 0);
        self.judge_sick(group);
    }

    /// Adds the group to the list of degraded groups, or removes the group from that list,
    /// depending on the group's state.
    pub(in super::super) fn judge_sick(&mut self, group: GroupIndex) {
        let (is_sick, listed) = (self.at(group).is_sick(), self.sick.iter().position(|sick| *sick == group));
        match listed {
            None if is_sick => self.sick.push(group),
            Some(at) if !is_sick => {
                self.sick.swap_remove(at);
                let entry = self.at_mut(group);
                if let Some(trouble) = entry.trouble.take() {
                    let name = entry.name.clone();
                    self.recovered.push((name, trouble));
                }
            }
            // The group was closed and served again within one round of responses.
            None => self.at_mut(group).trouble = None,
            Some(_) => {}
        }
    }
}
