//! Random programs that run step by step on a model and on the real bus, which are compared after
//! each step.

use std::fmt::{self, Debug};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use eventcast::OverflowPolicy;
use proptest::prelude::*;
use proptest::strategy::Union;
use proptest::test_runner::TestCaseError;

use super::api::{Event, Figures, Filter, How, Nothing, Place, Refused, Says, Speaker, Spec, Totals};
use super::mailbox::Mailbox;
use super::real::{Real, RealReader};

/// The time limit for the real bus. Its own work takes very little time, so only a fault can reach
/// this limit.
const PATIENCE: Duration = Duration::from_secs(180);
/// The time limit while a failing program is being shrunk.
const IMPATIENCE: Duration = Duration::from_millis(300);

/// A broadcaster simple enough to be obviously correct.
pub trait Model {
    /// Whether the real bus has finished all its work when a call returns, so that the test does
    /// not have to wait.
    const IS_INLINE: bool;

    fn new(incoming_capacity: usize, max_batch: usize) -> Self;
    /// Publishes without waiting. Does nothing and returns `None` if the bus's behaviour is not
    /// specified.
    fn publish(&mut self, events: Vec<Event>, how: How) -> Option<Publish>;
    fn publish_gap(&mut self, events: u64) -> Result<(), Refused>;
    /// Registers a watcher and returns its number, or `None` if the bus is closed.
    fn watch(&mut self, spec: &Spec) -> Option<usize>;
    fn mailbox(&self, number: usize) -> &Mailbox;
    /// Changes the mailbox, and then lets the bus do as much work as it can.
    fn with<R>(&mut self, number: usize, act: impl FnOnce(&mut Mailbox) -> R) -> R;
    /// Lets time pass.
    fn advance(&mut self, by: Duration);
    /// Returns whether the bus waits for a watcher to free capacity.
    fn is_blocked(&self) -> bool;
    fn is_abandoned(&self) -> bool;
    fn close(&mut self);
    fn shutdown(&mut self, give_up: bool) -> bool;
    fn totals(&self) -> Totals;
    /// Checks everything else that can be observed about a watcher.
    fn check(&self, number: usize, real: &RealReader) -> Result<(), TestCaseError>;
}

/// The events to publish on the real bus, and the model's result.
pub struct Publish {
    pub events: Vec<Event>,
    pub how: How,
    pub answer: Result<(), Refused>,
}

#[derive(Clone)]
pub struct Program {
    incoming_capacity: usize,
    max_batch: usize,
    steps: Vec<Step>,
}

impl Debug for Program {
    /// Writes one line for each step, in every format.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "a bus of incoming_capacity {}, max_batch {}", self.incoming_capacity, self.max_batch)?;
        self.steps.iter().enumerate().try_for_each(|(number, step)| writeln!(f, "  {number}: {step:?}"))
    }
}

/// A step of a program. A watcher is identified by its index among the existing watchers, modulo
/// their number.
#[derive(Clone, Debug)]
enum Step {
    Publish(How, usize),
    Gap(u64),
    /// Registers a watcher with a prefix of this number of events.
    Watch(Spec, usize),
    Receive(usize),
    ReceiveRef(usize),
    ReceiveBatch(usize),
    ReceiveAll(usize),
    Stop(usize),
    Drop(usize),
    Advance(u64),
    Flush,
    Close,
    Shutdown,
}

fn policy() -> impl Strategy<Value = OverflowPolicy> {
    prop_oneof![
        3 => Just(OverflowPolicy::DropIncoming),
        2 => Just(OverflowPolicy::Evict),
        3 => Just(OverflowPolicy::DropOldest),
        2 => Just(OverflowPolicy::Wait),
        3 => (0..4_u64).prop_map(|time| OverflowPolicy::WaitFor(Duration::from_secs(time))),
    ]
}

/// Nearly all watchers have a time limit, so that the watchers without a limit rarely keep the bus
/// full.
fn limits() -> impl Strategy<Value = OverflowPolicy> {
    prop_oneof![
        6 => (1..5_u64).prop_map(|time| OverflowPolicy::WaitFor(Duration::from_secs(time))),
        1 => policy(),
    ]
}

