//! Pushing an entry: through the gate into the incoming queue, and waiting for room in it.

use crate::bus::state::{Lifecycle, Refusal};
use crate::bus::wait::{TimedOut, spin_until};
use crate::clock::Deadline;
use crate::error::{PublishError, Stopped};
use crate::sync::{Arc, Sender};

use super::entry::Entry;

/// The way into the incoming queue, which publishers and the broadcaster share.
pub(crate) struct IncomingQueue<T> {
    pub(crate) lifecycle: Arc<Lifecycle>,
    entries: Sender<Entry<T>>,
    max_batch: usize,
}

/// An entry that waits for room. Given up, a registration is undone.
struct Held<'h, T> {
    lifecycle: &'h Lifecycle,
    entry: Option<Entry<T>>,
}

impl<T> Held<'_, T> {
    /// There was no room for it.
    fn full(&mut self) -> Result<(), Refused<T>> {
        // It goes away only together with a result, so it is here.
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

/// An entry that did not get into the queue.
pub(crate) struct Refused<T>(pub(crate) Entry<T>, pub(crate) Refusal);

impl<T> IncomingQueue<T> {
    pub(crate) fn new(lifecycle: Arc<Lifecycle>, entries: Sender<Entry<T>>, max_batch: usize) -> Self {
        Self { lifecycle, entries, max_batch }
    }

    /// Never waits.
    #[inline]
    pub(crate) fn try_push(&self, entry: Entry<T>) -> Result<(), Refused<T>> {
        let (result, wake) = match self.lifecycle.gate.enter() {
            Ok(pass) => {
                let result = self.entries.try_send(entry).map_err(|entry| Refused(entry, Refusal::Full));
                (result, pass.leave())
            }
            Err(wake) => (Err(Refused(entry, Refusal::Stopped)), wake),
        };
        if wake {
            self.lifecycle.dispatcher.wake();
        }
        result
    }

    /// Waits for room until the deadline. On a thread of this bus it does not wait: the room would never come.
    pub(crate) fn push(&self, entry: Entry<T>, deadline: Deadline) -> Result<(), Refused<T>> {
        match self.try_push(entry) {
            Err(Refused(entry, Refusal::Full)) if !self.lifecycle.is_current() => {
                self.wait_push(entry, deadline)
            }
            result => result,
        }
    }

    #[cold]
    fn wait_push(&self, entry: Entry<T>, deadline: Deadline) -> Result<(), Refused<T>> {
        let mut held = Held { lifecycle: &self.lifecycle, entry: Some(entry) };
        if let Some(result) = spin_until(|| self.attempt(&mut held)) {
            return result;
        }
        match self.lifecycle.room.wait(&self.lifecycle.clock, deadline, || self.attempt(&mut held)) {
            Ok(result) => result,
            Err(TimedOut) => held.full(),
        }
    }

    /// As [`push`](Self::push), for a task. Dropped before it is ready, it has pushed nothing.
    pub(crate) async fn push_async(&self, entry: Entry<T>, deadline: Deadline) -> Result<(), Refused<T>> {
        let mut held = Held { lifecycle: &self.lifecycle, entry: Some(entry) };
        if let Some(result) = self.attempt(&mut held) {
            return result;
        }
        let attempt = || match self.attempt(&mut held) {
            // On a thread of this bus the room would never come.
            None if self.lifecycle.is_current() => Some(held.full()),
            result => result,
        };
        match self.lifecycle.waiting(&self.lifecycle.room, deadline, attempt).await {
            Ok(result) => result,
            Err(TimedOut) => held.full(),
        }
    }

    /// Tries to push the entry that waits for room.
    fn attempt(&self, held: &mut Held<'_, T>) -> Option<Result<(), Refused<T>>> {
        match self.try_push(held.entry.take()?) {
            Err(Refused(entry, Refusal::Full)) => {
                held.entry = Some(entry);
                None
            }
            result => Some(result),
        }
    }

    /// Whether there may be room, or the bus is closed.
    pub(crate) fn readiness(&self) -> Option<Result<(), Stopped>> {
        if self.lifecycle.gate.is_closed() {
            return Some(Err(Stopped));
        }
        (!self.entries.is_full() || self.lifecycle.is_current()).then_some(Ok(()))
    }

    /// Counts a refusal and takes the event out again.
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

    /// Pushes a batch in pieces; an error hands back everything from the piece that was refused on.
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
            // Room that holds nothing would travel along, and stand outside the bound.
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
