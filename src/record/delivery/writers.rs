//! The writers, which are the threads that call the sink. The recording's own thread calls the sink
//! only to determine an event's group.

use std::collections::VecDeque;
use std::time::Duration;

use crate::bus::{WatchHandle, wake_reader};
use crate::catch::catch_panic;
use crate::record::sink::{
    EventSink, OpId, Replies, Reply, SinkBatch, SinkError, SinkMode, SinkOp, WriteOrder, in_call,
};
use crate::sync::{Arc, Mutex, Parker, Unparker, park_until, thread};

use super::write::{Ops, times};

/// The maximum number of operations in one batch for the sink.
pub(super) const BATCH: usize = 256;

/// The maximum time that a writer's batch of operations should take. If two consecutive batches
/// take longer, the next batch is half as large. If a batch does not take longer, the next batch
/// may be twice as large. A working sink therefore responds several times a second.
const LONG_CALL: Duration = Duration::from_millis(250);

/// The size of the first batch, which is small so that even a slow sink responds soon.
const FIRST_BATCH: usize = 16;

/// The driver's handle to the writers. The last writer thread to exit drops the sink.
pub(super) struct Writers {
    mode: SinkMode,
    order: WriteOrder,
    queue: Arc<Mutex<Queue>>,
    replies: Arc<Replies>,
    threads: Vec<(Unparker, thread::JoinHandle<()>)>,
    /// The number of operations that a free writer may be given.
    limit: usize,
    /// The time at which the last operations were given to the writers, and the number of those
    /// operations. `None` once those operations are done.
    round: Option<(Duration, usize)>,
    /// Whether the previous round was slow.
    was_slow: bool,
    /// An empty list that is kept to reuse its allocation.
    answers: Vec<(OpId, Reply)>,
}

/// The operations that no writer has started yet.
#[derive(Default)]
struct Queue {
    ids: VecDeque<OpId>,
    ops: VecDeque<SinkOp>,
    /// The number of operations that a writer takes at a time.
    share: usize,
    /// The numbers of the writers that have nothing to do.
    idle: Vec<usize>,
    /// Whether a writer has become idle since the driver last checked.
    has_news: bool,
    is_closed: bool,
    /// The number of caught sink panics that affected several operations.
    panics: u64,
}

impl Writers {
    pub(super) fn new<S: EventSink>(
        sink: &Arc<S>,
        count: usize,
        name: &str,
        order: WriteOrder,
        watch: &WatchHandle,
    ) -> std::io::Result<Self> {
        let driver = watch.clone();
        // If a thread cannot be started, dropping this value ends the threads that are already
        // running.
        let mut this = Self {
            mode: sink.mode(),
            order,
            queue: Arc::default(),
            replies: Replies::new(move || wake_reader(&driver)),
            threads: Vec::with_capacity(count),
            limit: FIRST_BATCH,
            round: None,
            was_slow: false,
            answers: Vec::new(),
        };
        for number in 0..count {
            let parker = Parker::new();
            let writer = Writer {
                sink: sink.clone(),
                number,
                order,
                mode: this.mode,
                queue: this.queue.clone(),
                replies: this.replies.clone(),
                watch: watch.clone(),
            };
            let unparker = parker.unparker();
            // The number comes first, because Linux truncates thread names to 15 bytes.
            let thread = thread::spawn(format!("{}/{name}", number + 1), move || writer.run(&parker))?;
            this.threads.push((unparker, thread));
        }
        // From now on, each thread counts as free, even if the thread has not run yet.
        this.queue.lock().idle = (0..count).collect();
        Ok(this)
    }

    /// Returns the number of operations that may be in progress at the same time. `has_groups` is
    /// true if more than one group is known.
    pub(super) fn places(&self, has_groups: bool) -> usize {
        match self.mode {
            SinkMode::InFlight(places) => places.max(1),
            // If an operation were queued after another group's slow operation, it would have to
            // wait for that slow operation.
            SinkMode::OneByOne if has_groups => self.threads.len(),
            _ => self.threads.len().saturating_mul(self.limit),
        }
    }

