//! Random programs, which run step by step on the model and on an inline bus. Nothing is waited
//! for: the two must agree whenever a call has returned.

use std::fmt::{self, Debug};
use std::time::Duration;

use eventcast::OverflowPolicy;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::twin::api::{Bus, Event, Filter, How, Nothing, Reader, Refused, Spec};
use crate::twin::mailbox::Mailbox;
use crate::twin::program::{filter, policy};
use crate::twin::real::Real;

use super::model::{Asked, Model};
use super::real::{self, SpeakingReader};
use super::speech::{Place, Says, Speaker, Watching};

#[derive(Clone)]
pub struct Program {
    incoming_len: usize,
    max_batch: usize,
    steps: Vec<Step>,
}

impl Debug for Program {
    /// Writes a line for each step, in every format.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "an inline bus of incoming_len {}, max_batch {}", self.incoming_len, self.max_batch)?;
        self.steps.iter().enumerate().try_for_each(|(number, step)| writeln!(f, "  {number}: {step:?}"))
    }
}

/// A step of a program. A watcher is named by its place among the existing ones, modulo their
/// number.
#[derive(Clone, Debug)]
enum Step {
    Publish(How, usize),
    Gap(u64),
    Watch {
        queue_len: usize,
        policy: OverflowPolicy,
        prefix: usize,
        filter: Filter,
        speaker: Option<Speaker>,
    },
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

fn single() -> impl Strategy<Value = How> {
    prop_oneof![Just(How::Try), Just(How::Wait), Just(How::Timeout), Just(How::Async)]
}

fn several() -> impl Strategy<Value = How> {
    prop_oneof![Just(How::Batch), Just(How::TryBatch)]
}

fn speaker() -> impl Strategy<Value = Speaker> {
    let says = prop_oneof![
        6 => single().prop_map(|how| Says::Publish(how, 1)),
        6 => (several(), 0..8_usize).prop_map(|(how, count)| Says::Publish(how, count)),
        2 => (1..4_u64).prop_map(Says::Gap),
        1 => Just(Says::Close),
    ];
    let place = prop_oneof![Just(Place::Filter), Just(Place::Hook)];
    (place, 1..5_u64, says).prop_map(|(place, every, says)| match says {
        // Not every program ends soon.
        Says::Close => Speaker { place, every: 5 * every + 11, says },
        says => Speaker { place, every, says },
    })
}

/// Watchers of which nearly all have a limit, so that no other one keeps the bus full.
fn limits() -> impl Strategy<Value = OverflowPolicy> {
    prop_oneof![
        6 => (1..5_u64).prop_map(|time| OverflowPolicy::WaitFor(Duration::from_secs(time))),
        1 => policy(),
    ]
}

fn step(policy: impl Strategy<Value = OverflowPolicy> + 'static) -> impl Strategy<Value = Step> {
    let speaker = prop_oneof![5 => Just(None), 2 => speaker().prop_map(Some)];
    let watch = (1..13_usize, policy, 0..4_usize, filter(), speaker).prop_map(
        |(queue_len, policy, prefix, filter, speaker)| Step::Watch {
            queue_len,
            policy,
            prefix,
            filter,
            speaker,
        },
    );
    let end = prop_oneof![
        6 => Just(Step::Advance(1)),
        1 => Just(Step::Close),
        1 => Just(Step::Shutdown),
    ];
    prop_oneof![
        12 => single().prop_map(|how| Step::Publish(how, 1)),
        10 => (several(), 0..14_usize).prop_map(|(how, events)| Step::Publish(how, events)),
        2 => (0..4_u64).prop_map(Step::Gap),
        5 => watch,
        10 => (0..8_usize).prop_map(Step::Receive),
        4 => (0..8_usize).prop_map(Step::ReceiveRef),
        8 => (0..8_usize).prop_map(Step::ReceiveBatch),
        4 => (0..8_usize).prop_map(Step::ReceiveAll),
        2 => (0..8_usize).prop_map(Step::Stop),
        2 => (0..8_usize).prop_map(Step::Drop),
        4 => (0..3_u64).prop_map(Step::Advance),
        1 => Just(Step::Flush),
        1 => end,
    ]
}

pub fn program() -> impl Strategy<Value = Program> {
    let steps = prop_oneof![
        2 => prop::collection::vec(step(policy()), 1..80),
        1 => prop::collection::vec(step(limits()), 1..80),
    ];
    (1..7_usize, 1..7_usize, steps).prop_map(|(incoming_len, max_batch, steps)| Program {
        incoming_len,
        max_batch,
        steps,
    })
}

struct Both {
    real: Real,
    model: Model,
    /// Each reader, with its number in the model.
    readers: Vec<(SpeakingReader, usize)>,
    next_event: Event,
}

/// Runs the program on both. An error says what differed after which step.
pub fn run(program: &Program) -> Result<(), TestCaseError> {
    let (incoming_len, max_batch) = (program.incoming_len, program.max_batch);
    let (real, model) = (Real::inline(incoming_len, max_batch), Model::new(incoming_len, max_batch));
    let mut both = Both { real, model, readers: Vec::new(), next_event: 1 };
    let end = [Step::Shutdown];
    for (number, step) in program.steps.iter().chain(&end).enumerate() {
        let result = both.step(step).and_then(|()| both.compare());
        result.map_err(|error| TestCaseError::fail(format!("step {number}, {step:?}: {error}")))?;
    }
    for reader in 0..both.readers.len() {
        both.receive_all(reader)?;
        prop_assert_eq!(both.readers[reader].0.reader.receive(), Err(Nothing::Ever));
    }
    both.compare()?;
    while !both.readers.is_empty() {
        both.leave(0);
    }
    both.compare()
}

impl Both {
    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let count = self.readers.len();
        let chosen = |reader: &usize| reader.checked_rem(count);
        match step {
            Step::Publish(how, events) => return self.publish(*how, *events),
            Step::Gap(events) => {
                let real = real::publish_gap(&self.real.bus.publisher(), *events);
                let expected = if *events == 0 { Ok(()) } else { self.model.publish_gap(*events) };
                prop_assert_eq!(real, expected);
            }
            Step::Watch { queue_len, policy, prefix, filter, speaker } => {
                let prefix = self.events(*prefix);
                let spec = Spec { queue_len: *queue_len, policy: *policy, prefix, filter: *filter };
                return self.watch(&Watching { spec, speaker: *speaker });
            }
            Step::Receive(reader) => return chosen(reader).map_or(Ok(()), |reader| self.receive(reader)),
            Step::ReceiveRef(reader) => {
                return chosen(reader).map_or(Ok(()), |reader| self.receive_ref(reader));
            }
            Step::ReceiveBatch(reader) => {
                return chosen(reader).map_or(Ok(()), |reader| self.receive_batch(reader));
            }
            Step::ReceiveAll(reader) => {
                return chosen(reader).map_or(Ok(()), |reader| self.receive_all(reader));
            }
            Step::Stop(reader) => {
                let Some(reader) = chosen(reader) else { return Ok(()) };
                let (real, number) = &self.readers[reader];
                real.reader.stop();
                self.model.stop(*number);
            }
            Step::Drop(reader) => {
                let Some(reader) = chosen(reader) else { return Ok(()) };
                self.leave(reader);
            }
            Step::Advance(seconds) => {
                self.real.advance(Duration::from_secs(*seconds));
                self.model.advance(Duration::from_secs(*seconds));
            }
            Step::Flush => prop_assert!(self.real.flush()),
            Step::Close => {
                self.real.close();
                self.model.close();
            }
            Step::Shutdown => {
                prop_assert!(self.real.shutdown(false), "there is nothing to abandon");
                self.model.close();
            }
        }
        Ok(())
    }

