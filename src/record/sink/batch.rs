//! The operations that are submitted to a sink, and the queue through which the sink's answers are
//! returned.

use std::cell::RefCell;
use std::fmt;
use std::sync::LazyLock;

use crate::catch::{catch_panic, catch_panic_message};
use crate::record::event::{Event, Stored};
use crate::sync::{Arc, Mutex, thread_local};

use super::error::{SinkError, SinkErrorKind};
use super::op::{SinkOp, SinkOpError};

/// A number that identifies an operation in progress within a recording.
pub(crate) type OpId = u32;

/// The outcome of an operation that was submitted to a sink.
pub(crate) enum Reply {
    Stored(Stored),
    Failed(SinkOpError),
    /// The operation failed, and the operation's event was lost.
    Lost(SinkError),
    /// The sink panicked while processing several operations together, and has not answered this
    /// operation yet. The number is how many times the event was seen, according to the event's own
    /// fields.
    Unsure(i32),
    /// The operation was not submitted to the sink.
    Unsent(Box<SinkOp>),
}

/// A queue that holds the sink's answers until the waiting thread takes them.
pub(crate) struct Replies {
    answers: Mutex<Vec<(OpId, Reply)>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Replies {
    /// Creates an empty queue. [`push`](Self::push) calls `wake` after adding answers, unless the
    /// calling thread is inside a call to [`in_call`] with this queue.
    pub(crate) fn new(wake: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::default(), wake: Box::new(wake) })
    }

    pub(crate) fn push(self: &Arc<Self>, answers: impl IntoIterator<Item = (OpId, Reply)>) {
        self.push_quietly(answers);
        if !self.is_in_call() {
            self.wake();
        }
    }

    /// Adds answers without waking the waiting thread. The iterator is consumed while the lock is
    /// held, so the iterator must not call user code.
    pub(crate) fn push_quietly(&self, answers: impl IntoIterator<Item = (OpId, Reply)>) {
        self.answers.lock().extend(answers);
    }

    pub(crate) fn wake(&self) {
        (self.wake)();
    }

    /// Moves all answers from the queue to the end of `into`. Each list keeps its own allocation.
    /// If this method swapped the two lists, the number of calls that find no answers would
    /// determine when a writer first fills the second list and has to allocate.
    pub(crate) fn take(&self, into: &mut Vec<(OpId, Reply)>) {
        into.append(&mut self.answers.lock());
    }

    pub(crate) fn has_any(&self) -> bool {
        !self.answers.lock().is_empty()
    }

    /// Returns whether the latest answer in the queue reports that this operation's event was
    /// stored.
    pub(crate) fn has_stored(&self, id: OpId) -> bool {
        let answers = self.answers.lock();
        answers.last().is_some_and(|(last, reply)| *last == id && matches!(reply, Reply::Stored(_)))
    }

    /// Returns whether the current thread is inside a call to [`in_call`] with this queue.
    fn is_in_call(self: &Arc<Self>) -> bool {
        let is_this = |call: &Call| Arc::ptr_eq(&call.replies, self);
        CALL.try_with(|call| call.borrow().as_ref().is_some_and(is_this)).unwrap_or(false)
    }

    /// Handles operations that the sink dropped without answering them.
    fn dropped(self: &Arc<Self>, ops: impl Iterator<Item = (OpId, SinkOp)>) {
        if !std::thread::panicking() {
            let text = "the sink dropped the operation without an answer";
            self.push(ops.map(|(id, op)| {
                (id, Reply::Failed(op.failed(SinkError::new(SinkErrorKind::GroupUnavailable, text))))
            }));
        } else if self.is_in_call() {
            CALL.with(|call| call.borrow_mut().as_mut().map(|call| call.left.extend(ops)));
        } else {
            let failed = |op: SinkOp| Reply::Failed(op.failed(SinkError::panicked("on another thread")));
            self.push(ops.map(|(id, op)| (id, failed(op))));
        }
    }
}

/// A call to the sink that is in progress on the current thread.
struct Call {
    replies: Arc<Replies>,
    /// The operations that were dropped without an answer by a panic in the sink.
    left: Vec<(OpId, SinkOp)>,
}

thread_local! {
    static CALL: RefCell<Option<Call>> = const { RefCell::new(None) };
}

/// Calls the sink by running `run`. While the call is in progress, answers pushed by this thread do
/// not wake the waiting thread. If the sink panics, returns the panic message and the unanswered
/// operations. If the sink catches its own panic, rejects the operations that were dropped by the
/// panic.
pub(crate) fn in_call(
    replies: &Arc<Replies>,
    run: impl FnOnce(),
) -> Result<(), (String, Vec<(OpId, SinkOp)>)> {
    let call = Call { replies: replies.clone(), left: Vec::new() };
    let before = CALL.with(|cell| cell.borrow_mut().replace(call));
    let result = catch_panic_message(run);
    let call = CALL.with(|cell| std::mem::replace(&mut *cell.borrow_mut(), before));
    let left = call.map(|call| call.left).unwrap_or_default();
    let Err(text) = result else {
        let failed = |op: SinkOp| Reply::Failed(op.failed(SinkError::panicked("it caught the panic itself")));
        replies.push_quietly(left.into_iter().map(|(id, op)| (id, failed(op))));
        return Ok(());
    };
    Err((text, left))
}

