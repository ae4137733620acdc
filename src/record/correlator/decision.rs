//! What a correlator answers, and what it counts.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::key::CorrelationKey;
use crate::record::event::{Event, EventPatch};

/// What is to become of an event.
#[doc(alias = "EventCorrelateResult")]
#[doc(alias = "Skip")]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Correlation {
    /// Store it as a new event.
    Create {
        /// The event, or one that stands for it and others like it.
        event: Event,
        /// For [`EventCorrelator::confirm`](super::EventCorrelator::confirm).
        key: CorrelationKey,
    },
    /// It is one that is stored already: change that.
    Update {
        /// The result: the stored event's name, resource version and first time, this one's message and time, the new count.
        event: Event,
        /// What changes, as client-go would send it.
        patch: EventPatch,
        /// For [`EventCorrelator::confirm`](super::EventCorrelator::confirm).
        key: CorrelationKey,
    },
    /// Do nothing. It has been counted.
    Skip(SkipReason),
    /// Do two things, because events of this budget had been skipped: only with
    /// [`SpamFilter::summaries`](super::SpamFilter::summaries).
    Summarized {
        /// The event that says how many; to be created, or an update of the summary before.
        summary: Box<Correlation>,
        /// What is to become of the event that was correlated.
        event: Box<Correlation>,
    },
}

/// Why an event is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SkipReason {
    /// Its source has used up the budget for its object.
    SpamFilter,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SpamFilter => "spam filter",
        })
    }
}

/// What a correlator has decided so far, in events.
///
/// Whenever no call is running, `created` + `updated` + `filtered` is the number of events that were correlated. Summaries
/// are not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CorrelatorStats {
    /// To be stored anew.
    pub created: u64,
    /// To be counted on a stored event.
    pub updated: u64,
    /// Folded into an event that stands for a group, whatever became of that then.
    pub aggregated: u64,
    /// Skipped by the spam filter.
    pub filtered: u64,
    /// Entries of the caches that were forgotten to make room; where this grows, counts start again from one and budgets
    /// are full again, and `lru_cache_size` is too small.
    pub evicted: u64,
    /// Summaries of skipped events.
    pub summaries: u64,
}

impl fmt::Display for CorrelatorStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { created, updated, aggregated, filtered, evicted, summaries } = self;
        write!(
            f,
            "created {created}, updated {updated}, aggregated {aggregated}, filtered {filtered}, evicted {evicted}"
        )?;
        if *summaries > 0 {
            write!(f, ", summaries {summaries}")?;
        }
        Ok(())
    }
}