    fn events(&mut self, count: usize) -> Vec<Event> {
        let first = self.next_event;
        self.next_event += count as u64;
        (first..self.next_event).collect()
    }

    fn publish(&mut self, mut how: How, count: usize) -> Result<(), TestCaseError> {
        let events = self.events(count);
        let mut after = self.model.clone();
        let expected = after.publish(events.clone(), how);
        if after.is_undetermined {
            return Ok(());
        }
        if matches!(expected, Err(Refused::Full(_))) {
            how = Model::without_waiting(how);
        }
        self.model = after;
        prop_assert_eq!(self.real.publish(events, how), expected);
        Ok(())
    }

    fn watch(&mut self, watching: &Watching) -> Result<(), TestCaseError> {
        let expected = self.model.watch(watching);
        let real = real::watch(&self.real.bus, watching, expected.unwrap_or_default());
        prop_assert_eq!(real.is_some(), expected.is_some());
        self.readers.extend(real.zip(expected));
        Ok(())
    }

    fn leave(&mut self, reader: usize) {
        let (real, number) = self.readers.swap_remove(reader);
        drop(real);
        self.model.leave(number);
    }

    fn receive(&mut self, reader: usize) -> Result<(), TestCaseError> {
        let (real, number) = &mut self.readers[reader];
        prop_assert_eq!(real.reader.receive(), self.model.receive(*number));
        Ok(())
    }

