//! Held writes, which contain counts that the store does not have yet.
//!
//! If the spam filter stops a repeat, the repeat is held until its count is due to be refreshed.
//! With `update_every`, any repeat that arrives too soon after the last write of its key is held as
//! well. A held write is a pending write that is not in a lane. Later repeats replace the contents
//! of the held write, and the next write of the key replaces the held write. Held events have left
//! the queue, so this module limits the number of held writes.

use std::mem::take;
use std::time::Duration;

use super::super::write::{KeyIndex, Ticket, Write, WriteKey};
use super::PendingWrites;
use super::holds::Hold;
use crate::record::event::Event;

impl PendingWrites {
    /// Returns the maximum number of keys whose writes are held.
    pub(in super::super) fn capacity(&self) -> usize {
        self.holds.pace.capacity
    }

    /// Returns whether any write is held.
    pub(in super::super) fn has_held(&self) -> bool {
        !self.holds.held.is_empty()
    }

    /// Returns the next time at which [`release_due`](Self::release_due) has something to do.
    pub(in super::super) fn next_release(&self) -> Option<Duration> {
        let firsts = [self.holds.held.first(), self.holds.quiet.first()];
        // A write without a release time is released by a flush or when the recording ends.
        firsts.into_iter().flatten().map(|(at, _)| *at).min().filter(|at| *at < Duration::MAX)
    }

    /// Adds a write that the spam filter stopped. If the key has a pending write that is not held,
    /// the new write is merged into that pending write. Otherwise, the new write is held. Returns
    /// the number of events that no longer take up queue capacity.
    pub(in super::super) fn hold(
        &mut self,
        key: WriteKey,
        event: &mut Event,
        ticket: Ticket,
        now: Duration,
    ) -> u64 {
        let at = self.index_of(key, event, &ticket, now);
        if self.is_on_its_way(at) {
            return self.replace(at, event, ticket);
        }
        let until = self.holds.pace.refresh_every.map_or(Duration::MAX, |every| now.saturating_add(every));
        self.hold_until(at, event, ticket, until, now)
    }

    /// Adds a write that may be sent. If the last write of its key was too recent, the write is
    /// held, unless it can be merged into a pending write that is not held.
    pub(super) fn pass(&mut self, at: KeyIndex, event: &mut Event, ticket: Ticket, now: Duration) -> u64 {
        let quiet = self.keys[at as usize].hold.as_ref().and_then(|hold| hold.quiet);
        match quiet.filter(|until| *until > now) {
            Some(until) if !self.is_on_its_way(at) => self.hold_until(at, event, ticket, until, now),
            Some(_) => self.replace(at, event, ticket),
            None => {
                let free = self.replace(at, event, ticket);
                self.set_quiet(at, now);
                free
            }
        }
    }

    /// Returns whether the key has a pending write that is not held.
    fn is_on_its_way(&self, at: KeyIndex) -> bool {
        let state = &self.keys[at as usize];
        state.pending.is_some() && !state.is_held()
    }

    fn hold_until(
        &mut self,
        at: KeyIndex,
        event: &mut Event,
        mut ticket: Ticket,
        until: Duration,
        now: Duration,
    ) -> u64 {
        let (free, offset) = (take(&mut ticket.in_hand), ticket.offset);
        let state = &mut self.keys[at as usize];
        self.idle -= usize::from(state.is_idle());
        let hold = state.hold.get_or_insert_default();
        if let Some(pending) = &mut state.pending {
            pending.absorb(event, &ticket);
            pending.ticket.offset = offset;
        } else {
            state.pending = Some(Write { event: take(event), ticket });
            hold.pending_since = Some(offset);
            self.holds.since.insert((offset, at));
        }
        if hold.until.is_none_or(|before| until < before) {
            if let Some(before) = hold.until.replace(until) {
                self.holds.held.remove(&(before, at));
            }
            self.holds.held.insert((until, at));
        }
        if self.holds.held.len() > self.holds.pace.capacity {
            self.release_first(now);
        }
        free
    }

    /// Removes a write from the held writes. Returns whether the write was held.
    pub(super) fn unhold(&mut self, at: KeyIndex) -> bool {
        let until = self.keys[at as usize].hold.as_mut().and_then(|hold| hold.until.take());
        until.is_some_and(|until| self.holds.held.remove(&(until, at)))
    }

    /// Releases a held write.
    pub(super) fn release(&mut self, at: KeyIndex, now: Duration) {
        if self.unhold(at) {
            self.make_ready(at);
            self.set_quiet(at, now);
        }
    }

