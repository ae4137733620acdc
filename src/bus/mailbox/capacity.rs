//! A mailbox's capacity, from the perspective of the threads and tasks waiting for it. The waiting
//! side is either a dispatcher that has already offered the events, or the publishers of an inline
//! bus. An inline bus accepts an event only if every mailbox that must not lose the event has
//! capacity for it.

use crate::bus::counters::DropReason;
use crate::bus::policy::OverflowPolicy;
use crate::bus::state::BusState;
use crate::clock::{Clock, Deadline};

use super::sender::MailboxSender;

/// The state of a publish call that is waiting for capacity.
#[derive(Debug, Default)]
pub(crate) struct Call {
    /// The ids of the watchers whose filters have been run on the first event, each with its
    /// filter's decision.
    decisions: Vec<(u64, bool)>,
    /// The earliest time at which one of the blocking watchers will begin to lose events. `None` if
    /// none of the blocking watchers will lose events.
    pub(crate) until: Deadline,
}

impl Call {
    /// Returns whether any filter has been run.
    pub(crate) fn has_asked(&self) -> bool {
        !self.decisions.is_empty()
    }

    /// Clears the filters' decisions, because the call's first event has changed.
    pub(crate) fn begin_anew(&mut self) {
        self.decisions.clear();
    }

    /// Begins an attempt to publish.
    pub(crate) fn begin(&mut self) {
        self.until = None;
    }

    fn waits_until(&mut self, at: Deadline) {
        self.until = self.until.into_iter().chain(at).min();
    }
}

/// A mailbox's capacity for the events in a publish call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// The watcher has capacity for this many events, or loses the events that do not fit.
    For(usize),
    /// The watcher has no capacity, but its filter might refuse the event.
    IfFiltered,
    /// The watcher has no capacity.
    Full,
}

impl<T> MailboxSender<T> {
    // ── for a dispatcher ──

    /// Starts the time limit for the pending events, because the dispatcher is now waiting for
    /// capacity.
    pub(crate) fn begin_to_wait(&mut self, clock: &Clock) {
        if let OverflowPolicy::WaitFor(limit) = self.state.policy {
            self.deadline = clock.deadline(limit);
        }
    }

    /// Requests a wake-up from the reader once there is capacity for all pending events, or once
    /// half the queue is free, whichever happens first. Waking the dispatcher at the first free
    /// slot would cost one wake-up per event.
    pub(crate) fn want_room(&self) {
        let pending: usize = self.pending.iter().map(|part| part.range.len()).sum();
        let need = (pending as u64).min((self.state.capacity() / 2).max(1));
        // If the reader is being dropped, its queue may already have been emptied, and the
        // difference may be negative. If the difference is negative, the dispatcher does not have
        // to wait.
        self.state.want_room((self.sent.queued + need).saturating_sub(self.state.capacity()));
    }

    /// Returns whether the reader has freed the requested capacity.
    pub(crate) fn found_room(&self) -> bool {
        self.state.is_room_wanted(self.state.consumed())
    }

    /// Drops the pending events if the watcher has been stopped, the bus has been abandoned, or the
    /// deadline has passed.
    pub(crate) fn give_up_pending(&mut self, clock: &Clock, abandon: bool) {
        let reason = if self.state.is_stopped() && !self.state.has_given_up() {
            DropReason::Stopped
        } else if abandon {
            DropReason::Abandoned
        } else if clock.has_passed(self.deadline) {
            DropReason::TimedOut
        } else {
            return;
        };
        self.lose_pending(reason);
    }

    // ── for an inline bus ──

    /// Returns whether publishers have to wait while this mailbox is full.
    fn waits(&mut self) -> bool {
        self.state.policy.waits() && !self.state.is_stopped()
    }

    /// Returns the capacity for the events in a publish call. If there is no capacity and the
    /// policy is `WaitFor`, also starts the policy's time limit, unless the limit has already been
    /// started. Once the limit has passed, the watcher loses events.
    pub(crate) fn room(&mut self, clock: &Clock, call: &mut Call) -> Room {
        let room = self.look(clock);
        if let (Room::Full | Room::IfFiltered, OverflowPolicy::WaitFor(limit)) = (room, self.state.policy) {
            if !self.is_full {
                self.is_full = true;
                self.deadline = clock.deadline(limit);
            }
            call.waits_until(self.deadline);
        }
        room
    }

    /// Returns the capacity for events, for a caller that does not publish any events.
    pub(crate) fn look(&mut self, clock: &Clock) -> Room {
        if !self.waits() {
            return Room::For(usize::MAX);
        }
        let credit = self.credit(usize::MAX);
        if credit > 0 {
            self.is_full = false;
            return Room::For(credit);
        }
        let is_overdue = match self.state.policy {
            OverflowPolicy::WaitFor(limit) if !self.is_full => limit.is_zero(),
            OverflowPolicy::WaitFor(_) => clock.has_passed(self.deadline),
            _ => false,
        };
        if is_overdue {
            Room::For(usize::MAX)
        } else if self.filter.is_some() {
            Room::IfFiltered
        } else {
            Room::Full
        }
    }

    /// Runs the filter on an event for which there is no capacity, but only once per publish call.
    /// Returns whether the filter refuses the event.
    pub(crate) fn refuses(&mut self, event: &T, bus: &BusState, call: &mut Call) -> bool {
        let id = self.state.id;
        let known = call.decisions.iter().find(|(watcher, _)| *watcher == id).map(|(_, wants)| *wants);
        let wants = known.unwrap_or_else(|| {
            let Some(filter) = &mut self.filter else { return true };
            let wants = self.state.run_user_code(|| filter(event));
            if wants.is_none() {
                // If a filter panics, its watcher is stopped, as it is when events are offered.
                self.state.count_panic();
                bus.stop_offering(&self.state);
            }
            let wants = wants.unwrap_or(false);
            call.decisions.push((id, wants));
            wants
        });
        !wants
    }

    /// Called when the bus has accepted the event. Records the filter's decision, if the filter has
    /// already been run on the event in this call.
    pub(crate) fn set_judged(&mut self, call: &Call) {
        let id = self.state.id;
        let decision = call.decisions.iter().find(|(watcher, _)| *watcher == id);
        self.judged = decision.map(|(_, wants)| *wants);
    }

    /// Requests a wake-up from the reader once there is capacity for `events` events, or once half
    /// the queue is free, whichever happens first. If a request for an earlier wake-up is already
    /// pending, keeps that request.
    pub(crate) fn wish_for(&mut self, events: usize) {
        let need = (events as u64).min((self.state.capacity() / 2).max(1));
        let at = (self.sent.queued + need).saturating_sub(self.state.capacity());
        self.state.wish_for_room(at);
    }
}
