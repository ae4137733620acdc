//! The callers of the sink: the recording's own thread, or several workers.

use std::collections::VecDeque;

use crate::bus::BulkWaker;
use crate::catch::{catch_panic, catch_panic_message};
use crate::record::sink::{EventSink, SinkError, SinkOp, Stored};
use crate::sync::{Arc, Mutex, Parker, Unparker, park_until, thread};

use super::write::{Ticket, Write};

/// A write that the sink has tried, with its result.
pub(super) struct Attempt {
    pub(super) write: Write,
    pub(super) result: Result<Stored, SinkError>,
}

pub(super) type Attempts = VecDeque<Attempt>;

/// Writes that the sink gets together. Each belongs to another key.
#[derive(Default)]
pub(super) struct WriteBatch {
    tickets: Vec<Ticket>,
    ops: Vec<SinkOp>,
}

impl WriteBatch {
    /// Adds a write, and returns how many the batch has now.
    pub(super) fn push(&mut self, write: Write) -> usize {
        let (ticket, op) = write.into_op();
        self.tickets.push(ticket);
        self.ops.push(op);
        self.ops.len()
    }
}

/// The callers of the sink.
pub(super) enum Workers<S> {
    /// The recording's own thread. The sink is `None` only while it is dropped. The batch is empty
    /// between two calls.
    Inline(Option<S>, WriteBatch, Results),
    Threads(Vec<WorkerHandle>, Arc<Mutex<Results>>),
}

/// The results since the driver last took them.
#[derive(Default)]
pub(super) struct Results {
    attempts: Attempts,
    /// The workers that have finished, each with the batch that it was given, which is empty now.
    idle: Vec<(usize, WriteBatch)>,
    panics: u64,
}

impl Results {
    fn note(
        &mut self,
        writes: impl Iterator<Item = (Ticket, SinkOp)>,
        results: impl Iterator<Item = Result<Stored, SinkError>>,
    ) {
        for ((ticket, op), result) in writes.zip(results) {
            let result = op.checked(result);
            self.panics += u64::from(result.as_ref().is_err_and(SinkError::is_panic));
            self.attempts.push_back(Attempt { write: Write::back(ticket, op), result });
        }
    }

    /// Exchanges the answers for an empty list, and returns the number of panics since the last
    /// call.
    ///
    /// Without answers the lists stay where they are. The two lists alternate from one round of
    /// answers to the next, so neither allocates after two rounds, however often the driver looks
    /// in between.
    fn drain_into(&mut self, attempts: &mut Attempts) -> u64 {
        debug_assert!(attempts.is_empty());
        if !self.attempts.is_empty() {
            std::mem::swap(&mut self.attempts, attempts);
        }
        std::mem::take(&mut self.panics)
    }
}

/// A worker as the driver sees it.
pub(super) struct WorkerHandle {
    /// An empty batch for the next work. `None` while the worker has it.
    batch: Option<WriteBatch>,
    job: Arc<Mutex<Job>>,
    unparker: Unparker,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Job {
    batch: Option<WriteBatch>,
    is_closed: bool,
}

impl<S: EventSink> Workers<S> {
    pub(super) fn new(sink: S, workers: usize, name: &str, waker: &BulkWaker) -> std::io::Result<Self> {
        if workers <= 1 {
            return Ok(Self::Inline(Some(sink), WriteBatch::default(), Results::default()));
        }
        let (sink, finished) = (Arc::new(sink), Arc::new(Mutex::new(Results::default())));
        // The pool is made first, so that it ends the threads that have started if another one
        // cannot start.
        let mut pool = Self::Threads(Vec::with_capacity(workers), finished.clone());
        for number in 0..workers {
            let parker = Parker::new();
            let job = Arc::new(Mutex::new(Job::default()));
            let handle = WorkerHandle {
                batch: Some(WriteBatch::default()),
                job: job.clone(),
                unparker: parker.unparker(),
                thread: None,
            };
            let worker =
                Worker { sink: sink.clone(), number, job, finished: finished.clone(), waker: waker.clone() };
            let started = thread::spawn(format!("{name}-{}", number + 1), move || worker.run(&parker))?;
            if let Self::Threads(handles, _) = &mut pool {
                handles.push(WorkerHandle { thread: Some(started), ..handle });
            }
        }
        Ok(pool)
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Inline(..) => 1,
            Self::Threads(handles, _) => handles.len(),
        }
    }

    /// Returns whether this worker can be given work.
    pub(super) fn is_free(&self, worker: usize) -> bool {
        match self {
            Self::Inline(..) => true,
            Self::Threads(handles, _) => handles.get(worker).is_some_and(|handle| handle.batch.is_some()),
        }
    }

    /// Returns whether all workers have done what they were given.
    pub(super) fn is_idle(&self) -> bool {
        (0..self.len()).all(|worker| self.is_free(worker))
    }

