//! A circuit breaker, which stops writes while a store is unavailable, either as a whole or for a
//! group of events.
//!
//! The store's breaker opens when the sink reports that the store itself is unavailable
//! ([`SinkErrorKind::Unavailable`]). A group's breaker opens when the store does not respond for
//! the group ([`SinkErrorKind::GroupUnavailable`]) or refuses to serve the group
//! ([`SinkErrorKind::Forbidden`]). For a breaker, such a refusal does not count as a response. Any
//! response closes the breaker. While a breaker is open, the driver sends no writes to the store or
//! for the group, except for one probe after each pause. Breakers are ignored while the recording
//! is ending. Any other failure affects only the key of the failed write.
//!
//! [`SinkErrorKind::Forbidden`]: crate::sink::SinkErrorKind::Forbidden
//! [`SinkErrorKind::GroupUnavailable`]: crate::sink::SinkErrorKind::GroupUnavailable
//! [`SinkErrorKind::Unavailable`]: crate::sink::SinkErrorKind::Unavailable

use std::time::Duration;

use crate::record::event::Timestamp;

#[derive(Default)]
pub(super) struct CircuitBreaker {
    /// The time of day at which the breaker opened. `None` while the breaker is closed.
    since: Option<Timestamp>,
    /// The number of attempts without a response since the breaker opened.
    attempts: u64,
    /// The number of rounds without a response since the breaker opened.
    rounds: u32,
    /// The time when the next probe is due.
    until: Duration,
    /// Whether the store responded in the current round.
    has_answered: bool,
    /// Whether the store failed to respond to an attempt in the current round.
    has_missed: bool,
    /// The longest back-off that the store requested in the current round.
    wait: Option<Duration>,
}

/// The state of the breaker, which determines what may be written now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BreakerState {
    Closed,
    /// One write may be sent, to find out whether the store is available again.
    HalfOpen,
    /// Nothing may be written until the given time. With `None`, nothing may be written while an
    /// attempt in progress may still get a response.
    Open(Option<Duration>),
}

impl CircuitBreaker {
    /// Notes that the store did not respond. `opens` is true if the missing response opens a closed
    /// breaker.
    pub(super) fn missed(&mut self, now: Timestamp, wait: Option<Duration>, opens: bool) {
        if opens || self.since.is_some() {
            self.since.get_or_insert(now);
            self.attempts += 1;
            self.has_missed = true;
            self.wait = self.wait.max(wait);
        }
    }

    /// Notes that the store responded. One response counts for the whole round, so that a single
    /// broken connection among several does not open the breaker.
    pub(super) fn answered(&mut self) {
        self.has_answered = true;
    }

    /// Ends a round of responses. If the breaker is open and some attempt in the round had no
    /// response, returns the number of such consecutive rounds, and the back-off that the store
    /// requested. Otherwise, returns `None`.
    pub(super) fn end_round(&mut self) -> Option<(u32, Option<Duration>)> {
        if self.has_answered {
            *self = Self::default();
        }
        let wait = self.wait.take();
        if !std::mem::take(&mut self.has_missed) {
            return None;
        }
        self.rounds = self.rounds.saturating_add(1);
        Some((self.rounds, wait))
    }

    /// Delays the next probe until the given time, or until a later time that an earlier round set.
    pub(super) fn wait(&mut self, until: Duration) {
        self.until = self.until.max(until);
    }

    /// Makes the next probe due immediately.
    pub(super) fn end_wait(&mut self) {
        self.until = Duration::ZERO;
    }

    /// Returns the time of day at which the breaker opened, or `None` while the breaker is closed.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.since
    }

    pub(super) fn attempts(&self) -> u64 {
        self.attempts
    }

    /// Returns the state of the breaker, which determines what may be written now. `is_idle` must
    /// return `true` if no attempt is in progress whose response is worth waiting for.
    pub(super) fn state(
        &self,
        is_idle: impl FnOnce() -> bool,
        has_passed: impl Fn(Duration) -> bool,
    ) -> BreakerState {
        match self.since {
            None => BreakerState::Closed,
            Some(_) if !has_passed(self.until) => BreakerState::Open(Some(self.until)),
            // An attempt in progress may still get a response.
            Some(_) if !is_idle() => BreakerState::Open(None),
            Some(_) => BreakerState::HalfOpen,
        }
    }
}