fn filter() -> impl Strategy<Value = Filter> {
    prop_oneof![
        4 => Just(Filter::None),
        3 => (2..5_u64).prop_map(Filter::Without),
        1 => (2..5_u64, 15..40_u64).prop_map(|(without, panics)| Filter::Panics(without, panics)),
    ]
}

fn single(is_inline: bool) -> impl Strategy<Value = How> {
    let all = [How::Try, How::Wait, How::Timeout, How::Async];
    prop::sample::select(if is_inline { all.to_vec() } else { all[..3].to_vec() })
}

fn several() -> impl Strategy<Value = How> {
    prop_oneof![Just(How::Batch), Just(How::TryBatch)]
}

fn speaker() -> impl Strategy<Value = Speaker> {
    let says = prop_oneof![
        6 => single(true).prop_map(|how| Says::Publish(how, 1)),
        6 => (several(), 0..8_usize).prop_map(|(how, count)| Says::Publish(how, count)),
        2 => (1..4_u64).prop_map(Says::Gap),
        1 => Just(Says::Close),
    ];
    let place = prop_oneof![Just(Place::Filter), Just(Place::Hook)];
    (place, 1..5_u64, says).prop_map(|(place, every, says)| match says {
        // A larger number keeps some programs from ending early.
        Says::Close => Speaker { place, every: 5 * every + 11, says },
        says => Speaker { place, every, says },
    })
}

/// Generates a step on a bus with or without a dispatcher. Filters and hooks publish only on a bus
/// without a dispatcher, because the documentation specifies the result only there.
fn step(is_inline: bool, policy: BoxedStrategy<OverflowPolicy>) -> impl Strategy<Value = Step> {
    let speaker = if is_inline { prop::option::weighted(0.3, speaker()).boxed() } else { Just(None).boxed() };
    let watch = (1..13_usize, policy, 0..4_usize, filter(), speaker).prop_map(
        |(queue_capacity, policy, prefix, filter, speaker)| {
            Step::Watch(Spec { queue_capacity, policy, prefix: Vec::new(), filter, speaker }, prefix)
        },
    );
    let end = prop_oneof![6 => Just(Step::Advance(1)), 1 => Just(Step::Close), 1 => Just(Step::Shutdown)];
    let many = (several(), 0..14_usize).prop_map(|(how, events)| Step::Publish(how, events));
    let mut steps = vec![
        (12, single(is_inline).prop_map(|how| Step::Publish(how, 1)).boxed()),
        (10, many.boxed()),
        (5, watch.boxed()),
        (10, (0..8_usize).prop_map(Step::Receive).boxed()),
        (4, (0..8_usize).prop_map(Step::ReceiveRef).boxed()),
        (8, (0..8_usize).prop_map(Step::ReceiveBatch).boxed()),
        (4, (0..8_usize).prop_map(Step::ReceiveAll).boxed()),
        (2, (0..8_usize).prop_map(Step::Stop).boxed()),
        (2, (0..8_usize).prop_map(Step::Drop).boxed()),
        (4, (0..3_u64).prop_map(Step::Advance).boxed()),
        (1, end.boxed()),
    ];
    if is_inline {
        steps.push((2, (0..4_u64).prop_map(Step::Gap).boxed()));
        steps.push((1, Just(Step::Flush).boxed()));
    }
    Union::new_weighted(steps)
}

pub fn program<M: Model>() -> impl Strategy<Value = Program> {
    let steps = |policy| prop::collection::vec(step(M::IS_INLINE, policy), 1..80);
    let limits = if M::IS_INLINE { limits().boxed() } else { policy().boxed() };
    let steps = prop_oneof![2 => steps(policy().boxed()), 1 => steps(limits)];
    (1..7_usize, 1..7_usize, steps).prop_map(|(incoming_capacity, max_batch, steps)| Program {
        incoming_capacity,
        max_batch,
        steps,
    })
}

struct Both<M> {
    real: Real,
    model: M,
    /// Each reader, with its number in the model.
    readers: Vec<(RealReader, usize)>,
    next_event: Event,
}