    /// Gives a free worker the work that `fill` puts into the batch. If the recording's own thread
    /// is the worker, the work is done when this returns.
    pub(super) fn give(&mut self, worker: usize, fill: impl FnOnce(&mut WriteBatch)) {
        match self {
            Self::Inline(sink, batch, finished) => {
                fill(batch);
                if let Some(sink) = sink {
                    perform(&*sink, batch, finished);
                }
            }
            Self::Threads(handles, _) => {
                let Some(handle) = handles.get_mut(worker) else { return };
                let Some(mut batch) = handle.batch.take() else { return };
                fill(&mut batch);
                handle.job.lock().batch = Some(batch);
                handle.unparker.unpark();
            }
        }
    }

    /// Exchanges the answers since the last call for an empty list, and returns how often the sink
    /// panicked. Workers that have finished are free again.
    pub(super) fn take(&mut self, attempts: &mut Attempts) -> u64 {
        match self {
            Self::Inline(_, _, finished) => finished.drain_into(attempts),
            Self::Threads(handles, finished) => {
                let mut finished = finished.lock();
                let panics = finished.drain_into(attempts);
                for (worker, batch) in finished.idle.drain(..) {
                    if let Some(handle) = handles.get_mut(worker) {
                        handle.batch = Some(batch);
                    }
                }
                panics
            }
        }
    }

    /// Returns a function that returns whether there are answers. The function does not borrow the
    /// workers.
    pub(super) fn watch(&self) -> impl Fn() -> bool + use<S> {
        let finished = match self {
            Self::Inline(..) => None,
            Self::Threads(_, finished) => Some(finished.clone()),
        };
        move || finished.as_ref().is_some_and(|finished| !finished.lock().idle.is_empty())
    }
}

impl<S> Drop for Workers<S> {
    /// Drops the sink, which is the user's and may panic then. When this returns, the sink is
    /// dropped.
    fn drop(&mut self) {
        match self {
            Self::Inline(sink, ..) => {
                let sink = sink.take();
                catch_panic(|| drop(sink));
            }
            Self::Threads(handles, _) => {
                for handle in &*handles {
                    handle.job.lock().is_closed = true;
                    handle.unparker.unpark();
                }
                for handle in handles {
                    // A worker catches the panics of its sink, so there is no error to handle.
                    let _ = handle.thread.take().map(thread::JoinHandle::join);
                }
            }
        }
    }
}

/// A worker, on its own thread.
struct Worker<S> {
    sink: Arc<S>,
    number: usize,
    job: Arc<Mutex<Job>>,
    finished: Arc<Mutex<Results>>,
    waker: BulkWaker,
}

impl<S: EventSink> Worker<S> {
    fn run(self, parker: &Parker) {
        let waker = self.waker.clone();
        waker.on_bus_thread(move || {
            catch_panic(|| self.work(parker));
            // The last of the workers drops the sink, which may panic and may call back.
            catch_panic(|| drop(self));
        });
    }

    fn work(&self, parker: &Parker) {
        let mut mine = Results::default();
        loop {
            let (batch, is_closed) = {
                let mut job = self.job.lock();
                (job.batch.take(), job.is_closed)
            };
            match batch {
                Some(mut batch) => {
                    perform(&*self.sink, &mut batch, &mut mine);
                    {
                        let mut finished = self.finished.lock();
                        finished.attempts.append(&mut mine.attempts);
                        finished.panics += std::mem::take(&mut mine.panics);
                        finished.idle.push((self.number, batch));
                    }
                    self.waker.wake();
                }
                None if is_closed => break,
                None => park_until(parker, None),
            }
        }
    }
}

/// Has the sink do all operations of a batch. If the sink panics at a batch of several, nobody
/// knows how far it came, so each operation is done again on its own.
fn perform<S: EventSink>(sink: &S, batch: &mut WriteBatch, finished: &mut Results) {
    let WriteBatch { tickets, ops } = batch;
    if let [op] = &ops[..] {
        let result =
            catch_panic_message(|| op.apply_to(sink)).unwrap_or_else(|text| Err(SinkError::panicked(&text)));
        let result = std::iter::once(result.map(Stored::from));
        return finished.note(tickets.drain(..).zip(ops.drain(..)), result);
    }
    if let Ok(mut results) = catch_panic_message(|| sink.apply(ops)) {
        let (said, asked) = (results.len(), ops.len());
        for extra in results.drain(said.min(asked)..) {
            catch_panic(|| drop(extra));
        }
        let missing =
            || Err(SinkError::rejected(format!("the sink gave {said} answers to {asked} operations")));
        let results = results.into_iter().chain(std::iter::repeat_with(missing));
        return finished.note(tickets.drain(..).zip(ops.drain(..)), results);
    }
    finished.panics += 1;
    let mut one = WriteBatch::default();
    for (mut ticket, op) in tickets.drain(..).zip(ops.drain(..)) {
        ticket.is_unsure = true;
        one.tickets.push(ticket);
        one.ops.push(op);
        perform(sink, &mut one, finished);
    }
}
