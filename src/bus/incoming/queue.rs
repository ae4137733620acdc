//! The sending end of the incoming queue: pushes entries through the gate, and waits for room.

use crate::bus::dispatch::{Control, Dispatch, Entry, IntoEntry};
use crate::bus::mailbox::Upstream;
use crate::bus::state::{Duty, Lifecycle, Refusal};
use crate::bus::wait::{TimedOut, spin_until};
use crate::clock::{Clock, Deadline};
use crate::error::{PublishError, Stopped};
use crate::sync::{Arc, Sender};

/// The sending end of the incoming queue, which publishers and the broadcaster share.
pub(crate) struct IncomingQueue<T> {
    pub(crate) lifecycle: Arc<Lifecycle>,
    entries: Sender<Entry<T>>,
    dispatch: Arc<Dispatch<T>>,
    max_batch: usize,
}

/// An entry that did not get into the queue, and the reason.
pub(crate) struct Refused<T>(pub(crate) Entry<T>, pub(crate) Refusal);

impl<T> IncomingQueue<T> {
    pub(crate) fn new(
        lifecycle: Arc<Lifecycle>,
        entries: Sender<Entry<T>>,
        dispatch: Arc<Dispatch<T>>,
        max_batch: usize,
    ) -> Self {
        Self { lifecycle, entries, dispatch, max_batch }
    }

    /// Returns the distributor, for a reader, if it may be lent.
    pub(crate) fn upstream(&self) -> Option<Box<dyn Upstream>>
    where
        T: Send + Sync + 'static,
    {
        self.dispatch.is_direct().then(|| Box::new(self.dispatch.clone()) as Box<dyn Upstream>)
    }

    /// Pushes an entry if there is room. If the queue is full because the reader pulls, makes room.
    /// Never waits.
    #[inline]
    pub(crate) fn try_push(&self, entry: Entry<T>) -> Result<(), Refused<T>> {
        match self.try_push_once(entry) {
            Err(Refused(entry, Refusal::Full)) if self.dispatch.is_lent() => {
                self.dispatch.relieve();
                self.try_push_once(entry)
            }
            result => result,
        }
    }

    /// Pushes an entry if there is room. Never waits.
    #[inline]
    fn try_push_once(&self, entry: Entry<T>) -> Result<(), Refused<T>> {
        let is_control = matches!(entry, Entry::Control(_));
        match self.lifecycle.gate.enter() {
            Ok(pass) => {
                let surplus = entry.surplus();
                self.count_surplus(surplus);
                let sent = self.entries.try_send(entry);
                if sent.is_err() {
                    self.count_surplus(surplus.wrapping_neg());
                }
                self.fulfil(pass.leave(), is_control, sent.is_ok());
                match sent {
                    Ok(()) => Ok(()),
                    Err(entry) => Err(Refused(entry, Refusal::Full)),
                }
            }
            Err(duty) => {
                self.fulfil(duty, is_control, false);
                Err(Refused(entry, Refusal::Stopped))
            }
        }
    }

    #[inline]
    fn count_surplus(&self, events: u64) {
        // A single event has none, so its publish counts nothing.
        if events != 0 {
            self.lifecycle.surplus.add(events);
        }
    }

    /// Returns how many events are accepted and have not been offered: those in the incoming queue,
    /// and those that the dispatcher has taken and carries.
    pub(crate) fn pending(&self, accepted: u64) -> u64 {
        let Lifecycle { taken, surplus, .. } = &*self.lifecycle;
        let pushed = (self.entries.len() as u64).wrapping_add(taken.get()).wrapping_add(surplus.get());
        // The counts are read one by one, so a snapshot of a running bus may be behind `accepted`.
        let pending = pushed.wrapping_sub(accepted);
        if pending > u64::MAX / 2 { 0 } else { pending }
    }

    /// Carries out the duty of a caller that has left the gate. `is_sent` is whether the caller has
    /// sent an entry.
    #[inline]
    fn fulfil(&self, duty: Duty, is_control: bool, is_sent: bool) {
        match duty {
            Duty::Nothing if !is_control || !self.dispatch.is_direct() => {}
            // Only the dispatcher carries out a control entry, and a refused entry needs no
            // delivery.
            Duty::Deliver if !is_control && is_sent => self.dispatch.deliver(),
            // While the reader pulls, a control entry would wait for the reader. No fence: a
            // dispatcher that lends at this moment looks after its nap.
            Duty::Nothing | Duty::Deliver | Duty::Wake => {
                self.lifecycle.dispatcher.wake();
            }
        }
    }

    /// Pushes an entry, and waits for room until the deadline. On a thread of this bus this does
    /// not wait, because the room might never come.
    pub(crate) fn push(&self, entry: Entry<T>, deadline: Deadline) -> Result<(), Refused<T>> {
        match self.try_push_once(entry) {
            Err(Refused(entry, Refusal::Full)) => self.push_later(entry, deadline),
            result => result,
        }
    }

    #[cold]
    fn push_later(&self, entry: Entry<T>, deadline: Deadline) -> Result<(), Refused<T>> {
        let mut held = Some(entry);
        let pushed = self.wait_push(&mut held, &self.lifecycle.clock, deadline);
        match (held, pushed) {
            (Some(entry), Err(refusal)) => Err(Refused(entry, refusal)),
            _ => Ok(()),
        }
    }

