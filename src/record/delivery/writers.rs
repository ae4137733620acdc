//! The writers: the threads that call the sink. The recording's own thread never does.

use std::collections::VecDeque;
use std::time::Duration;

use crate::bus::BulkWaker;
use crate::catch::{catch_panic, catch_panic_message};
use crate::record::event::Timestamp;
use crate::record::sink::{EventSink, SinkError, SinkOp, Stored, WriteOrder};
use crate::sync::{Arc, Mutex, Parker, Unparker, park_until, thread};

use super::write::Batch;

/// The largest number of operations that the sink gets at once.
pub(super) const BATCH: usize = 256;

/// The size of the first batch. It is small, so that a slow sink answers soon.
const FIRST_BATCH: usize = 16;

/// The writers as the driver sees them. The last of their threads to end drops the sink.
pub(super) struct Writers {
    writers: Vec<WriterHandle>,
    finished: Arc<Mutex<VecDeque<(usize, Batch)>>>,
}

struct WriterHandle {
    /// The empty batch for the next call. `None` while the writer has it.
    batch: Option<Batch>,
    /// The size of the largest batch that the writer may get.
    limit: usize,
    /// The time when the writer got the batch that it has: by the clock that never goes back, and
    /// of the day.
    since: (Duration, Timestamp),
    job: Arc<Mutex<Job>>,
    unparker: Unparker,
    thread: thread::JoinHandle<()>,
}

#[derive(Default)]
struct Job {
    batch: Option<Batch>,
    is_closed: bool,
}

impl Writers {
    pub(super) fn new(
        sink: impl EventSink,
        count: usize,
        name: &str,
        order: WriteOrder,
        waker: &BulkWaker,
    ) -> std::io::Result<Self> {
        let sink = Arc::new(sink);
        let finished = Arc::new(Mutex::new(VecDeque::with_capacity(count)));
        // If a thread cannot start, the drop of this ends those that have started.
        let mut this = Self { writers: Vec::with_capacity(count), finished };
        for number in 0..count {
            let (parker, job) = (Parker::new(), Arc::new(Mutex::new(Job::default())));
            let writer = Writer {
                sink: sink.clone(),
                number,
                order,
                job: job.clone(),
                finished: this.finished.clone(),
                waker: waker.clone(),
            };
            let unparker = parker.unparker();
            // The number comes first, because Linux cuts the name of a thread at 15 bytes.
            let thread = thread::spawn(format!("{}/{name}", number + 1), move || writer.run(&parker))?;
            this.writers.push(WriterHandle {
                batch: Some(Batch::default()),
                limit: FIRST_BATCH,
                since: (Duration::ZERO, Timestamp::UNIX_EPOCH),
                job,
                unparker,
                thread,
            });
        }
        Ok(this)
    }

    pub(super) fn len(&self) -> usize {
        self.writers.len()
    }

    /// Returns a writer's next batch, which is empty, and how many operations it may have. Returns
    /// `None` while the writer is at work.
    pub(super) fn batch(&mut self, writer: usize) -> Option<(&mut Batch, usize)> {
        let WriterHandle { batch, limit, .. } = &mut self.writers[writer];
        Some((batch.as_mut()?, *limit))
    }

    /// Returns whether no writer is at work.
    pub(super) fn is_idle(&self) -> bool {
        self.writers.iter().all(|writer| writer.batch.is_some())
    }

    /// Gives a writer its batch.
    pub(super) fn give(&mut self, writer: usize, since: (Duration, Timestamp)) {
        let writer = &mut self.writers[writer];
        writer.since = since;
        writer.job.lock().batch = writer.batch.take();
        writer.unparker.unpark();
    }

    /// Returns when the longest call of the sink that still runs began. Returns `None` if none
    /// runs.
    pub(super) fn longest_call(&self) -> Option<(Duration, Timestamp)> {
        self.writers.iter().filter(|writer| writer.batch.is_none()).map(|writer| writer.since).min()
    }

    /// Returns when a writer got the batch that it answered last.
    pub(super) fn since(&self, writer: usize) -> Duration {
        self.writers[writer].since.0
    }

    /// Takes an answered batch. The caller gives it back.
    pub(super) fn take_answered(&self) -> Option<(usize, Batch)> {
        self.finished.lock().pop_front()
    }

