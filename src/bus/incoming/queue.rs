//! The sending end of the incoming queue: pushes entries through the gate, and waits for room.

use crate::bus::dispatch::{Dispatch, Entry};
use crate::bus::mailbox::Upstream;
use crate::bus::state::{Duty, Lifecycle, Refusal};
use crate::bus::wait::{TimedOut, spin_until};
use crate::clock::Deadline;
use crate::error::{PublishError, Stopped};
use crate::sync::{Arc, Sender};

/// The sending end of the incoming queue, which publishers and the broadcaster share.
pub(crate) struct IncomingQueue<T> {
    pub(crate) lifecycle: Arc<Lifecycle>,
    entries: Sender<Entry<T>>,
    dispatch: Arc<Dispatch<T>>,
    max_batch: usize,
}

/// An entry that waits for room. If it is dropped while it holds a registration, the registration
/// is undone.
struct Held<'h, T> {
    lifecycle: &'h Lifecycle,
    entry: Option<Entry<T>>,
}

impl<T> Held<'_, T> {
    /// Returns the entry as refused, because there was no room for it.
    fn full(&mut self) -> Result<(), Refused<T>> {
        // The entry is taken out only together with a result, so it is still here.
        self.entry.take().map_or(Ok(()), |entry| Err(Refused(entry, Refusal::Full)))
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        if let Some(Entry::Register(sender)) = self.entry.take() {
            sender.close(self.lifecycle);
        }
    }
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
        // A control entry is for the dispatcher, and a refused one is for nobody.
        let is_event = matches!(entry, Entry::Event(_) | Entry::Batch(_));
        let pass = self.lifecycle.gate.enter();
        let result = match &pass {
            Ok(_) => self.entries.try_send(entry),
            Err(_) => Err(entry),
        };
        let (refusal, duty) = match pass {
            Ok(pass) => (Refusal::Full, pass.leave()),
            Err(duty) => (Refusal::Stopped, duty),
        };
        match duty {
            Duty::Nothing if is_event || !self.dispatch.is_direct() => {}
            Duty::Deliver if is_event && result.is_ok() => self.dispatch.deliver(),
            // While the reader pulls, a control entry would wait for the reader. No fence: a
            // dispatcher that lends at this moment looks after its nap.
            Duty::Nothing | Duty::Deliver | Duty::Wake => {
                self.lifecycle.dispatcher.wake();
            }
        }
        result.map_err(|entry| Refused(entry, refusal))
    }

    /// Pushes an entry, and waits for room until the deadline. On a thread of this bus this does
    /// not wait, because the room might never come.
    pub(crate) fn push(&self, entry: Entry<T>, deadline: Deadline) -> Result<(), Refused<T>> {
        match self.try_push_once(entry) {
            Err(Refused(entry, Refusal::Full)) if self.lifecycle.is_current() => self.try_push(entry),
            Err(Refused(entry, Refusal::Full)) => self.wait_push(entry, deadline),
            result => result,
        }
    }

    #[cold]
    fn wait_push(&self, entry: Entry<T>, deadline: Deadline) -> Result<(), Refused<T>> {
        let is_control = !matches!(entry, Entry::Event(_) | Entry::Batch(_));
        let mut held = Held { lifecycle: &self.lifecycle, entry: Some(entry) };
        if let Some(result) = spin_until(|| self.attempt(&mut held)) {
            return result;
        }
        // Of the control entries, only a flush has a deadline.
        let clock = if is_control { &self.lifecycle.end_clock } else { &self.lifecycle.clock };
        match self.lifecycle.room.wait(clock, deadline, || self.attempt(&mut held)) {
            Ok(result) => result,
            Err(TimedOut) => self.last_attempt(&mut held),
        }
    }

    /// Tries a last time, as [`try_push`](Self::try_push) does.
    fn last_attempt(&self, held: &mut Held<'_, T>) -> Result<(), Refused<T>> {
        if self.dispatch.is_lent() {
            self.dispatch.relieve();
            if let Some(result) = self.attempt(held) {
                return result;
            }
        }
        held.full()
    }

    /// Pushes an entry as [`push`](Self::push) does, for a task. If the future is dropped before it
    /// is ready, it has pushed nothing.
    pub(crate) async fn push_async(&self, entry: Entry<T>, deadline: Deadline) -> Result<(), Refused<T>> {
        let mut held = Held { lifecycle: &self.lifecycle, entry: Some(entry) };
        if let Some(result) = self.attempt(&mut held) {
            return result;
        }
        let attempt = || match self.attempt(&mut held) {
            // On a thread of this bus the room might never come.
            None if self.lifecycle.is_current() => Some(self.last_attempt(&mut held)),
            result => result,
        };
        match self.lifecycle.waiting(&self.lifecycle.room, deadline, attempt).await {
            Ok(result) => result,
            Err(TimedOut) => self.last_attempt(&mut held),
        }
    }

    /// Tries to push the entry that waits for room. Returns `None` if there is still no room.
    fn attempt(&self, held: &mut Held<'_, T>) -> Option<Result<(), Refused<T>>> {
        match self.try_push_once(held.entry.take()?) {
            Err(Refused(entry, Refusal::Full)) => {
                held.entry = Some(entry);
                None
            }
            result => Some(result),
        }
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