/// Runs the program on the model and on the real bus. An error names the difference and the step
/// after which the difference occurred.
pub fn run<M: Model>(program: &Program) -> Result<(), TestCaseError> {
    let (incoming_capacity, max_batch) = (program.incoming_capacity, program.max_batch);
    let real = Real::new(incoming_capacity, max_batch, M::IS_INLINE);
    let mut both =
        Both { real, model: M::new(incoming_capacity, max_batch), readers: Vec::new(), next_event: 1 };
    let end = [Step::Shutdown];
    for (number, step) in program.steps.iter().chain(&end).enumerate() {
        let result = both.step(step).and_then(|()| both.settle());
        result.map_err(|error| TestCaseError::fail(format!("step {number}, {step:?}: {error}")))?;
    }
    for reader in 0..both.readers.len() {
        both.receive_all(reader)?;
        prop_assert_eq!(both.readers[reader].0.receive(), Err(Nothing::Ever));
    }
    both.settle()?;
    while !both.readers.is_empty() {
        both.leave(0);
    }
    both.settle()
}

impl<M: Model> Both<M> {
    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Publish(how, events) => self.publish(*how, *events)?,
            Step::Gap(events) => {
                prop_assert_eq!(self.real.publish_gap(*events), self.model.publish_gap(*events));
            }
            Step::Watch(spec, prefix) => {
                let spec = Spec { prefix: self.events(*prefix), ..spec.clone() };
                let number = self.model.watch(&spec);
                let real = self.real.watch(&spec, number.unwrap_or_default());
                prop_assert_eq!(real.is_some(), number.is_some());
                self.readers.extend(real.zip(number));
            }
            Step::Advance(seconds) => {
                self.real.advance(Duration::from_secs(*seconds));
                self.model.advance(Duration::from_secs(*seconds));
            }
            Step::Flush => prop_assert!(self.real.flush()),
            Step::Close => {
                self.real.bus.close();
                self.model.close();
            }
            Step::Shutdown => {
                let give_up = self.model.is_blocked();
                prop_assert_eq!(self.real.shutdown(give_up), self.model.shutdown(give_up), "complete");
            }
            Step::Receive(reader)
            | Step::ReceiveRef(reader)
            | Step::ReceiveBatch(reader)
            | Step::ReceiveAll(reader)
            | Step::Stop(reader)
            | Step::Drop(reader) => {
                let chosen = reader.checked_rem(self.readers.len());
                return chosen.map_or(Ok(()), |reader| self.step_of(step, reader));
            }
        }
        Ok(())
    }

    /// Performs one reader's step.
    fn step_of(&mut self, step: &Step, reader: usize) -> Result<(), TestCaseError> {
        let (real, number) = &self.readers[reader];
        let mailbox = self.model.mailbox(*number);
        match step {
            // `receive_ref` would never return if there is nothing to receive.
            Step::ReceiveRef(_) if !mailbox.is_empty() => {
                return self.receive(reader, RealReader::receive_ref, Mailbox::receive_ref);
            }
            Step::ReceiveBatch(_) => return self.receive_batch(reader),
            Step::ReceiveAll(_) => return self.receive_all(reader),
            // In this state, the number of waiting events that have entered the queue is not
            // determined.
            Step::Stop(_) if mailbox.is_unsure => {}
            Step::Stop(_) => {
                real.watcher.stop();
                self.model.with(*number, |mailbox| mailbox.is_stopped = true);
            }
            // Dropping returns the borrowed events and then removes the reader. The dispatcher may
            // offer more events in between.
            Step::Drop(_) if mailbox.is_begrudged() => {}
            Step::Drop(_) => self.leave(reader),
            _ => return self.receive(reader, RealReader::receive, Mailbox::receive),
        }
        Ok(())
    }

    fn leave(&mut self, reader: usize) {
        let (real, number) = self.readers.swap_remove(reader);
        drop(real);
        let is_abandoned = self.model.is_abandoned();
        self.model.with(number, |mailbox| mailbox.leave(is_abandoned));
    }

    fn events(&mut self, count: usize) -> Vec<Event> {
        let first = self.next_event;
        self.next_event += count as u64;
        (first..self.next_event).collect()
    }

    fn publish(&mut self, how: How, count: usize) -> Result<(), TestCaseError> {
        let events = self.events(count);
        if let Some(Publish { events, how, answer }) = self.model.publish(events, how) {
            prop_assert_eq!(self.real.publish(events, how), answer);
        }
        Ok(())
    }

    fn receive<R: Debug + PartialEq>(
        &mut self,
        reader: usize,
        real: impl Fn(&mut RealReader) -> Result<R, Nothing>,
        model: impl Fn(&mut Mailbox) -> Result<R, Nothing>,
    ) -> Result<(), TestCaseError> {
        let (real_reader, number) = &mut self.readers[reader];
        self.model.with(*number, Mailbox::take_back);
        let expected = self.model.with(*number, model);
        // The freed capacity may only now wake the real dispatcher, which then delivers events that
        // the twin already has. After a shutdown that abandoned events, the end takes a while as
        // well.
        let wait = expected != Err(Nothing::Yet);
        let got = poll::<M, _>(|| real(real_reader), |got| !wait || *got != Err(Nothing::Yet));
        prop_assert_eq!(got, expected);
        Ok(())
    }

    fn receive_batch(&mut self, reader: usize) -> Result<(), TestCaseError> {
        let (real, number) = &mut self.readers[reader];
        let mailbox = self.model.mailbox(*number);
        let nothing_yet = mailbox.is_empty() && !mailbox.has_ended();
        let got = poll::<M, _>(|| real.receive_batch(), |got| nothing_yet || *got != Err(Nothing::Yet));
        // The bus chooses how many events are received together, but not which events.
        let most = got.as_ref().map_or(0, |(_, events)| events.len());
        self.model.with(*number, Mailbox::take_back);
        prop_assert_eq!(got, self.model.with(*number, |mailbox| mailbox.receive_batch(most)));
        Ok(())
    }

    fn receive_all(&mut self, reader: usize) -> Result<(), TestCaseError> {
        while !self.model.mailbox(self.readers[reader].1).is_empty() {
            self.receive(reader, RealReader::receive, Mailbox::receive)?;
            self.settle()?;
        }
        self.receive(reader, RealReader::receive, Mailbox::receive)
    }

    /// Waits until the real bus is idle, and compares all counters, all calls of filters and hooks,
    /// and everything else that the model knows.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        let blocked = self.model.is_blocked();
        if M::IS_INLINE {
            prop_assert_eq!(self.real.bus.stats().pending, 0);
        } else if !blocked {
            prop_assert_eq!(self.real.flush(), !self.model.is_abandoned(), "flush");
        }
        let relax = |totals: Totals| if blocked { totals.unsettled() } else { totals };
        let expected = relax(self.model.totals());
        let got = poll::<M, _>(|| relax(self.real.totals()), |got| *got == expected);
        prop_assert_eq!(got, expected);
        for (real, number) in &self.readers {
            let relax = |figures: Figures| if blocked { figures.unsettled() } else { figures };
            let mailbox = self.model.mailbox(*number);
            let expected = relax(mailbox.figures());
            let got = poll::<M, _>(|| relax(real.figures()), |got| *got == expected);
            prop_assert_eq!(got, expected);
            prop_assert_eq!(&real.told(), &mailbox.told);
            self.model.check(*number, real)?;
        }
        Ok(())
    }
}

/// Repeats `look` until the result is as wanted or the time limit has passed. Returns the last
/// result. An inline bus gets only one try.
fn poll<M: Model, R>(mut look: impl FnMut() -> R, wanted: impl Fn(&R) -> bool) -> R {
    static FAILED: AtomicBool = AtomicBool::new(false);
    let patience = if FAILED.load(Ordering::Relaxed) { IMPATIENCE } else { PATIENCE };
    let start = Instant::now();
    loop {
        let result = look();
        if M::IS_INLINE || wanted(&result) {
            return result;
        }
        if start.elapsed() > patience {
            FAILED.store(true, Ordering::Relaxed);
            return result;
        }
        thread::yield_now();
    }
}