    /// Returns the number of operations that may be given to the free writers while `under_way`
    /// operations are in progress.
    pub(super) fn free(&self, under_way: usize, has_groups: bool) -> usize {
        let queue = self.queue.lock();
        // If a writer has become idle since the check in `settle`, it gets work in the next round,
        // when the duration of its last work is known. That writer has set `has_news`, so the next
        // round follows immediately.
        let is_settled = self.round.is_none();
        let writers = if queue.ops.is_empty() && is_settled { queue.idle.len() } else { 0 };
        match self.mode {
            _ if writers == 0 => 0,
            SinkMode::InFlight(_) => self.places(has_groups).saturating_sub(under_way),
            SinkMode::OneByOne if has_groups => writers,
            _ => writers.saturating_mul(self.limit),
        }
    }

    /// Gives operations to the free writers.
    pub(super) fn give(&mut self, ops: &mut Ops, now: Duration) {
        let len = ops.ids.len();
        self.round = Some((now, len));
        let mut queue = self.queue.lock();
        let wanted = match (self.order, self.mode) {
            (WriteOrder::PerKey, SinkMode::OneByOne) => len,
            (WriteOrder::PerKey, SinkMode::Batches) => len.div_ceil(self.limit),
            _ => 1,
        };
        let first = queue.idle.len().saturating_sub(wanted);
        queue.share = match self.mode {
            SinkMode::OneByOne if self.order == WriteOrder::PerKey => 1,
            _ => len.div_ceil(queue.idle.len() - first),
        };
        // The queue is empty, because a writer is free. The caller gets the queue's allocations in
        // return.
        ops.ids = Vec::from(std::mem::replace(&mut queue.ids, std::mem::take(&mut ops.ids).into()));
        ops.ops = Vec::from(std::mem::replace(&mut queue.ops, std::mem::take(&mut ops.ops).into()));
        for writer in queue.idle.drain(first..) {
            self.threads[writer].0.unpark();
        }
    }

    /// Takes the sink's responses that have arrived. The caller must then check for free writers.
    pub(super) fn take_answers(&mut self) -> Vec<(OpId, Reply)> {
        self.queue.lock().has_news = false;
        let mut answers = std::mem::take(&mut self.answers);
        self.replies.take(&mut answers);
        answers
    }

    /// Takes back the empty list of responses to reuse its allocation. If the last operations are
    /// done, adjusts the number of operations that a writer may be given. `now` is `None` if the
    /// clock is fake, because a call to the sink takes real time.
    pub(super) fn settle(&mut self, answers: Vec<(OpId, Reply)>, now: Option<Duration>) {
        self.answers = answers;
        let is_done = || {
            let queue = self.queue.lock();
            queue.ops.is_empty() && !queue.idle.is_empty()
        };
        let Some((since, len)) = self.round.filter(|_| is_done()) else { return };
        self.round = None;
        // One slow round is not enough to judge the sink.
        let is_slow = now.is_some_and(|now| now >= since.saturating_add(LONG_CALL));
        let was_slow = std::mem::replace(&mut self.was_slow, is_slow);
        if self.was_slow {
            if was_slow {
                self.limit = (len / 2).max(1);
            }
        } else if len >= self.limit.div_ceil(2) {
            // If there are several groups, the groups that have something to send may fill only
            // half of the slots.
            self.limit = (self.limit * 2).min(BATCH);
        }
    }

    /// Returns, and resets, the number of panics that affected several operations.
    pub(super) fn take_panics(&self) -> u64 {
        std::mem::take(&mut self.queue.lock().panics)
    }

    /// Returns whether there are responses or a free writer that the driver has not seen yet.
    pub(super) fn has_news(&self) -> bool {
        self.replies.has_any() || self.queue.lock().has_news
    }
}

impl Drop for Writers {
    /// Waits for the writers to exit, after which the sink has been dropped.
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        for (unparker, _) in &self.threads {
            unparker.unpark();
        }
        for (_, thread) in self.threads.drain(..) {
            // A writer catches the sink's panics, so there is no error to handle.
            let _ = thread.join();
        }
    }
}

/// A writer, which runs on its own thread.
struct Writer<S> {
    sink: Arc<S>,
    number: usize,
    order: WriteOrder,
    mode: SinkMode,
    queue: Arc<Mutex<Queue>>,
    replies: Arc<Replies>,
    watch: WatchHandle,
}

impl<S: EventSink> Writer<S> {
    fn run(self, parker: &Parker) {
        let watch = self.watch.clone();
        watch.on_bus_thread(move || {
            self.work(parker);
            // The last writer drops the sink, which may panic or call back into the bus.
            catch_panic(|| drop(self));
        });
    }