/// A batch of operations that is submitted to a sink. The sink can answer the operations all
/// together or one by one.
///
/// No two operations in a batch concern the same event. If the sink drops an operation without
/// answering it, the operation fails with [`GroupUnavailable`](SinkErrorKind::GroupUnavailable),
/// and the recording retries the operation.
///
/// # Examples
///
/// ```
/// use eventcast::sink::{SinkBatch, SinkMode, Stored};
/// use eventcast::{Event, EventBroadcaster, EventSink, ObjectReference, SinkError};
///
/// /// Writes a batch in one transaction.
/// struct Database;
///
/// impl EventSink for Database {
///     fn create(&self, event: &Event) -> Result<Event, SinkError> {
///         Ok(event.clone())
///     }
///
///     fn patch(&self, event: &Event) -> Result<Event, SinkError> {
///         Ok(event.clone())
///     }
///
///     fn mode(&self) -> SinkMode {
///         SinkMode::Batches
///     }
///
///     fn submit(&self, batch: SinkBatch) {
///         let answers: Vec<_> = batch.ops().iter().map(|op| Ok(Stored::from(op.event()))).collect();
///         batch.answer(answers);
///     }
/// }
///
/// let events = EventBroadcaster::new()?;
/// let recording = events.record_to(Database)?;
/// events.recorder("doc").normal(ObjectReference::new("Pod", "web-0"), "Run", "it runs");
/// events.shutdown();
/// assert_eq!(recording.stats().created, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "operations that are dropped without an answer fail"]
pub struct SinkBatch {
    ids: Vec<OpId>,
    ops: Vec<SinkOp>,
    replies: Arc<Replies>,
}

impl SinkBatch {
    /// Creates a batch. `ids` and `ops` must have the same length.
    pub(crate) fn new(ids: Vec<OpId>, ops: Vec<SinkOp>, replies: Arc<Replies>) -> Self {
        Self { ids, ops, replies }
    }

    /// Returns the operations in this batch.
    pub fn ops(&self) -> &[SinkOp] {
        &self.ops
    }

    /// Answers all operations in the batch. The answers must be in the same order as
    /// [`ops`](Self::ops). If there are too few answers, the remaining operations count as
    /// rejected.
    pub fn answer(mut self, answers: impl IntoIterator<Item = Result<Stored, SinkError>>) {
        let mut answers = answers.into_iter().collect::<Vec<_>>().into_iter();
        let (given, asked) = (answers.len(), self.ops.len());
        let missing = || {
            let text = format!("the sink gave {given} answers to {asked} operations");
            Err(SinkError::rejected(text))
        };
        let (ids, ops) = self.take();
        let replies: Vec<_> =
            ids.zip(ops).map(|(id, op)| (id, reply(op, answers.next().unwrap_or_else(missing)))).collect();
        self.replies.push(replies);
        // A surplus answer may hold an error whose cause is of a type defined by the sink. Dropping
        // such an error may panic.
        answers.for_each(|extra| {
            catch_panic(|| drop(extra));
        });
    }

    /// Passes ownership of each operation to `perform`, and then answers all operations together. A
    /// store that keeps the events therefore does not need to copy them. If an operation fails, the
    /// error [returns the operation](SinkOp::failed), so that the operation can be retried. If
    /// `perform` panics, the operation counts as rejected and its event is lost. The method then
    /// continues with the next operation.
    ///
    /// # Examples
    ///
    /// This example stores events in a list, in the order in which they arrive:
    ///
    /// ```
    /// use eventcast::sink::{SinkBatch, SinkMode, SinkOp, Stored};
    /// use eventcast::{Event, EventSink, SinkError};
    /// use std::sync::Mutex;
    ///
    /// #[derive(Default)]
    /// struct List(Mutex<Vec<Event>>);
    ///
    /// impl EventSink for List {
    ///     fn create(&self, event: &Event) -> Result<Event, SinkError> {
    ///         self.0.lock().unwrap().push(event.clone());
    ///         Ok(event.clone())
    ///     }
    ///
    ///     fn patch(&self, event: &Event) -> Result<Event, SinkError> {
    ///         self.create(event)
    ///     }
    ///
    ///     fn mode(&self) -> SinkMode {
    ///         SinkMode::Batches
    ///     }
    ///
    ///     fn submit(&self, batch: SinkBatch) {
    ///         let mut list = self.0.lock().unwrap();
    ///         batch.answer_each(|op| {
    ///             if op.event().reason.is_empty() {
    ///                 return Err(op.failed(SinkError::rejected("no reason")));
    ///             }
    ///             let stored = Stored::from(op.event());
    ///             list.push(op.into_event());
    ///             Ok(stored)
    ///         });
    ///     }
    /// }
    ///
    /// let mut event = Event::default();
    /// event.reason = "Started".into();
    /// let list = List::default();
    /// let ops = vec![SinkOp::Create(event.clone()), SinkOp::Create(Event::default())];
    /// let answers = SinkBatch::perform(ops, &list);
    /// assert!(answers[0].is_ok());
    /// assert_eq!(answers[1].as_ref().unwrap_err().op().event(), &Event::default());
    /// assert_eq!(*list.0.lock().unwrap(), [event]);
    /// ```
    pub fn answer_each(mut self, mut perform: impl FnMut(SinkOp) -> Result<Stored, SinkOpError>) {
        let (ids, ops) = self.take();
        let mut answer = |op| match catch_panic_message(|| perform(op)) {
            Ok(Ok(stored)) => Reply::Stored(stored),
            Ok(Err(failed)) => Reply::Failed(failed),
            Err(text) => Reply::Lost(SinkError::panicked(&text)),
        };
        let replies: Vec<_> = ids.zip(ops).map(|(id, op)| (id, answer(op))).collect();
        self.replies.push(replies);
    }