    /// Pushes a control entry, like [`push`](Self::push). A control entry that is refused stays in
    /// `held`.
    pub(crate) fn push_control(
        &self,
        held: &mut Option<Control<T>>,
        deadline: Deadline,
    ) -> Result<(), Refusal> {
        match self.attempt(held) {
            Some(result) => result,
            // Of the control entries, only a flush has a deadline.
            None => self.wait_push(held, &self.lifecycle.end_clock, deadline),
        }
    }

    /// Waits for capacity until the deadline, and pushes the value. The caller has tried once.
    #[cold]
    fn wait_push<P: IntoEntry<T>>(
        &self,
        held: &mut Option<P>,
        clock: &Clock,
        deadline: Deadline,
    ) -> Result<(), Refusal> {
        if self.lifecycle.is_current() {
            return self.attempt(held).unwrap_or_else(|| self.last_attempt(held));
        }
        if let Some(result) = spin_until(|| self.attempt(held)) {
            return result;
        }
        match self.lifecycle.room.wait(clock, deadline, || self.attempt(held)) {
            Ok(result) => result,
            Err(TimedOut) => self.last_attempt(held),
        }
    }

    /// Tries a last time, as [`try_push`](Self::try_push) does.
    fn last_attempt<P: IntoEntry<T>>(&self, held: &mut Option<P>) -> Result<(), Refusal> {
        if self.dispatch.is_lent() {
            self.dispatch.relieve();
            if let Some(result) = self.attempt(held) {
                return result;
            }
        }
        Err(Refusal::Full)
    }

    /// Pushes the value, like [`push`](Self::push), for a task. A value that is refused stays in
    /// `held`. If the future is dropped before it is ready, it has pushed nothing.
    ///
    /// The caller holds the value, so that the caller's future has it once. A future that is given
    /// a value holds it twice: as its argument, and as its variable.
    pub(crate) async fn push_async<P: IntoEntry<T>>(
        &self,
        held: &mut Option<P>,
        deadline: Deadline,
    ) -> Result<(), Refusal> {
        if let Some(result) = self.attempt(held) {
            return result;
        }
        let attempt = || match self.attempt(held) {
            // On a thread of this bus the room might never come.
            None if self.lifecycle.is_current() => Some(self.last_attempt(held)),
            result => result,
        };
        match self.lifecycle.waiting(&self.lifecycle.room, deadline, attempt).await {
            Ok(result) => result,
            Err(TimedOut) => self.last_attempt(held),
        }
    }

    /// Tries to push the value that the caller holds. Returns `None` if the queue is full. A value
    /// that is refused stays in `held`.
    fn attempt<P: IntoEntry<T>>(&self, held: &mut Option<P>) -> Option<Result<(), Refusal>> {
        let Err(Refused(entry, refusal)) = self.try_push_once(held.take()?.into_entry()) else {
            return Some(Ok(()));
        };
        *held = Some(P::from_entry(entry));
        (refusal == Refusal::Stopped).then_some(Err(refusal))
    }

    /// Returns `Ok` if there may be room or if this is a thread of the bus, which must not wait.
    /// Returns an error if the bus is closed, and `None` if the caller has to wait.
    pub(crate) fn readiness(&self) -> Option<Result<(), Stopped>> {
        if self.lifecycle.gate.is_closed() {
            return Some(Err(Stopped));
        }
        (!self.entries.is_full() || self.lifecycle.is_current()).then_some(Ok(()))
    }

    /// Counts a refused event, and returns it in the publisher's error.
    #[cold]
    pub(crate) fn refused_event(&self, refused: Refused<T>) -> PublishError<T> {
        let Refused(Entry::Event(event), refusal) = refused else {
            unreachable!("an event was pushed, so an event comes back")
        };
        self.lifecycle.count_refused(refusal, 1);
        match refusal {
            Refusal::Full => PublishError::Full(event),
            Refusal::Stopped => PublishError::Stopped(event),
        }
    }

    /// Pushes a batch in pieces. The error returns all events from the refused piece on.
    pub(crate) fn push_batch(
        &self,
        events: Vec<T>,
        push: impl Fn(Entry<T>) -> Result<(), Refused<T>>,
    ) -> Result<(), PublishError<Vec<T>>> {
        if events.len() <= self.max_batch {
            if events.is_empty() {
                return Ok(());
            }
            let mut events = events;
            // Spare capacity would travel with the batch, and the bound on memory does not count
            // it.
            events.shrink_to_fit();
            return push(Entry::Batch(events)).map_err(|refused| self.refused_batch(refused, Vec::new()));
        }
        let mut rest = events.into_iter();
        loop {
            let piece: Vec<T> = rest.by_ref().take(self.max_batch).collect();
            if piece.is_empty() {
                return Ok(());
            }
            if let Err(refused) = push(Entry::Batch(piece)) {
                return Err(self.refused_batch(refused, rest.collect()));
            }
        }
    }

    #[cold]
    fn refused_batch(&self, refused: Refused<T>, rest: Vec<T>) -> PublishError<Vec<T>> {
        let Refused(Entry::Batch(mut events), refusal) = refused else {
            unreachable!("a batch was pushed, so a batch comes back")
        };
        events.extend(rest);
        self.lifecycle.count_refused(refusal, events.len());
        match refusal {
            Refusal::Full => PublishError::Full(events),
            Refusal::Stopped => PublishError::Stopped(events),
        }
    }
}
