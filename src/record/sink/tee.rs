//! Two sinks as one, of which neither fails for the other.
//!
//! The first answers, so what becomes of an event there (another attempt, another name) is the recording's business as
//! always. For the second nobody else would try again, so what it cannot take for now waits here: in order, an event at
//! most once, because an operation carries the whole event and a later one makes an earlier one superfluous.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::catch::{catch_panic, catch_panic_message};
use crate::clock::{Clock, Deadline};
use crate::record::event::{Event, EventPatch, Timestamp};
use crate::sync::Mutex;

use super::api_rules::namespace_of;
use super::{EventSink, SinkError, SinkErrorKind, SinkOp};

/// How many events wait at most for the second sink: as many as a queue holds.
const ROOM: usize = 1000;
/// How many are handed over at once.
const BATCH: usize = 256;
/// How long the second sink is left alone when it has failed and not said how long: client-go's pause.
const PAUSE: Duration = Duration::from_secs(10);
/// The longest when it has said how long.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Gives every event to two sinks, of which neither fails for the other.
///
/// The first one's answer is the answer: what is retried, renamed or given up is decided by it alone. The second one gets
/// the same events under the same names, whatever the first has said, each once:
///
/// - An operation that comes again, because the first could not do it, finds its event in the second and leaves it there.
/// - If the second has lost an event that is to be changed, it is created there, count and all.
/// - What the second cannot take for now waits, 1000 events at most, and is tried again with the next operation after 10
///   seconds, or after the time that the second has asked for, a minute at most; and once more when the `Tee` goes. An event that changes
///   while it waits is written as it is then.
/// - What the second refuses, or what has to make room, is lost there: [`on_failure`](Self::on_failure) is told, and
///   [`stats`](Self::stats) counts it.
///
/// Where the first says that the name is taken by another event, the second waits for the new name.
///
/// Both are called on the same thread, one after the other. So a second that is *slow* holds the first up, and nothing
/// reaches a second that has failed while no events come. Where that matters start two recordings instead: they share no
/// thread, queue or retries, but each counts and folds by itself, so names and counts in the stores may differ.
///
/// # Examples
///
/// Warnings in one place, and all in another:
///
/// ```
/// use eventcast::{EventBroadcaster, EventType, Filter, MemorySink, ObjectReference, Tee};
///
/// let (all, warnings) = (MemorySink::new(), MemorySink::new());
/// let only = Filter::new(|event: &eventcast::Event| event.type_ == "Warning", warnings.clone());
/// let events = EventBroadcaster::new()?;
/// events.start_recording_to_sink(Tee::new(all.clone(), only))?;
///
/// let recorder = events.new_recorder("disk-watcher");
/// let disk = ObjectReference::new("Disk", "sda");
/// recorder.event(&disk, EventType::Normal, "Mounted", "mounted on /");
/// recorder.event(&disk, EventType::Warning, "AlmostFull", "97 % are used");
/// events.shutdown();
/// assert_eq!((all.len(), warnings.len()), (2, 1));
/// assert_eq!(warnings.events()[0].metadata.name, all.events()[1].metadata.name);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Tee<A, B: EventSink> {
    first: A,
    second: B,
    clock: Clock,
    on_failure: Option<Box<Hook>>,
    state: Mutex<TeeState>,
}

type Hook = dyn Fn(&Event, &SinkError) + Send + Sync;

/// What has become of the events in the second sink of a [`Tee`]; what became of them in the first is in the recording's
/// statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct TeeStats {
    /// Operations that it has done, or found done.
    pub written: u64,
    /// Operations that it could not do for the time being, each time that it was asked.
    pub failed: u64,
    /// Operations that it will never do, or at which it panicked.
    pub refused: u64,
    /// Operations given up because there were too many waiting.
    pub dropped: u64,
    /// Events that wait now.
    pub waiting: u64,
}

impl fmt::Display for TeeStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { written, failed, refused, dropped, waiting } = self;
        write!(
            f,
            "written {written}, failed {failed}, refused {refused}, dropped {dropped}, waiting {waiting}"
        )
    }
}

#[derive(Default)]
struct TeeState {
    /// Creations and patches, oldest first.
    waiting: VecDeque<SinkOp>,
    /// Somebody is handing over: so that everything gets there in order.
    is_busy: bool,
    /// Until when the second sink is left alone.
    rest: Deadline,
    stats: TeeStats,
}

impl<A: EventSink, B: EventSink> Tee<A, B> {
    /// The first answers, the second gets the same.
    pub fn new(first: A, second: B) -> Self {
        Self { first, second, clock: Clock::system(), on_failure: None, state: Mutex::default() }
    }

