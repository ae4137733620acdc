//! Data about the keys whose writes are held.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::write::KeyIndex;
use crate::error::BuildError;

/// The shortest time that the options accept.
const SHORTEST: Duration = Duration::from_millis(1);

/// The times between a key's writes.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Pace {
    /// The minimum time between two consecutive writes of a key. `None` if each repeat is written.
    pub(in super::super) update_every: Option<Duration>,
    /// The time after which a count that the spam filter stopped is written. `None` if such a count
    /// is written only at a flush and when the recording ends.
    pub(in super::super) refresh_every: Option<Duration>,
    /// The maximum number of keys whose writes are held, and of keys for which the time of the last
    /// write is kept for `update_every`.
    pub(in super::super) capacity: usize,
}

impl Pace {
    pub(in super::super) fn check(&self) -> Result<(), BuildError> {
        let times = [("update_every", self.update_every), ("refresh_every", self.refresh_every)];
        for (name, time) in times.into_iter().filter_map(|(name, time)| Some((name, time?))) {
            let (value, allowed) = (format!("{time:?}"), format!("{SHORTEST:?} or more"));
            BuildError::require(time >= SHORTEST, name, value, allowed)?;
        }
        Ok(())
    }
}

/// Data about a key whose writes are held, or may have to be held.
#[derive(Default)]
pub(super) struct Hold {
    /// The time at which the pending write is released. `None` if the pending write is not held.
    pub(super) until: Option<Duration>,
    /// The time before which no other write may be sent. `None` if a write may be sent now.
    pub(super) quiet: Option<Duration>,
    /// The offsets of the first events that were held for the pending write (`pending_since`), and
    /// for the write that the sink is processing (`sent_since`).
    pub(super) pending_since: Option<u64>,
    pub(super) sent_since: Option<u64>,
}

/// The keys with a [`Hold`].
#[derive(Default)]
pub(super) struct Holds {
    pub(super) pace: Pace,
    /// The held writes, by release time.
    pub(super) held: BTreeSet<(Duration, KeyIndex)>,
    /// The keys whose next write may have to wait, by the time at which the wait ends.
    pub(super) quiet: BTreeSet<(Duration, KeyIndex)>,
    /// The first events of writes that were held and to which the sink has not responded yet.
    pub(super) since: BTreeSet<(u64, KeyIndex)>,
}

impl Holds {
    pub(super) fn first_event(&self) -> Option<u64> {
        self.since.first().map(|(offset, _)| *offset)
    }
}
