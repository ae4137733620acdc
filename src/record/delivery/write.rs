//! A write on its way to the store and back.

use std::mem::take;
use std::time::Duration;

use crate::record::correlator::CorrelationKey;
use crate::record::event::timed::is_timed;
use crate::record::event::{Event, Text, Timestamp};
use crate::record::series::{SeriesKey, SeriesWrite};
use crate::record::sink::{OpId, SinkOp};

/// The index of a key in the list of pending writes.
pub(super) type KeyIndex = u32;

/// The key of a stored event. Writes with equal keys concern the same event.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum WriteKey {
    /// The correlator counts the event.
    Correlated(CorrelationKey),
    /// The event is counted in a series, or not at all.
    Series(SeriesKey),
}

impl WriteKey {
    pub(super) fn hash(&self) -> u64 {
        match self {
            Self::Correlated(key) => key.hash(),
            Self::Series(key) => key.hash(),
        }
    }
}

/// Operations and their IDs. Where possible, whole lists are moved instead of single operations,
/// because events are large.
#[derive(Default)]
pub(super) struct Ops {
    pub(super) ids: Vec<OpId>,
    pub(super) ops: Vec<SinkOp>,
}

impl Ops {
    pub(super) fn reserve(&mut self, additional: usize) {
        self.ids.reserve(additional);
        self.ops.reserve(additional);
    }

    pub(super) fn push(&mut self, id: OpId, op: SinkOp) {
        self.ids.push(id);
        self.ops.push(op);
    }
}

/// An event to be written to the store, together with the state of the attempts to write the event.
pub(super) struct Write {
    pub(super) event: Event,
    pub(super) ticket: Ticket,
}

/// Everything about a write except the event itself. While the write's operation is in progress,
/// the sink holds the event.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(super) struct Ticket {
    /// The offset that determines the write's position among the other writes. The offset belongs
    /// to the first event that the write covers, or to the last event that was counted while the
    /// write was held.
    pub(super) offset: u64,
    /// The number of delivered events that the write covers. `events` is 0 for the last write of a
    /// series if that write contains nothing new for the store.
    pub(super) events: u64,
    /// The number of covered events that still count against the capacity of the watcher's queue.
    pub(super) in_hand: u64,
    /// Whether the first event that the write covers is new and therefore counts as created.
    pub(super) is_new: bool,
    /// Whether each attempt begins as a patch. If an attempt begins as a patch, the event is
    /// created only if the store does not find the event.
    pub(super) is_update: bool,
    /// Whether the next attempt creates the event.
    pub(super) creates: bool,
    /// The number of attempts that failed. A probe without a response does not count as an attempt.
    pub(super) failed: u32,
    /// The event's count in the first creation attempt that may have succeeded although the sink
    /// did not respond. `None` if there was no such attempt.
    pub(super) unsure: Option<i32>,
    /// Whether the event has a new name because its original name was already taken.
    pub(super) is_renamed: bool,
    /// Whether the next attempt is not the first attempt.
    pub(super) is_retry: bool,
    /// Whether the recording was already ending when the write was last given to the sink.
    pub(super) is_last: bool,
    /// Whether the write was last given to the sink to find out whether the store is available
    /// again.
    pub(super) is_probe: bool,
    /// The time at which the write was first refused as forbidden since the write last failed in
    /// another way.
    pub(super) refused_at: Option<Duration>,
    /// The time of day at which the first attempt failed. `None` if no attempt has failed.
    pub(super) failing_since: Option<Timestamp>,
}

impl Ticket {
    /// Returns the ticket for a single event, which is either new or a repeat.
    pub(super) fn of(offset: u64, is_new: bool) -> Self {
        let (events, in_hand, is_update, creates) = (1, 1, !is_new, is_new);
        Self { offset, events, in_hand, is_new, is_update, creates, ..Self::default() }
    }

    /// Returns the key, the event and the ticket of a write that a series requests.
    pub(super) fn of_series(write: SeriesWrite) -> (WriteKey, Event, Self) {
        let SeriesWrite { key, event, is_update, offset, events, in_hand } = write;
        (WriteKey::Series(key), event, Self { events, in_hand, ..Self::of(offset, !is_update) })
    }

