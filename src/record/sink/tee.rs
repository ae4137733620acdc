//! Two sinks as one. A failure of one does not affect the other.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::catch::{catch_panic, catch_panic_message};
use crate::record::event::{Event, Stored, Text, Timestamp};
use crate::sync::Mutex;

use super::api_rules::whole_micros;
use super::{EventSink, NeededThread, SinkError, SinkErrorKind, SinkOp, WriteOrder};

/// A sink that gives every event to two sinks. A failure of one does not affect the other.
///
/// The answer of the first sink is the answer. The first sink alone decides what is retried,
/// renamed or given up. The second sink gets the same events under the same names, whatever the
/// first one has said:
///
/// - If an operation comes again because the first sink could not do it: the second sink finds its
///   event already there, and that counts as written.
/// - If the second sink does not have an event that is to be changed: the `Tee` creates the event
///   there, count and all. An event whose creation failed there therefore appears with its next
///   change.
/// - If the second sink fails: the `Tee` calls the hook of [`on_failure`](Self::on_failure), and
///   [`stats`](Self::stats) counts the failure. The `Tee` does not try again. The operation is lost
///   there, unless it comes again because of the first sink.
///
/// If the first sink says that the name is taken by another event, or does not say by which, the
/// second sink waits for the new name.
///
/// The `Tee` calls both sinks on the same thread, one after the other, so a slow second sink holds
/// up the first. If the second sink needs retries or a thread of its own, start two recordings
/// instead. They share no thread, queue or retries, but each counts and folds on its own, so names
/// and counts in the stores may differ.
///
/// # Examples
///
/// Warnings in one place, and all events in another:
///
/// ```
/// use eventcast::sink::{Filter, Tee};
/// use eventcast::{EventBroadcaster, EventType, MemorySink, ObjectReference};
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
pub struct Tee<A, B> {
    first: A,
    second: B,
    on_failure: Option<Box<Hook>>,
    stats: Mutex<TeeStats>,
}

type Hook = dyn Fn(&Event, &SinkError) + Send + Sync;

/// The statistics of the second sink of a [`Tee`]. The recording's statistics say what became of
/// the events in the first sink.
///
/// # Examples
///
/// ```
/// use eventcast::stats::TeeStats;
///
/// let stats = TeeStats::default();
/// assert_eq!(stats.to_string(), "written 0, failed 0");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct TeeStats {
    /// The number of operations that the second sink has done, or had already done. An operation
    /// that comes again because of the first sink counts each time, here and in `failed`.
    pub written: u64,
    /// The number of operations that the second sink could not do. The `Tee` does not try them
    /// again.
    pub failed: u64,
}

impl fmt::Display for TeeStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "written {}, failed {}", self.written, self.failed)
    }
}

impl<A: EventSink, B: EventSink> Tee<A, B> {
    /// Creates a sink of two. The first one answers.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::Tee;
    /// use eventcast::{Event, EventSink, MemorySink};
    ///
    /// let (first, second) = (MemorySink::new(), MemorySink::new());
    /// let tee = Tee::new(first.clone(), second.clone());
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// let answer = tee.create(&event)?;
    /// assert_eq!(first.events(), [answer]);
    /// assert_eq!(second.events()[0].metadata.name, "web-0.1");
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    pub fn new(first: A, second: B) -> Self {
        Self { first, second, on_failure: None, stats: Mutex::default() }
    }

