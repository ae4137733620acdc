//! The operations in progress, to which the sink has not responded yet.

use std::time::Duration;

use super::super::write::{KeyIndex, Ticket};
use super::lane::GroupIndex;
use crate::record::event::Timestamp;
use crate::record::sink::OpId;

/// An operation that is in progress.
pub(in super::super) struct UnderWay {
    /// The index of the operation's key.
    pub(in super::super) at: KeyIndex,
    pub(in super::super) group: GroupIndex,
    pub(in super::super) ticket: Ticket,
    /// The time at which the operation began, as monotonic time and as time of day.
    pub(in super::super) since: (Duration, Timestamp),
    /// Whether the operation's group was slow or closed when the operation began.
    pub(in super::super) was_sick: bool,
    /// The number of responses that the operation's group had received when the operation began.
    pub(in super::super) answers: u64,
}

/// The operations that are in progress, by ID.
#[derive(Default)]
pub(super) struct UnderWayList {
    list: Vec<Option<UnderWay>>,
    /// The offsets of the writes, by operation ID, or [`NONE`] if an ID is not in use.
    offsets: Vec<u64>,
    free: Vec<OpId>,
}

/// The offset that represents the absence of a write.
const NONE: u64 = u64::MAX;

impl UnderWayList {
    pub(super) fn add(&mut self, op: UnderWay) -> OpId {
        let (id, offset) = (self.free.pop().unwrap_or(self.list.len() as OpId), op.ticket.offset);
        match self.list.get_mut(id as usize) {
            Some(free) => *free = Some(op),
            None => self.list.push(Some(op)),
        }
        match self.offsets.get_mut(id as usize) {
            Some(free) => *free = offset,
            None => self.offsets.push(offset),
        }
        id
    }

    pub(super) fn remove(&mut self, id: OpId) -> Option<UnderWay> {
        let op = self.list.get_mut(id as usize)?.take()?;
        self.offsets[id as usize] = NONE;
        self.free.push(id);
        Some(op)
    }

    pub(super) fn get_mut(&mut self, id: OpId) -> Option<&mut UnderWay> {
        self.list.get_mut(id as usize)?.as_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.list.len() - self.free.len()
    }

    /// Returns the lowest offset of all writes.
    pub(super) fn first_offset(&self) -> Option<u64> {
        self.offsets.iter().copied().min().filter(|offset| *offset != NONE)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &UnderWay> {
        self.list.iter().flatten()
    }
}