    /// Takes back a batch that had `len` operations, for its allocated room, and adjusts the size
    /// of the writer's next one.
    pub(super) fn give_back(&mut self, writer: usize, batch: Batch, len: usize, is_slow: bool) {
        let WriterHandle { batch: next, limit, .. } = &mut self.writers[writer];
        *next = Some(Batch { is_unsure: false, panics: 0, ..batch });
        if is_slow {
            *limit = (len / 2).max(1);
        } else if len >= *limit {
            *limit = (*limit * 2).min(BATCH);
        }
    }

    /// Returns whether there are answers.
    pub(super) fn has_answers(&self) -> bool {
        !self.finished.lock().is_empty()
    }
}

impl Drop for Writers {
    /// When this returns, the sink is dropped.
    fn drop(&mut self) {
        for writer in &self.writers {
            writer.job.lock().is_closed = true;
            writer.unparker.unpark();
        }
        for writer in self.writers.drain(..) {
            // A writer catches the panics of its sink, so there is no error to handle.
            let _ = writer.thread.join();
        }
    }
}

/// A writer, on its own thread.
struct Writer<S> {
    sink: Arc<S>,
    number: usize,
    order: WriteOrder,
    job: Arc<Mutex<Job>>,
    finished: Arc<Mutex<VecDeque<(usize, Batch)>>>,
    waker: BulkWaker,
}

impl<S: EventSink> Writer<S> {
    fn run(self, parker: &Parker) {
        let waker = self.waker.clone();
        waker.on_bus_thread(move || {
            self.work(parker);
            // The last of the writers drops the sink, which may panic and may call back.
            catch_panic(|| drop(self));
        });
    }

    fn work(&self, parker: &Parker) {
        loop {
            let (batch, is_closed) = {
                let mut job = self.job.lock();
                (job.batch.take(), job.is_closed)
            };
            match batch {
                Some(mut batch) => {
                    match self.order {
                        WriteOrder::PerKey => batch.perform(&*self.sink),
                        WriteOrder::Bus => batch.perform_in_order(&*self.sink),
                    }
                    self.finished.lock().push_back((self.number, batch));
                    self.waker.wake();
                }
                None if is_closed => break,
                None => park_until(parker, None),
            }
        }
    }
}

impl Batch {
    /// Has the sink perform all operations together. If the sink panics, nobody knows how far it
    /// came, so it performs each operation again on its own.
    fn perform<S: EventSink>(&mut self, sink: &S) {
        let asked = self.ops.len();
        match catch_panic_message(|| sink.apply(&mut self.ops)) {
            Ok(mut answers) => {
                let given = answers.len();
                for extra in answers.drain(given.min(asked)..) {
                    catch_panic(|| drop(extra));
                }
                let missing = || {
                    let text = format!("the sink gave {given} answers to {asked} operations");
                    Err(SinkError::rejected(text))
                };
                answers.resize_with(asked, missing);
                self.answers = answers;
            }
            Err(text) if asked == 1 => self.answers.push(Err(SinkError::panicked(&text))),
            Err(_) => {
                self.panics += 1;
                self.is_unsure = true;
                self.answers.extend(self.ops.iter().map(|op| perform_one(sink, op)));
            }
        }
        self.check();
    }

    /// Has the sink perform one operation after the other, until one fails.
    fn perform_in_order<S: EventSink>(&mut self, sink: &S) {
        for op in &self.ops {
            let answer = perform_one(sink, op);
            let has_failed = answer.is_err();
            self.answers.push(answer);
            if has_failed {
                break;
            }
        }
        self.check();
    }

    /// Rejects the operations that failed although the sink took their events, and counts panics.
    fn check(&mut self) {
        for (op, answer) in self.ops.iter().zip(&mut self.answers) {
            if answer.is_err() {
                let failed = std::mem::replace(answer, Ok(Stored::default()));
                *answer = op.checked(failed);
            }
            self.panics += u64::from(answer.as_ref().is_err_and(SinkError::is_panic));
        }
    }
}

fn perform_one<S: EventSink>(sink: &S, op: &SinkOp) -> Result<Stored, SinkError> {
    let answer = catch_panic_message(|| op.apply_to(sink));
    answer.unwrap_or_else(|text| Err(SinkError::panicked(&text))).map(Stored::from)
}