    /// Notes that an attempt to create the event with the given count may have succeeded.
    pub(super) fn doubt(&mut self, times: i32) {
        if self.creates {
            self.unsure.get_or_insert(times);
        }
    }
}

impl Write {
    /// Makes the next attempt of an update a patch again.
    pub(super) fn turn_to_patch(&mut self) {
        self.ticket.creates = !self.ticket.is_update;
    }

    /// Turns the write into an update of the event, because the event is in the store after all.
    pub(super) fn turn_to_update(&mut self) {
        (self.ticket.is_update, self.ticket.creates) = (true, false);
        self.ticket.unsure = None;
    }

    pub(super) fn rename(&mut self, name: Text) {
        self.event.metadata.name = name;
        self.ticket.is_renamed = true;
        self.ticket.unsure = None;
    }

    /// Adopts the stored event's name and version, which the store returned for the previous write
    /// of the same event.
    pub(super) fn follow(&mut self, name: Text, version: Text) {
        self.event.metadata.name = name;
        self.event.metadata.set_resource_version(version);
    }

    /// Replaces the event with a later state of the same event, which includes everything in the
    /// current state. Returns the number of events that no longer take up queue capacity.
    ///
    /// A new event takes the later count, time and message, as if the store had applied a patch.
    pub(super) fn absorb(&mut self, event: &mut Event, ticket: &Ticket) -> u64 {
        if self.ticket.is_update {
            event.metadata.name = take(&mut self.event.metadata.name);
            event.metadata.set_resource_version(self.event.metadata.resource_version().clone());
            self.event = take(event);
        } else {
            self.event.count = event.count;
            self.event.last_timestamp = event.last_timestamp;
            if event.series().is_some() {
                self.event.set_series(event.series());
            }
            self.event.message = take(&mut event.message);
        }
        self.ticket.events += ticket.events;
        ticket.in_hand
    }

    /// Takes the ticket and the operation out of the write, which then is empty.
    #[inline]
    pub(super) fn take_op(&mut self) -> (Ticket, SinkOp) {
        let Self { event, ticket } = self;
        if !ticket.creates {
            return (take(ticket), SinkOp::Patch(take(event)));
        }
        // The event is not, or no longer, in the store.
        event.metadata.set_resource_version("");
        (take(ticket), SinkOp::Create(take(event)))
    }

    pub(super) fn back(ticket: Ticket, op: SinkOp) -> Self {
        Self { event: op.into_event(), ticket }
    }

    /// Notes that the attempt to create the event may have succeeded.
    pub(super) fn doubt(&mut self) {
        self.ticket.doubt(times(&self.event));
    }

    /// Returns whether the event that is stored under this name must be this write's event, written
    /// by an attempt whose response was lost.
    pub(super) fn is(&self, stored: &Event) -> bool {
        let about = |event: &Event| {
            let object = &event.involved_object;
            [&object.kind, &object.namespace, &object.name, &object.uid].map(Text::clone)
        };
        // An event with an event time has a reporter instead of a source and a first timestamp.
        let by = |event: &Event| {
            let reporter = [&event.reporting_controller, &event.reporting_instance].map(Text::clone);
            let timed = event.event_time().map(|at| (at, reporter));
            (event.source.clone(), event.first_timestamp.map(Timestamp::as_secs), timed)
        };
        let says = |event: &Event| [event.type_.clone(), event.reason.clone()];
        // The write's message may have changed since that attempt.
        let is_said = stored.message == self.event.message || self.ticket.unsure.is_some();
        is_said
            && about(&self.event) == about(stored)
            && by(&self.event) == by(stored)
            && says(&self.event) == says(stored)
    }
}

/// Returns the number of times that an event was seen, according to its own fields.
pub(super) fn times(event: &Event) -> i32 {
    match event.series() {
        Some(series) if is_timed(event) => series.count,
        None if is_timed(event) => 1,
        _ => event.count,
    }
}