    /// Calls `hook` with each event that the second sink could not write, and with the error. The
    /// hook runs on the thread of the recording that called the `Tee`. Its panics are caught.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::Tee;
    /// use eventcast::{Event, EventSink, MemorySink, SinkError};
    /// use std::sync::mpsc;
    ///
    /// # struct Full;
    /// #
    /// # impl EventSink for Full {
    /// #     fn create(&self, _: &Event) -> Result<Event, SinkError> {
    /// #         Err(SinkError::unavailable("the disk is full"))
    /// #     }
    /// #
    /// #     fn patch(&self, event: &Event) -> Result<Event, SinkError> {
    /// #         self.create(event)
    /// #     }
    /// # }
    /// let (failures, failed) = mpsc::channel();
    /// // The second sink is on a full disk.
    /// let tee = Tee::new(MemorySink::new(), Full).on_failure(move |event, error| {
    ///     let _ = failures.send(format!("{}: {error}", event.metadata.name));
    /// });
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// tee.create(&event)?;
    /// assert_eq!(failed.try_recv()?, "web-0.1: unavailable: the disk is full");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_failure(mut self, hook: impl Fn(&Event, &SinkError) + Send + Sync + 'static) -> Self {
        self.on_failure = Some(Box::new(hook));
        self
    }

    /// Returns the statistics of the second sink so far. Put the `Tee` into an `Arc`, which is a
    /// sink too, to read them while a recording has the `Tee`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::Tee;
    /// use eventcast::{EventBroadcaster, EventType, MemorySink, ObjectReference};
    /// use std::sync::Arc;
    ///
    /// let tee = Arc::new(Tee::new(MemorySink::new(), MemorySink::new()));
    /// let events = EventBroadcaster::new()?;
    /// events.start_recording_to_sink(tee.clone())?;
    /// events.new_recorder("mounter").event(ObjectReference::new("Disk", "sda"), EventType::Normal, "Mounted", "/");
    /// events.shutdown();
    /// assert_eq!((tee.stats().written, tee.stats().failed), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> TeeStats {
        *self.stats.lock()
    }

    /// Has both sinks do one operation, and returns the answer of the first.
    fn one(&self, op: SinkOp, call: impl FnOnce(&A) -> Result<Event, SinkError>) -> Result<Event, SinkError> {
        // A panic of the first sink does not affect the second.
        let answer = catch_unwind(AssertUnwindSafe(|| call(&self.first)));
        let given = answer.as_ref().ok().map(|answer| answer.as_ref().map(|stored| &stored.metadata.name));
        self.write(for_second(op, given).into_iter().collect());
        answer.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Has the second sink do these operations.
    fn write(&self, mut ops: Vec<SinkOp>) {
        if ops.is_empty() {
            return;
        }
        let (mut answers, panic) = match catch_panic_message(|| self.second.apply(&mut ops)) {
            Ok(answers) => (answers.into_iter(), None),
            Err(text) => (Vec::new().into_iter(), Some(text)),
        };
        for op in ops {
            let answer = answers.next().unwrap_or_else(|| {
                Err(SinkError::rejected(match &panic {
                    Some(text) => format!("the sink panicked: {text}"),
                    None => "the sink gave no answer".to_owned(),
                }))
            });
            match self.settled(&op, op.checked(answer)) {
                Ok(()) => self.stats.lock().written += 1,
                Err(error) => {
                    self.stats.lock().failed += 1;
                    self.report(op.event(), error);
                }
            }
        }
        // An answer too many is the sink's own value, and may panic when it is dropped.
        answers.for_each(|extra| {
            catch_panic(|| drop(extra));
        });
    }

    /// Returns `Ok` if the second sink has done the operation or had already done it, and the error
    /// otherwise. Creates the event there first, if it should be changed and the sink does not have
    /// it.
    fn settled(&self, op: &SinkOp, answer: Result<Stored, SinkError>) -> Result<(), SinkError> {
        let answer = match answer.map(drop) {
            Err(error) if error.kind() == SinkErrorKind::NotFound && !is_create(op) => {
                catch_panic(|| drop(error));
                catch_panic_message(|| self.second.create(op.event()))
                    .unwrap_or_else(|text| Err(SinkError::rejected(format!("the sink panicked: {text}"))))
                    .map(drop)
            }
            answer => answer,
        };
        match answer {
            Err(error) if error.kind() == SinkErrorKind::AlreadyExists && !is_other(op.event(), &error) => {
                catch_panic(|| drop(error));
                Ok(())
            }
            answer => answer,
        }
    }

    /// Calls the hook.
    fn report(&self, event: &Event, error: SinkError) {
        if let Some(hook) = &self.on_failure {
            catch_panic(|| hook(event, &error));
        }
        // The cause is the sink's own value, and may panic when it is dropped.
        catch_panic(|| drop(error));
    }
}