    fn work(&self, parker: &Parker) {
        let (mut ops, mut has_worked) = (Ops::default(), false);
        loop {
            let (is_closed, has_news) = self.next(&mut ops);
            let is_empty = ops.ids.is_empty();
            if is_empty && is_closed {
                break;
            }
            // Wakes the driver, which then checks for responses and free writers.
            if has_news || is_empty && std::mem::take(&mut has_worked) {
                self.replies.wake();
            }
            if is_empty {
                park_until(parker, None);
                continue;
            }
            has_worked = true;
            match (self.order, self.mode) {
                (WriteOrder::Bus, _) => self.perform_in_order(&mut ops),
                (WriteOrder::PerKey, SinkMode::OneByOne) => self.perform_one_by_one(&mut ops),
                (WriteOrder::PerKey, _) => self.submit(&mut ops),
            }
        }
    }

    /// Takes the next operations. If there are no operations, this writer is idle from now on.
    /// Returns whether no more operations will follow, and whether the driver may now be able to
    /// give more work to the writers.
    fn next(&self, ops: &mut Ops) -> (bool, bool) {
        let mut queue = self.queue.lock();
        let at = queue.idle.iter().position(|idle| *idle == self.number);
        let most = queue.share.min(queue.ops.len());
        if most == queue.ops.len() {
            ops.ids = Vec::from(std::mem::replace(&mut queue.ids, std::mem::take(&mut ops.ids).into()));
            ops.ops = Vec::from(std::mem::replace(&mut queue.ops, std::mem::take(&mut ops.ops).into()));
        } else {
            ops.ids.extend(queue.ids.drain(..most));
            ops.ops.extend(queue.ops.drain(..most));
        }
        match at {
            None if most == 0 => queue.idle.push(self.number),
            Some(at) if most > 0 => drop(queue.idle.swap_remove(at)),
            _ => {}
        }
        // The driver is notified if a writer is free while no operation is waiting. The free writer
        // is either this writer, which has just become idle, or another writer, because this writer
        // took the last operation.
        let is_new = if most == 0 { at.is_none() } else { queue.ops.is_empty() };
        let has_news = is_new && !queue.idle.is_empty();
        queue.has_news |= has_news;
        (queue.is_closed, has_news)
    }

    fn perform_one_by_one(&self, ops: &mut Ops) {
        // The driver is woken only when a writer has nothing left to do, because the driver could
        // not give any work to a writer before then.
        for (id, op) in ops.ids.drain(..).zip(ops.ops.drain(..)) {
            let reply = self.perform(op);
            self.replies.push_quietly([(id, reply)]);
        }
    }

    fn perform(&self, op: SinkOp) -> Reply {
        match op.perform(&*self.sink) {
            Ok(stored) => Reply::Stored(stored),
            Err(failed) => Reply::Failed(failed),
        }
    }

    /// Submits operations as one batch. If the sink panics, the operations without a response may
    /// or may not have been performed, so each of these operations is submitted again separately.
    fn submit(&self, ops: &mut Ops) {
        let is_alone = ops.ids.len() == 1;
        let (ids, ops) = (std::mem::take(&mut ops.ids), std::mem::take(&mut ops.ops));
        let batch = SinkBatch::new(ids, ops, self.replies.clone());
        let Err((text, left)) = in_call(&self.replies, || self.sink.submit(batch)) else { return };
        if is_alone {
            let failed = |op: SinkOp| Reply::Failed(op.failed(SinkError::panicked(&text)));
            return self.replies.push_quietly(left.into_iter().map(|(id, op)| (id, failed(op))));
        }
        self.queue.lock().panics += 1;
        for (id, op) in left {
            self.replies.push_quietly([(id, Reply::Unsure(times(op.event())))]);
            self.submit(&mut Ops { ids: vec![id], ops: vec![op] });
        }
    }

    /// Lets the sink perform the operations sequentially, until an operation fails or has no
    /// response yet.
    fn perform_in_order(&self, ops: &mut Ops) {
        let mut left = ops.ids.drain(..).zip(ops.ops.drain(..));
        for (id, op) in left.by_ref() {
            if self.mode == SinkMode::OneByOne {
                let reply = self.perform(op);
                self.replies.push_quietly([(id, reply)]);
            } else {
                self.submit(&mut Ops { ids: vec![id], ops: vec![op] });
            }
            if !self.replies.has_stored(id) {
                break;
            }
        }
        self.replies.push_quietly(left.map(|(id, op)| (id, Reply::Unsent(Box::new(op)))));
    }
}