    fn take(&mut self) -> (impl Iterator<Item = OpId> + use<>, impl Iterator<Item = SinkOp> + use<>) {
        (std::mem::take(&mut self.ids).into_iter(), std::mem::take(&mut self.ops).into_iter())
    }
}

/// Iterates over the operations, so that each operation can be answered separately.
impl IntoIterator for SinkBatch {
    type Item = SinkCall;
    type IntoIter = std::vec::IntoIter<SinkCall>;

    fn into_iter(mut self) -> Self::IntoIter {
        let (ids, ops) = self.take();
        let call = |(id, op)| SinkCall { id, op: Some(op), replies: self.replies.clone() };
        ids.zip(ops).map(call).collect::<Vec<_>>().into_iter()
    }
}

impl Drop for SinkBatch {
    fn drop(&mut self) {
        if !self.ops.is_empty() {
            let (ids, ops) = self.take();
            self.replies.dropped(ids.zip(ops));
        }
    }
}

impl fmt::Debug for SinkBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkBatch").field("ops", &self.ops.len()).finish_non_exhaustive()
    }
}

/// A single operation that is submitted to a sink. When the operation is complete, the sink can
/// answer it on any thread. [Iterating](SinkBatch::into_iter) over a batch yields one call for each
/// operation in the batch.
///
/// If a call is dropped before it is answered, its operation fails with
/// [`GroupUnavailable`](SinkErrorKind::GroupUnavailable), and the recording retries the operation.
/// If the call is dropped by a panic, the operation is rejected, regardless of the thread and even
/// if the sink catches the panic.
///
/// # Examples
///
/// The sink in this example runs its operations concurrently:
///
/// ```
/// use eventcast::sink::{SinkBatch, SinkMode};
/// use eventcast::{Event, EventBroadcaster, EventSink, ObjectReference, SinkError};
/// use std::thread;
///
/// struct Remote;
///
/// impl EventSink for Remote {
///     fn create(&self, event: &Event) -> Result<Event, SinkError> {
///         Ok(event.clone())
///     }
///
///     fn patch(&self, event: &Event) -> Result<Event, SinkError> {
///         Ok(event.clone())
///     }
///
///     fn mode(&self) -> SinkMode {
///         SinkMode::InFlight(8)
///     }
///
///     fn submit(&self, batch: SinkBatch) {
///         for call in batch {
///             thread::spawn(move || {
///                 let stored = call.event().into(); // the request
///                 call.answer(Ok(stored));
///             });
///         }
///     }
/// }
///
/// let events = EventBroadcaster::new()?;
/// let recording = events.record_to(Remote)?;
/// events.recorder("doc").normal(ObjectReference::new("Pod", "web-0"), "Run", "it runs");
/// events.shutdown();
/// assert_eq!(recording.stats().created, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "an operation that is dropped without an answer fails"]
pub struct SinkCall {
    id: OpId,
    /// The operation, or `None` after the operation has been answered.
    op: Option<SinkOp>,
    replies: Arc<Replies>,
}

impl SinkCall {
    /// Returns the operation to be performed.
    pub fn op(&self) -> &SinkOp {
        /// A placeholder for the operation if the call has already been answered. This placeholder
        /// is never returned to a caller, because answering consumes the call.
        static ANSWERED: LazyLock<SinkOp> = LazyLock::new(|| SinkOp::Create(Event::default()));
        self.op.as_ref().unwrap_or(&ANSWERED)
    }

    /// Returns the event that the operation concerns.
    pub fn event(&self) -> &Event {
        self.op().event()
    }

    /// Answers the operation with its result.
    pub fn answer(mut self, answer: Result<Stored, SinkError>) {
        if let Some(op) = self.op.take() {
            self.replies.push([(self.id, reply(op, answer))]);
        }
    }
}

impl Drop for SinkCall {
    fn drop(&mut self) {
        if let Some(op) = self.op.take() {
            self.replies.dropped(std::iter::once((self.id, op)));
        }
    }
}

impl fmt::Debug for SinkCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkCall").finish_non_exhaustive()
    }
}

fn reply(op: SinkOp, answer: Result<Stored, SinkError>) -> Reply {
    match answer {
        Ok(stored) => Reply::Stored(stored),
        Err(error) => Reply::Failed(op.failed(error)),
    }
}
