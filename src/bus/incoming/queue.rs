//! The path into a bus, with the functions that push entries and wait for capacity.

use crate::bus::dispatch::{Control, InlineFront, Refused, SharedIntake};
use crate::bus::mailbox::{Call, Entry};
use crate::bus::options::BusOptions;
use crate::bus::state::{BusState, Refusal};
use crate::bus::wait::{InsideCall, Place, TimedOut, spin_and_yield_until};
use crate::clock::Deadline;
use crate::error::PublishError;
use crate::sync::{Arc, PUBLISHER_YIELDS, Sender, YIELDS};

use super::handles::Handles;
use super::way::Way;

/// The path into a bus, shared by the publishers and the broadcaster.
pub(crate) struct IncomingQueue<T> {
    pub(crate) bus: Arc<BusState>,
    /// The bus's options, which provide the defaults for its watchers.
    pub(crate) options: BusOptions,
    /// Counts the handles that keep the bus open.
    pub(crate) handles: Handles,
    pub(crate) way: Way<T>,
}

impl<T> IncomingQueue<T> {
    /// Creates the path into a bus with a dispatcher, and counts the bus's first handle.
    pub(crate) fn new(
        bus: Arc<BusState>,
        entries: Sender<Entry<T>>,
        shared: Arc<SharedIntake<T>>,
        options: BusOptions,
    ) -> Self {
        Self { bus, options, handles: Handles::new(), way: Way::Queue { entries, shared } }
    }

    /// Creates the path into an inline bus, and counts the bus's first handle.
    pub(crate) fn inline(bus: Arc<BusState>, front: Arc<InlineFront<T>>, options: BusOptions) -> Self {
        Self { bus, options, handles: Handles::new(), way: Way::Inline(front) }
    }
}

