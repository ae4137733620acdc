//! Who calls the sink: the recording's own thread, or several workers.

use std::collections::VecDeque;

use crate::bus::Bell;
use crate::event::Event;
use crate::guard::{caught, guarded};
use crate::sink::{EventSink, SinkError, SinkOp};
use crate::sync::{Arc, Mutex, Parker, Unparker, park_until, thread};

use super::write::{Ticket, Write};

/// What a sink did.
pub(super) struct Answer {
    pub(super) write: Write,
    pub(super) result: Result<Event, SinkError>,
}

pub(super) type Answers = VecDeque<Answer>;

/// Each of a batch belongs to another key.
#[derive(Default)]
pub(super) struct Batch {
    tickets: Vec<Ticket>,
    ops: Vec<SinkOp>,
}

impl Batch {
    /// Returns how many there are now.
    pub(super) fn push(&mut self, write: Write) -> usize {
        let (ticket, op) = write.into_op();
        self.tickets.push(ticket);
        self.ops.push(op);
        self.ops.len()
    }
}

/// Those who call the sink.
pub(super) enum Crew<S> {
    /// `None` only while it goes. The batch is empty.
    Alone(Option<S>, Batch, Done),
    Several(Vec<Desk>, Arc<Mutex<Done>>),
}

/// What has been done since somebody last looked.
#[derive(Default)]
pub(super) struct Done {
    answers: Answers,
    /// Which workers have nothing to do any more, each with the batch that it was given, which is empty now.
    idle: Vec<(usize, Batch)>,
    panics: u64,
}

impl Done {
    fn note(
        &mut self,
        writes: impl Iterator<Item = (Ticket, SinkOp)>,
        results: impl Iterator<Item = Result<Event, SinkError>>,
    ) {
        for ((ticket, op), result) in writes.zip(results) {
            self.panics += u64::from(result.as_ref().is_err_and(SinkError::is_panic));
            self.answers.push_back(Answer { write: Write::back(ticket, op), result });
        }
    }

    /// Exchanges the answers for an empty list, and returns the panics since the last call.
    ///
    /// Without answers the lists stay where they are. The two alternate from one round of answers to the next, so after
    /// two rounds neither allocates, however often the driver looks in between.
    fn hand_over(&mut self, answers: &mut Answers) -> u64 {
        debug_assert!(answers.is_empty());
        if !self.answers.is_empty() {
            std::mem::swap(&mut self.answers, answers);
        }
        std::mem::take(&mut self.panics)
    }
}

/// A worker, as seen by who gives it work.
pub(super) struct Desk {
    /// Empty, for the next one; `None` while the worker has it.
    batch: Option<Batch>,
    tray: Arc<Mutex<Tray>>,
    unparker: Unparker,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Tray {
    batch: Option<Batch>,
    is_closed: bool,
}

impl<S: EventSink> Crew<S> {
    pub(super) fn new(sink: S, workers: usize, name: &str, bell: &Bell) -> std::io::Result<Self> {
        if workers <= 1 {
            return Ok(Self::Alone(Some(sink), Batch::default(), Done::default()));
        }
        let (sink, done) = (Arc::new(sink), Arc::new(Mutex::new(Done::default())));
        // Made at once, so that it ends those that have begun when another one cannot.
        let mut crew = Self::Several(Vec::with_capacity(workers), done.clone());
        for number in 0..workers {
            let parker = Parker::new();
            let tray = Arc::new(Mutex::new(Tray::default()));
            let desk = Desk {
                batch: Some(Batch::default()),
                tray: tray.clone(),
                unparker: parker.unparker(),
                thread: None,
            };
            let worker = Worker { sink: sink.clone(), number, tray, done: done.clone(), bell: bell.clone() };
            let started = thread::spawn(format!("{name}-{}", number + 1), move || worker.run(&parker))?;
            if let Self::Several(desks, _) = &mut crew {
                desks.push(Desk { thread: Some(started), ..desk });
            }
        }
        Ok(crew)
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Alone(..) => 1,
            Self::Several(desks, _) => desks.len(),
        }
    }

    /// Whether this one can be given work.
    pub(super) fn is_free(&self, worker: usize) -> bool {
        match self {
            Self::Alone(..) => true,
            Self::Several(desks, _) => desks.get(worker).is_some_and(|desk| desk.batch.is_some()),
        }
    }

    /// Whether all have done what they were given.
    pub(super) fn is_idle(&self) -> bool {
        (0..self.len()).all(|worker| self.is_free(worker))
    }