    /// Calls `hook` with each event that the second sink has lost, and why: it was refused, or the sink panicked, or too
    /// many waited, or the end came. It runs on the thread that called the sink, and a panic in it ends there.
    ///
    /// An event that was lost may come back with its next change.
    pub fn on_failure(mut self, hook: impl Fn(&Event, &SinkError) + Send + Sync + 'static) -> Self {
        self.on_failure = Some(Box::new(hook));
        self
    }

    /// Measures the pauses of the second sink by this clock instead of the system's.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// How the second sink has done so far. Put the `Tee` into an `Arc`, which is a sink too, to read it later.
    pub fn stats(&self) -> TeeStats {
        let state = self.state.lock();
        TeeStats { waiting: state.waiting.len() as u64, ..state.stats }
    }

    /// One operation, given to the first by `call`.
    fn one(
        &self,
        op: &SinkOp,
        call: impl FnOnce(&A) -> Result<Event, SinkError>,
    ) -> Result<Event, SinkError> {
        // A panic of the first is nothing to the second.
        let answer = catch_unwind(AssertUnwindSafe(|| call(&self.first)));
        self.hand_over(for_second(op, answer.as_ref().ok()));
        answer.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl<A, B: EventSink> Tee<A, B> {
    /// Adds operations to those that wait, and hands over all that may go now.
    fn hand_over(&self, ops: impl IntoIterator<Item = SinkOp>) {
        {
            let mut state = self.state.lock();
            for op in ops {
                state.add(op);
            }
        }
        while let Some(batch) = self.next_batch() {
            if !self.write(batch) {
                break;
            }
        }
        let dropped: Vec<SinkOp> = {
            let mut state = self.state.lock();
            let excess = state.waiting.len().saturating_sub(ROOM);
            state.stats.dropped += excess as u64;
            state.waiting.drain(..excess).collect()
        };
        for op in dropped {
            self.tell(op.event(), SinkError::retry(format!("{ROOM} later events wait for the sink")));
        }
    }

    /// What is to be written now. Whoever gets a batch is the only one who has any until it has called `write`.
    fn next_batch(&self) -> Option<Vec<SinkOp>> {
        let mut state = self.state.lock();
        let rests = state.rest.is_some() && !self.clock.has_passed(state.rest);
        if state.is_busy || state.waiting.is_empty() || rests {
            return None;
        }
        state.is_busy = true;
        state.rest = None;
        let len = state.waiting.len().min(BATCH);
        Some(state.waiting.drain(..len).collect())
    }

    /// Whether the second sink has done, or refused for good, all of it. What it has not waits again.
    fn write(&self, batch: Vec<SinkOp>) -> bool {
        let answers = catch_panic_message(|| self.second.apply(&batch));
        let (mut answers, panic) = match answers {
            Ok(answers) => (answers.into_iter(), None),
            Err(text) => (Vec::new().into_iter(), Some(text)),
        };
        let (mut again, mut lost) = (Vec::new(), Vec::new());
        let (mut stats, mut rest) = (TeeStats::default(), None);
        for op in batch {
            let answer = answers.next().unwrap_or_else(|| {
                Err(SinkError::rejected(match &panic {
                    Some(text) => format!("the sink panicked: {text}"),
                    None => "the sink gave no answer".to_owned(),
                }))
            });
            match self.settled(&op, answer) {
                Ok(()) => stats.written += 1,
                Err(error) if error.kind() == SinkErrorKind::Retry => {
                    stats.failed += 1;
                    rest = rest.max(Some(error.wait().map_or(PAUSE, |wait| wait.min(LONGEST_PAUSE))));
                    catch_panic(|| drop(error));
                    again.push(op);
                }
                Err(error) => {
                    stats.refused += 1;
                    lost.push((op, error));
                }
            }
        }
        {
            let mut state = self.state.lock();
            state.is_busy = false;
            state.rest = rest.and_then(|rest| self.clock.deadline(rest));
            state.stats.written += stats.written;
            state.stats.failed += stats.failed;
            state.stats.refused += stats.refused;
            for op in again.into_iter().rev() {
                state.put_back(op);
            }
        }
        for (op, error) in lost {
            self.tell(op.event(), error);
        }
        rest.is_none()
    }

    /// What an answer means: that an event is there already is as good as having written it, and one that is not there
    /// any more is created.
    fn settled(&self, op: &SinkOp, answer: Result<Event, SinkError>) -> Result<(), SinkError> {
        let answer = match answer {
            Err(error) if error.kind() == SinkErrorKind::NotFound && !is_create(op) => {
                catch_panic(|| drop(error));
                catch_panic_message(|| self.second.create(op.event()))
                    .unwrap_or_else(|text| Err(SinkError::rejected(format!("the sink panicked: {text}"))))
            }
            answer => answer,
        };
        match answer {
            Err(error) if error.kind() == SinkErrorKind::AlreadyExists && !is_other(op.event(), &error) => {
                catch_panic(|| drop(error));
                Ok(())
            }
            answer => answer.map(drop),
        }
    }

    fn tell(&self, event: &Event, error: SinkError) {
        if let Some(hook) = &self.on_failure {
            catch_panic(|| hook(event, &error));
        }
        // The cause is the sink's own, and may panic when it goes.
        catch_panic(|| drop(error));
    }
}

impl TeeState {
    /// An event that waits already waits as it is now, in its place.
    fn add(&mut self, op: SinkOp) {
        let same = |waiting: &&mut SinkOp| is_same_name(waiting.event(), op.event());
        match self.waiting.iter_mut().find(same) {
            Some(waiting) => *waiting = if is_create(waiting) { created(op) } else { op },
            None => self.waiting.push_back(op),
        }
    }

    /// Back to the front; unless the event has come again meanwhile.
    fn put_back(&mut self, op: SinkOp) {
        let Some(at) = self.waiting.iter().position(|waiting| is_same_name(waiting.event(), op.event()))
        else {
            return self.waiting.push_front(op);
        };
        if let (Some(later), true) = (self.waiting.remove(at), is_create(&op)) {
            self.waiting.insert(at, created(later));
        }
    }
}

/// The operation as the second sink is to do it, if it is to do it now. No answer: the first has panicked.
fn for_second(op: &SinkOp, answer: Option<&Result<Event, SinkError>>) -> Option<SinkOp> {
    let mut op = op.clone();
    let event = match &mut op {
        SinkOp::Create(event) | SinkOp::Update(event) | SinkOp::Patch(event, _) => event,
    };
    // The version is the first one's.
    event.metadata.set_resource_version("");
    match answer {
        // Under a new name it comes again.
        Some(Err(error))
            if error.kind() == SinkErrorKind::AlreadyExists
                && error.stored().is_none_or(|_| is_other(event, error)) =>
        {
            None
        }
        // The first has completed it.
        Some(Ok(stored)) if event.metadata.name.is_empty() => {
            event.metadata.name = stored.metadata.name.clone();
            Some(op)
        }
        // And would complete it otherwise the next time.
        _ if event.metadata.name.is_empty() => None,
        _ => Some(op),
    }
}

fn is_create(op: &SinkOp) -> bool {
    matches!(op, SinkOp::Create(_))
}

fn created(op: SinkOp) -> SinkOp {
    match op {
        SinkOp::Create(event) | SinkOp::Update(event) | SinkOp::Patch(event, _) => SinkOp::Create(event),
    }
}

fn is_same_name(one: &Event, other: &Event) -> bool {
    one.metadata.name == other.metadata.name && namespace_of(one) == namespace_of(other)
}

/// Whether the name is known to be taken by something else than this event, written before.
fn is_other(event: &Event, error: &SinkError) -> bool {
    let first = |event: &Event| event.first_timestamp.map(Timestamp::whole_seconds);
    error.stored().is_some_and(|stored| {
        stored.involved_object != event.involved_object
            || stored.reason != event.reason
            || first(stored) != first(event)
    })
}

impl<A: EventSink, B: EventSink> EventSink for Tee<A, B> {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.one(&SinkOp::Create(event.clone()), |first| first.create(event))
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.one(&SinkOp::Update(event.clone()), |first| first.update(event))
    }

    fn patch(&self, event: &Event, patch: &EventPatch) -> Result<Event, SinkError> {
        self.one(&SinkOp::Patch(event.clone(), patch.clone()), |first| first.patch(event, patch))
    }

    fn apply(&self, batch: &[SinkOp]) -> Vec<Result<Event, SinkError>> {
        let answers = catch_unwind(AssertUnwindSafe(|| self.first.apply(batch)));
        let given = answers.as_ref().map_or(&[][..], Vec::as_slice);
        let ops = batch.iter().enumerate().filter_map(|(at, op)| for_second(op, given.get(at)));
        self.hand_over(ops.collect::<Vec<_>>());
        answers.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl<A, B: EventSink> Drop for Tee<A, B> {
    /// One last attempt for what waits.
    fn drop(&mut self) {
        let mut waiting = std::mem::take(&mut self.state.lock().waiting);
        while !waiting.is_empty() {
            let batch = waiting.drain(..waiting.len().min(BATCH)).collect();
            self.write(batch);
        }
        for op in std::mem::take(&mut self.state.lock().waiting) {
            self.tell(op.event(), SinkError::retry("the end came before the sink could take it"));
        }
    }
}

impl<A, B: EventSink> fmt::Debug for Tee<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tee").field("stats", &self.state.lock().stats).finish_non_exhaustive()
    }
}