    fn receive_ref(&mut self, reader: usize) -> Result<(), TestCaseError> {
        let (real, number) = &mut self.readers[reader];
        // `receive_ref` would never return if there is nothing.
        if self.model.peek(*number, Mailbox::is_empty) {
            return self.receive(reader);
        }
        prop_assert_eq!(real.reader.receive_ref(), self.model.receive_ref(*number));
        Ok(())
    }

    fn receive_batch(&mut self, reader: usize) -> Result<(), TestCaseError> {
        let (real, number) = &mut self.readers[reader];
        let got = real.reader.receive_batch(usize::MAX);
        // The bus chooses how many events come together, but not which.
        let most = got.as_ref().map_or(0, |(_, events)| events.len());
        prop_assert_eq!(got, self.model.receive_batch(*number, most));
        Ok(())
    }

    fn receive_all(&mut self, reader: usize) -> Result<(), TestCaseError> {
        while !self.model.peek(self.readers[reader].1, Mailbox::is_empty) {
            self.receive(reader)?;
            self.compare()?;
        }
        self.receive(reader)
    }

    /// Compares all counters and positions, and all calls of filters and hooks.
    fn compare(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.real.bus.stats().pending, 0);
        prop_assert_eq!(self.real.totals(), self.model.totals());
        for (real, number) in &self.readers {
            prop_assert_eq!(real.reader.figures(), self.model.figures(*number));
            prop_assert_eq!(&*real.reader.told(), self.model.told(*number));
            prop_assert_eq!(&*real.heard(), self.model.heard(*number));
            let (asked, allowed) = (real.asked(), self.model.asked(*number));
            prop_assert!(is_allowed(&asked, allowed), "asked about {:?}, not {:?}", asked, allowed);
            let (position, expected) = (real.reader.watcher.position(), self.model.position(*number));
            let is_right = position.is_some_and(|at| (expected.least..=expected.most).contains(&at));
            prop_assert!(is_right, "the position is {:?}, not {:?}", position, expected);
        }
        Ok(())
    }
}

/// Returns whether the filter was asked about these events. No event is asked about twice in one
/// publish.
fn is_allowed(asked: &[Event], allowed: &[Asked]) -> bool {
    let mut asked = asked.iter().peekable();
    for allowed in allowed {
        match allowed {
            Asked::Surely(event) if asked.next() == Some(event) => {}
            Asked::Surely(_) => return false,
            Asked::Perhaps(event) => {
                asked.next_if_eq(&event);
            }
        }
    }
    asked.next().is_none()
}