    /// Gives work to one who is free, as far as `fill` puts it into the batch. Who is alone does it now.
    pub(super) fn give(&mut self, worker: usize, fill: impl FnOnce(&mut Batch)) {
        match self {
            Self::Alone(sink, batch, done) => {
                fill(batch);
                if let Some(sink) = sink {
                    perform(&*sink, batch, done);
                }
            }
            Self::Several(desks, _) => {
                let Some(desk) = desks.get_mut(worker) else { return };
                let Some(mut batch) = desk.batch.take() else { return };
                fill(&mut batch);
                desk.tray.lock().batch = Some(batch);
                desk.unparker.unpark();
            }
        }
    }

    /// Exchanges the answers since the last call for an empty list, and returns how often the sink panicked.
    pub(super) fn take(&mut self, answers: &mut Answers) -> u64 {
        match self {
            Self::Alone(_, _, done) => done.hand_over(answers),
            Self::Several(desks, done) => {
                let mut done = done.lock();
                let panics = done.hand_over(answers);
                for (worker, batch) in done.idle.drain(..) {
                    if let Some(desk) = desks.get_mut(worker) {
                        desk.batch = Some(batch);
                    }
                }
                panics
            }
        }
    }

    /// Tells whether there are answers, also while the crew is not looked at.
    pub(super) fn watch(&self) -> impl Fn() -> bool + use<S> {
        let done = match self {
            Self::Alone(..) => None,
            Self::Several(_, done) => Some(done.clone()),
        };
        move || done.as_ref().is_some_and(|done| !done.lock().idle.is_empty())
    }
}

impl<S> Drop for Crew<S> {
    /// The sink is the user's, and may panic when it goes. When this returns it has gone.
    fn drop(&mut self) {
        match self {
            Self::Alone(sink, ..) => {
                let sink = sink.take();
                guarded(|| drop(sink));
            }
            Self::Several(desks, _) => {
                for desk in &*desks {
                    desk.tray.lock().is_closed = true;
                    desk.unparker.unpark();
                }
                for desk in desks {
                    // A worker catches what its sink does, so there is no error to be had.
                    let _ = desk.thread.take().map(thread::JoinHandle::join);
                }
            }
        }
    }
}

/// A worker, on its own thread.
struct Worker<S> {
    sink: Arc<S>,
    number: usize,
    tray: Arc<Mutex<Tray>>,
    done: Arc<Mutex<Done>>,
    bell: Bell,
}

impl<S: EventSink> Worker<S> {
    fn run(self, parker: &Parker) {
        let bell = self.bell.clone();
        bell.on_bus(move || {
            guarded(|| self.work(parker));
            // The last of the workers has the sink, which may panic when it goes, and may call
            // back.
            guarded(|| drop(self));
        });
    }

    fn work(&self, parker: &Parker) {
        let mut mine = Done::default();
        loop {
            let (batch, is_closed) = {
                let mut tray = self.tray.lock();
                (tray.batch.take(), tray.is_closed)
            };
            match batch {
                Some(mut batch) => {
                    perform(&*self.sink, &mut batch, &mut mine);
                    {
                        let mut done = self.done.lock();
                        done.answers.append(&mut mine.answers);
                        done.panics += std::mem::take(&mut mine.panics);
                        done.idle.push((self.number, batch));
                    }
                    self.bell.ring();
                }
                None if is_closed => break,
                None => park_until(parker, None),
            }
        }
    }
}

/// Has the sink do it all. If it panics in the middle, nobody knows how far it came, so each is done again by itself.
fn perform<S: EventSink>(sink: &S, batch: &mut Batch, done: &mut Done) {
    let Batch { tickets, ops } = batch;
    if let [op] = &ops[..] {
        let result = caught(|| op.apply_to(sink)).unwrap_or_else(|text| Err(SinkError::panicked(&text)));
        return done.note(tickets.drain(..).zip(ops.drain(..)), std::iter::once(result));
    }
    if let Ok(mut results) = caught(|| sink.apply(ops)) {
        let (said, asked) = (results.len(), ops.len());
        for extra in results.drain(said.min(asked)..) {
            guarded(|| drop(extra));
        }
        let missing =
            || Err(SinkError::rejected(format!("the sink gave {said} answers to {asked} operations")));
        let results = results.into_iter().chain(std::iter::repeat_with(missing));
        return done.note(tickets.drain(..).zip(ops.drain(..)), results);
    }
    done.panics += 1;
    let mut one = Batch::default();
    for (mut ticket, op) in tickets.drain(..).zip(ops.drain(..)) {
        ticket.is_unsure = true;
        one.tickets.push(ticket);
        one.ops.push(op);
        perform(sink, &mut one, done);
    }
}