/// Returns the operation as the second sink is to do it, or `None` if the second sink is not to do
/// it now. `answer` is the name or the error that the first sink answered, or `None` if there is no
/// answer, for example after a panic.
fn for_second(mut op: SinkOp, answer: Option<Result<&Text, &SinkError>>) -> Option<SinkOp> {
    let event = match &mut op {
        SinkOp::Create(event) | SinkOp::Update(event) | SinkOp::Patch(event) => event,
        SinkOp::Taken => return None,
    };
    // The version is that of the first store. The second one would refuse it.
    event.metadata.set_resource_version("");
    match answer {
        // The event comes again under a new name.
        Some(Err(error))
            if error.kind() == SinkErrorKind::AlreadyExists
                && error.stored().is_none_or(|_| is_other(event, error)) =>
        {
            None
        }
        // The first sink has completed the name.
        Some(Ok(name)) if event.metadata.name.is_empty() => {
            event.metadata.name = name.clone();
            Some(op)
        }
        // The event has no name yet. The first sink would complete the name differently in the next
        // attempt.
        _ if event.metadata.name.is_empty() => None,
        _ => Some(op),
    }
}

fn is_create(op: &SinkOp) -> bool {
    matches!(op, SinkOp::Create(_))
}

/// Returns whether the error says that another event than this one has the name. Returns false if
/// the error does not say which event has the name.
fn is_other(event: &Event, error: &SinkError) -> bool {
    let first = |event: &Event| event.first_timestamp.map(Timestamp::whole_seconds);
    // An event with an event time has no first time. Stores keep microseconds of it.
    let reported = |event: &Event| {
        let at = event.event_time().and_then(whole_micros)?;
        Some((at, event.reporting_controller.clone(), event.reporting_instance.clone()))
    };
    error.stored().is_some_and(|stored| {
        stored.involved_object != event.involved_object
            || stored.reason != event.reason
            || first(stored) != first(event)
            || reported(stored) != reported(event)
    })
}

impl<A: EventSink, B: EventSink> EventSink for Tee<A, B> {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.one(SinkOp::Create(event.clone()), |first| first.create(event))
    }

    /// If one of the two sinks needs every write, both get every write.
    fn write_order(&self) -> WriteOrder {
        match self.first.write_order() {
            WriteOrder::Bus => WriteOrder::Bus,
            WriteOrder::PerKey => self.second.write_order(),
        }
    }

    /// The shorter of the two times.
    fn ttl(&self) -> Option<Duration> {
        self.first.ttl().into_iter().chain(self.second.ttl()).min()
    }

    /// The threads of both sinks.
    fn needed_thread(&self) -> Option<NeededThread> {
        match (self.first.needed_thread(), self.second.needed_thread()) {
            (Some(first), Some(second)) => {
                Some(NeededThread::new(move || first.is_current() || second.is_current()))
            }
            (first, second) => first.or(second),
        }
    }

    /// The time of the first sink, whose answers count.
    fn refresh_every(&self) -> Option<Duration> {
        self.first.refresh_every()
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.one(SinkOp::Update(event.clone()), |first| first.update(event))
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.one(SinkOp::Patch(event.clone()), |first| first.patch(event))
    }

    fn apply(&self, batch: &mut [SinkOp]) -> Vec<Result<Stored, SinkError>> {
        // The first sink may take the events.
        let copies = batch.to_vec();
        let answers = catch_unwind(AssertUnwindSafe(|| self.first.apply(batch)));
        let given = answers.as_ref().map_or(&[][..], Vec::as_slice);
        let given = given.iter().map(|answer| Some(answer.as_ref().map(|stored| &stored.name)));
        let given = given.chain(std::iter::repeat(None));
        let ops = copies.into_iter().zip(given).filter_map(|(op, answer)| for_second(op, answer));
        self.write(ops.collect());
        answers.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl<A, B> fmt::Debug for Tee<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tee").field("stats", &*self.stats.lock()).finish_non_exhaustive()
    }
}