    fn release_first(&mut self, now: Duration) {
        if let Some(&(_, at)) = self.holds.held.first() {
            self.release(at, now);
        }
    }

    /// Releases the writes that are due.
    pub(in super::super) fn release_due(&mut self, now: Duration) {
        while let Some(&(_, at)) = self.holds.quiet.first().filter(|(until, _)| *until <= now) {
            self.end_quiet(at);
        }
        while self.holds.held.first().is_some_and(|(until, _)| *until <= now) {
            self.release_first(now);
        }
    }

    /// Releases all held writes.
    pub(in super::super) fn release_all(&mut self, now: Duration) {
        while self.has_held() {
            self.release_first(now);
        }
    }

    /// Notes that a write of the key is sent now.
    fn set_quiet(&mut self, at: KeyIndex, now: Duration) {
        let Some(every) = self.holds.pace.update_every else { return };
        let state = &mut self.keys[at as usize];
        // A series has separate options for the time between its writes.
        let Some(WriteKey::Correlated(_)) = state.key else { return };
        let until = now.saturating_add(every);
        if let Some(before) = state.hold.get_or_insert_default().quiet.replace(until) {
            self.holds.quiet.remove(&(before, at));
        }
        self.holds.quiet.insert((until, at));
        if self.holds.quiet.len() > self.holds.pace.capacity {
            if let Some(&(_, first)) = self.holds.quiet.first() {
                if self.unhold(first) {
                    self.make_ready(first);
                }
                self.end_quiet(first);
            }
        }
    }

    fn end_quiet(&mut self, at: KeyIndex) {
        let state = &mut self.keys[at as usize];
        if let Some(until) = state.hold.as_mut().and_then(|hold| hold.quiet.take()) {
            self.holds.quiet.remove(&(until, at));
            if self.keys[at as usize].is_idle() {
                self.remove_idle(at);
            }
        }
    }

    /// Returns whether the key is kept even if no write is pending.
    pub(super) fn is_quiet(&self, at: KeyIndex) -> bool {
        self.keys[at as usize].hold.as_ref().is_some_and(|hold| hold.quiet.is_some())
    }

    /// Moves the time of the last write to another entry of the same key.
    pub(super) fn move_quiet(&mut self, from: KeyIndex, to: KeyIndex) {
        let quiet = self.keys[from as usize].hold.as_mut().and_then(|hold| hold.quiet.take());
        if let Some(until) = quiet {
            self.holds.quiet.remove(&(until, from));
            self.holds.quiet.insert((until, to));
            self.keys[to as usize].hold.get_or_insert_default().quiet = Some(until);
        }
    }

    /// Notes that the pending write has been given to the sink.
    pub(super) fn note_sent(&mut self, at: KeyIndex) {
        if let Some(hold) = &mut self.keys[at as usize].hold {
            hold.sent_since = hold.pending_since.take();
        }
    }

    /// Notes that the sink has responded to a write with a final result.
    pub(super) fn note_settled(&mut self, at: KeyIndex) {
        if let Some(since) = self.keys[at as usize].hold.as_mut().and_then(|hold| hold.sent_since.take()) {
            self.holds.since.remove(&(since, at));
        }
    }

    /// Notes that a write that was given to the sink is pending again, possibly merged with a later
    /// write.
    pub(super) fn note_back(&mut self, at: KeyIndex) {
        let Some(hold) = &mut self.keys[at as usize].hold else { return };
        match (hold.sent_since.take(), hold.pending_since) {
            (Some(sent), Some(pending)) => {
                self.holds.since.remove(&(sent.max(pending), at));
                hold.pending_since = Some(sent.min(pending));
            }
            (Some(sent), None) => hold.pending_since = Some(sent),
            (None, _) => {}
        }
    }

    /// Removes a key's [`Hold`], together with all of its entries in the lists.
    pub(super) fn end_hold(&mut self, at: KeyIndex) {
        let Some(hold) = self.keys[at as usize].hold.take() else { return };
        let Hold { until, quiet, pending_since, sent_since } = *hold;
        if let Some(until) = until {
            self.holds.held.remove(&(until, at));
        }
        if let Some(until) = quiet {
            self.holds.quiet.remove(&(until, at));
        }
        for since in [pending_since, sent_since].into_iter().flatten() {
            self.holds.since.remove(&(since, at));
        }
    }

    /// Notes that the pending write was removed without being given to the sink.
    pub(super) fn note_gone(&mut self, at: KeyIndex) {
        if let Some(since) = self.keys[at as usize].hold.as_mut().and_then(|hold| hold.pending_since.take()) {
            self.holds.since.remove(&(since, at));
        }
    }
}