impl<T: Clone + Send + Sync + 'static> IncomingQueue<T> {
    /// Pushes an entry if there is capacity. If the queue is full, tries to free capacity with
    /// [`Way::relieve`], and then tries to push the entry once more. Does not wait for capacity.
    #[inline]
    pub(crate) fn try_push(&self, entry: Entry<T>) -> Result<(), Refused<T>> {
        match self.way.try_push(entry, &mut Call::default(), &self.bus) {
            Err(Refused(entry, Refusal::Full)) if self.way.relieve(&self.bus) => {
                self.way.try_push(entry, &mut Call::default(), &self.bus)
            }
            result => result,
        }
    }

    /// Pushes an entry, waiting for capacity until the deadline. Does not wait if the current
    /// thread [must not wait](Self::must_not_wait).
    pub(crate) fn push(&self, entry: Entry<T>, deadline: Deadline) -> Result<(), Refused<T>> {
        let mut call = Call::default();
        match self.way.try_push(entry, &mut call, &self.bus) {
            Err(Refused(entry, Refusal::Full)) => self.push_later(entry, &mut call, deadline),
            result => result,
        }
    }

    #[cold]
    fn push_later(&self, entry: Entry<T>, call: &mut Call, deadline: Deadline) -> Result<(), Refused<T>> {
        let mut held = Some(entry);
        let pushed = self.wait_push(&mut held, call, deadline);
        match (held, pushed) {
            (Some(entry), Err(refusal)) => Err(Refused(entry, refusal)),
            _ => Ok(()),
        }
    }

    /// Adds a control entry. An inline bus processes the entry before the outermost call returns.
    /// Does not wait for capacity.
    ///
    /// # Errors
    ///
    /// Returns the entry and the reason why it was refused.
    pub(crate) fn control(&self, control: Control<T>) -> Result<(), (Control<T>, Refusal)> {
        self.way.control(control, &self.bus)
    }

    /// Returns whether the current thread must not wait for capacity, because the capacity might
    /// never be freed. A thread must not wait if it works for this bus, or if it holds the lock of
    /// some inline bus, because other threads may be waiting for that lock.
    fn must_not_wait(&self) -> bool {
        self.bus.is_current() || InsideCall::is_marked()
    }

    /// Waits for capacity until the deadline, and pushes the value. The caller must already have
    /// tried to push the value once.
    #[cold]
    fn wait_push(
        &self,
        held: &mut Option<Entry<T>>,
        call: &mut Call,
        deadline: Deadline,
    ) -> Result<(), Refusal> {
        if self.must_not_wait() {
            return self.attempt(held, call).unwrap_or_else(|| self.last_attempt(held, call));
        }
        // A woken publisher often finds the queue full again, and would then have to be woken once
        // more, so it is cheaper to yield for some time. On a busy machine, each yield may last as
        // long as the turns of other threads, so a publisher with a deadline yields less often. A
        // publisher of an inline bus yields less often, because each attempt takes the bus's lock.
        let is_patient = deadline.is_none() && matches!(self.way, Way::Queue { .. });
        let yields = if is_patient { PUBLISHER_YIELDS } else { YIELDS };
        if let Some(result) = spin_and_yield_until(yields, || self.attempt(held, call)) {
            return result;
        }
        let (mut place, clock) = (Place::new(&self.bus.room), &self.bus.clock);
        loop {
            // Once a watcher's limit has passed, the watcher no longer makes the publishers of an
            // inline bus wait.
            let until = call.until;
            let attempt = || attempt_until(|call| self.attempt(held, call), call, until);
            match place.wait(clock, earlier(deadline, until), attempt) {
                Ok(Some(result)) => return result,
                Err(TimedOut) if clock.has_passed(deadline) => return self.last_attempt(held, call),
                // If this publisher made the attempt during its turn, it did not use the turn.
                Ok(None) => self.bus.room.pass_on(),
                Err(TimedOut) => {}
            }
        }
    }

    /// Makes a last attempt to push the value, like [`try_push`](Self::try_push).
    fn last_attempt(&self, held: &mut Option<Entry<T>>, call: &mut Call) -> Result<(), Refusal> {
        if self.way.relieve(&self.bus) {
            if let Some(result) = self.attempt(held, call) {
                return result;
            }
        }
        Err(Refusal::Full)
    }

    /// Pushes the value like [`push`](Self::push), but asynchronously. A refused value stays in
    /// `held`. If the future is dropped before it is ready, nothing has been pushed.
    ///
    /// The caller holds the value, so that the caller's future contains it only once. If a future
    /// takes a value as an argument, it contains the value twice, once as the argument and once as
    /// a variable.
    pub(crate) async fn push_async(&self, held: &mut Option<Entry<T>>) -> Result<(), Refusal> {
        let mut call = Call::default();
        if let Some(result) = self.attempt(held, &mut call) {
            return result;
        }
        self.wait_async(call, |call| match self.attempt(held, call) {
            // If the current thread must not wait, only this thread may be able to free capacity.
            None if self.must_not_wait() => Some(self.last_attempt(held, call)),
            result => result,
        })
        .await
    }

    /// Tries to push the value that the caller holds in `held`. Returns `None` if there is no
    /// capacity. A refused value stays in `held`.
    fn attempt(&self, held: &mut Option<Entry<T>>, call: &mut Call) -> Option<Result<(), Refusal>> {
        match self.way.try_push(held.take()?, call, &self.bus) {
            Ok(()) => Some(Ok(())),
            Err(refused) => keep(held, refused),
        }
    }

    /// Returns `Ok` if there may be capacity, or if the current thread
    /// [must not wait](Self::must_not_wait). Returns an error if the bus is closed, and `None` if
    /// the caller has to wait.
    fn readiness(&self, call: &mut Call) -> Option<Result<(), PublishError<()>>> {
        if self.bus.is_closed() {
            return Some(Err(PublishError::Closed(())));
        }
        (self.must_not_wait() || self.way.has_room(call, &self.bus)).then_some(Ok(()))
    }

    /// Waits until there may be capacity. Returns immediately if the current thread
    /// [must not wait](Self::must_not_wait).
    pub(crate) async fn ready(&self) -> Result<(), PublishError<()>> {
        let mut call = Call::default();
        if let Some(result) = self.readiness(&mut call) {
            return result;
        }
        let result = self.wait_async(call, |call| self.readiness(call)).await;
        // The task has taken no capacity, so the next waiting publisher gets the turn.
        self.bus.room.pass_on();
        result
    }

    /// Waits asynchronously until an attempt returns a result. The caller must already have made
    /// one attempt.
    async fn wait_async<R>(&self, mut call: Call, mut attempt: impl FnMut(&mut Call) -> Option<R>) -> R {
        let bus = &*self.bus;
        loop {
            let until = call.until;
            let attempt = || attempt_until(&mut attempt, &mut call, until);
            match bus.waiting_by_the_clock(&bus.room, until, attempt).await {
                Ok(Some(result)) => return result,
                // If this publisher made the attempt during its turn, it did not use the turn.
                Ok(None) => bus.room.pass_on(),
                // Once a watcher's limit has passed, the watcher no longer makes the publishers of
                // an inline bus wait.
                Err(TimedOut) => {}
            }
        }
    }

    /// Counts a refused event, and returns the event to the publisher in an error.
    #[cold]
    pub(crate) fn refused_event(&self, refused: Refused<T>) -> PublishError<T> {
        let Refused(Entry::Event(event), refusal) = refused else {
            unreachable!("an event was pushed, so an event comes back")
        };
        self.refused(refusal, event, 1)
    }

    fn refused<E>(&self, refusal: Refusal, value: E, events: usize) -> PublishError<E> {
        self.bus.count_refused(refusal, events);
        refusal.error(value)
    }

    /// Pushes a batch in pieces. The error contains all events from the refused piece onwards.
    pub(crate) fn push_batch(
        &self,
        events: Vec<T>,
        push: impl Fn(Entry<T>) -> Result<(), Refused<T>>,
    ) -> Result<(), PublishError<Vec<T>>> {
        if events.len() <= self.options.max_batch {
            if events.is_empty() {
                return Ok(());
            }
            let mut events = events;
            // Any spare capacity would stay allocated along with the batch, but the bound on memory
            // does not include spare capacity.
            events.shrink_to_fit();
            return push(Entry::Batch(events)).map_err(|refused| self.refused_batch(refused, Vec::new()));
        }
        let mut rest = events.into_iter();
        loop {
            let piece: Vec<T> = rest.by_ref().take(self.options.max_batch).collect();
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
        let left = events.len();
        self.refused(refusal, events, left)
    }
}

/// Makes an attempt. Returns `Some(None)` if the attempt returned no result and the caller has to
/// make the next attempt before `until`.
#[allow(clippy::option_option, reason = "the outer one is the condition of a wait")]
fn attempt_until<R>(
    mut attempt: impl FnMut(&mut Call) -> Option<R>,
    call: &mut Call,
    until: Deadline,
) -> Option<Option<R>> {
    let result = attempt(call);
    (result.is_some() || earlier(call.until, until) != until).then_some(result)
}

fn earlier(one: Deadline, other: Deadline) -> Deadline {
    one.into_iter().chain(other).min()
}

/// Stores a refused value in `held`. This code is in a separate function, because its copies of a
/// large event would otherwise use stack space in each attempt.
#[cold]
#[inline(never)]
fn keep<T>(held: &mut Option<Entry<T>>, refused: Refused<T>) -> Option<Result<(), Refusal>> {
    let Refused(entry, refusal) = refused;
    *held = Some(entry);
    (refusal == Refusal::Closed).then_some(Err(refusal))
}
