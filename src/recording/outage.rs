//! Whether the store is there at all.
//!
//! One event that fails again and again is that event's affair. When several different ones fail after each other, with no
//! answer of another kind between them, it is the store that does not work, and trying all the others would only use up
//! their attempts. Then nothing is written but the oldest event, at its own pace, until the store answers.

use std::time::Duration;

use crate::correlator::CorrelationKey;

/// So many different events have to fail one after the other.
const FAILURES: u32 = 3;

#[derive(Default)]
pub(super) struct Outage {
    failures: u32,
    last: Option<CorrelationKey>,
    /// When the store is to be tried again, if it does not work.
    until: Option<Duration>,
    /// It is being tried.
    is_probing: bool,
}

/// What may be written now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permit {
    All,
    /// One, to see whether the store is there again.
    Probe,
    /// Nothing until then; `None`: until the probe is answered.
    Nothing(Option<Duration>),
}

impl Outage {
    /// The store did not do it, and may do it later. `until`: when this event is to be tried again.
    pub(super) fn failed(&mut self, key: &CorrelationKey, until: Duration) {
        if self.last.as_ref() != Some(key) {
            self.last = Some(key.clone());
            self.failures += 1;
        }
        self.is_probing = false;
        if self.failures >= FAILURES {
            self.until = Some(until);
        }
    }

    /// The store answered.
    pub(super) fn answered(&mut self) {
        *self = Self::default();
    }

    pub(super) fn permit(&self, has_passed: impl Fn(Duration) -> bool) -> Permit {
        match self.until {
            None => Permit::All,
            Some(_) if self.is_probing => Permit::Nothing(None),
            Some(until) if has_passed(until) => Permit::Probe,
            Some(until) => Permit::Nothing(Some(until)),
        }
    }

    pub(super) fn probe(&mut self) {
        self.is_probing = true;
    }
}
