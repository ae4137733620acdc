//! Random programs, which run step by step on the twin and on the real bus. The two are compared
//! after each step.

use std::fmt::{self, Debug};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use eventcast::OverflowPolicy;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::api::{Bus, Event, Figures, Filter, How, Nothing, Reader, Spec, Totals};
use super::mailbox::Mailbox;
use super::plain::{Twin, TwinReader};
use super::real::{Real, RealReader};

/// The time limit for the real bus. Its own work takes a moment, so only a fault takes this long.
const PATIENCE: Duration = Duration::from_secs(180);
/// The time limit while a failing program is made smaller.
const IMPATIENCE: Duration = Duration::from_millis(300);

#[derive(Clone)]
pub struct Program {
    incoming_len: usize,
    max_batch: usize,
    steps: Vec<Step>,
}

impl fmt::Debug for Program {
    /// Writes a line for each step, in every format.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "a bus of incoming_len {}, max_batch {}", self.incoming_len, self.max_batch)?;
        self.steps.iter().enumerate().try_for_each(|(number, step)| writeln!(f, "  {number}: {step:?}"))
    }
}

/// A step of a program. A watcher is named by its place among the existing ones, modulo their
/// number.
#[derive(Clone, Debug)]
enum Step {
    Publish(How, usize),
    Watch { queue_len: usize, policy: OverflowPolicy, prefix: usize, filter: Filter },
    Receive(usize),
    ReceiveRef(usize),
    ReceiveBatch(usize),
    ReceiveAll(usize),
    Stop(usize),
    Drop(usize),
    Advance(u64),
    Close,
    Shutdown,
}

pub fn policy() -> impl Strategy<Value = OverflowPolicy> {
    prop_oneof![
        3 => Just(OverflowPolicy::DropIncoming),
        2 => Just(OverflowPolicy::Evict),
        3 => Just(OverflowPolicy::DropOldest),
        2 => Just(OverflowPolicy::Wait),
        3 => (0..4_u64).prop_map(|time| OverflowPolicy::WaitFor(Duration::from_secs(time))),
    ]
}

pub fn filter() -> impl Strategy<Value = Filter> {
    prop_oneof![
        4 => Just(Filter::None),
        3 => (2..5_u64).prop_map(Filter::Without),
        1 => (2..5_u64, 15..40_u64).prop_map(|(without, panics)| Filter::Panics(without, panics)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let how = prop_oneof![Just(How::Try), Just(How::Wait), Just(How::Timeout)];
    let many = prop_oneof![Just(How::Batch), Just(How::TryBatch)];
    let watch = (1..13_usize, policy(), 0..4_usize, filter())
        .prop_map(|(queue_len, policy, prefix, filter)| Step::Watch { queue_len, policy, prefix, filter });
    prop_oneof![
        12 => how.prop_map(|how| Step::Publish(how, 1)),
        10 => (many, 0..14_usize).prop_map(|(how, events)| Step::Publish(how, events)),
        5 => watch,
        10 => (0..8_usize).prop_map(Step::Receive),
        4 => (0..8_usize).prop_map(Step::ReceiveRef),
        8 => (0..8_usize).prop_map(Step::ReceiveBatch),
        4 => (0..8_usize).prop_map(Step::ReceiveAll),
        2 => (0..8_usize).prop_map(Step::Stop),
        2 => (0..8_usize).prop_map(Step::Drop),
        4 => (0..3_u64).prop_map(Step::Advance),
        1 => prop_oneof![6 => Just(Step::Advance(1)), 1 => Just(Step::Close), 1 => Just(Step::Shutdown)],
    ]
}

pub fn program() -> impl Strategy<Value = Program> {
    (1..7_usize, 1..7_usize, prop::collection::vec(step(), 1..80))
        .prop_map(|(incoming_len, max_batch, steps)| Program { incoming_len, max_batch, steps })
}

struct Both {
    real: Real,
    twin: Twin,
    readers: Vec<(RealReader, TwinReader)>,
    next_event: Event,
}

/// Runs the program on both. An error says what differed after which step.
pub fn run(program: &Program) -> Result<(), TestCaseError> {
    let (real, twin) = (
        Real::new(program.incoming_len, program.max_batch),
        Twin::new(program.incoming_len, program.max_batch),
    );
    let mut both = Both { real, twin, readers: Vec::new(), next_event: 1 };
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
    both.readers.clear();
    both.settle()
}

impl Both {
    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let count = self.readers.len();
        let chosen = |reader: &usize| (count > 0).then(|| reader % count);
        match step {
            Step::Publish(how, events) => self.publish(*how, *events),
            Step::Watch { queue_len, policy, prefix, filter } => {
                let prefix = self.events(*prefix);
                let spec = Spec { queue_len: *queue_len, policy: *policy, prefix, filter: *filter };
                let (real, twin) = (self.real.watch(&spec), self.twin.watch(&spec));
                prop_assert_eq!(real.is_some(), twin.is_some());
                self.readers.extend(real.zip(twin));
                Ok(())
            }
            Step::Receive(reader) => {
                chosen(reader).map_or(Ok(()), |reader| self.receive(reader, Reader::receive, Reader::receive))
            }
            Step::ReceiveRef(reader) => chosen(reader).map_or(Ok(()), |reader| {
                // `receive_ref` would never return if there is nothing.
                if self.readers[reader].1.peek(Mailbox::is_empty) {
                    return self.receive(reader, Reader::receive, Reader::receive);
                }
                self.receive(reader, Reader::receive_ref, Reader::receive_ref)
            }),
            Step::ReceiveBatch(reader) => chosen(reader).map_or(Ok(()), |reader| self.receive_batch(reader)),
            Step::ReceiveAll(reader) => chosen(reader).map_or(Ok(()), |reader| self.receive_all(reader)),
            Step::Stop(reader) => {
                let Some(reader) = chosen(reader) else { return Ok(()) };
                let (real, twin) = &self.readers[reader];
                // The number of waiting events that have found room is not determined then.
                if !twin.peek(|mailbox| mailbox.is_unsure) {
                    real.stop();
                    twin.stop();
                }
                Ok(())
            }
            Step::Drop(reader) => {
                let Some(reader) = chosen(reader) else { return Ok(()) };
                // A drop gives back the borrowed events and then removes the reader. The dispatcher
                // may offer more between the two.
                if !self.readers[reader].1.peek(Mailbox::is_begrudged) {
                    drop(self.readers.swap_remove(reader));
                }
                Ok(())
            }
            Step::Advance(seconds) => {
                self.real.advance(Duration::from_secs(*seconds));
                self.twin.advance(Duration::from_secs(*seconds));
                Ok(())
            }
            Step::Close => {
                self.real.close();
                self.twin.close();
                Ok(())
            }
            Step::Shutdown => {
                let give_up = self.twin.is_blocked();
                let (real, twin) = (self.real.shutdown(give_up), self.twin.shutdown(give_up));
                prop_assert_eq!(real, twin, "complete");
                Ok(())
            }
        }
    }

    fn events(&mut self, count: usize) -> Vec<Event> {
        let first = self.next_event;
        self.next_event += count as u64;
        (first..self.next_event).collect()
    }

    fn publish(&mut self, mut how: How, mut count: usize) -> Result<(), TestCaseError> {
        let (free, max_batch) = (self.twin.free(), self.twin.max_batch());
        if !self.twin.is_closed() && count.div_ceil(max_batch) > free {
            if self.twin.is_blocked() {
                // A wait for room would never end.
                how = match how {
                    How::Wait => How::Try,
                    How::Batch => How::TryBatch,
                    how => how,
                };
            } else {
                // The dispatcher takes entries out while this thread puts them in, so more might
                // fit or not.
                count = free * max_batch;
            }
        }
        let events = self.events(count);
        prop_assert_eq!(self.real.publish(events.clone(), how), self.twin.publish(events, how));
        Ok(())
    }

    fn receive<R: Debug + PartialEq>(
        &mut self,
        reader: usize,
        real: impl Fn(&mut RealReader) -> Result<R, Nothing>,
        twin: impl Fn(&mut TwinReader) -> Result<R, Nothing>,
    ) -> Result<(), TestCaseError> {
        let (real_reader, twin_reader) = &mut self.readers[reader];
        let expected = twin(twin_reader);
        // The room may only now wake the real dispatcher, which then brings the events that the
        // twin already has. After a shutdown that abandoned events, the end takes its time too.
        let wait = expected != Err(Nothing::Yet);
        let got = poll(|| real(real_reader), |got| !wait || *got != Err(Nothing::Yet));
        prop_assert_eq!(got, expected);
        Ok(())
    }

    fn receive_batch(&mut self, reader: usize) -> Result<(), TestCaseError> {
        let (real, twin) = &mut self.readers[reader];
        let nothing_yet = twin.peek(|mailbox| mailbox.is_empty() && !mailbox.has_ended());
        let got = poll(|| real.receive_batch(usize::MAX), |got| nothing_yet || *got != Err(Nothing::Yet));
        // The bus chooses how many events come together, but not which.
        let most = got.as_ref().map_or(0, |(_, events)| events.len());
        let expected = twin.receive_batch(most);
        prop_assert_eq!(got, expected);
        Ok(())
    }

    fn receive_all(&mut self, reader: usize) -> Result<(), TestCaseError> {
        while !self.readers[reader].1.peek(Mailbox::is_empty) {
            self.receive(reader, Reader::receive, Reader::receive)?;
        }
        self.receive(reader, Reader::receive, Reader::receive)
    }

    /// Lets the real bus come to rest, and compares all counters and all calls of the hooks.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        let blocked = self.twin.is_blocked();
        if !blocked {
            prop_assert_eq!(self.real.flush(), self.twin.flush(), "flush");
        }
        let relax = |totals: Totals| if blocked { totals.unsettled() } else { totals };
        let expected = relax(self.twin.totals());
        let got = poll(|| relax(self.real.totals()), |got| *got == expected);
        prop_assert_eq!(got, expected);
        for (real, twin) in &self.readers {
            let relax = |figures: Figures| if blocked { figures.unsettled() } else { figures };
            let expected = relax(twin.figures());
            let got = poll(|| relax(real.figures()), |got| *got == expected);
            prop_assert_eq!(got, expected);
            prop_assert_eq!(real.told(), twin.told());
        }
        Ok(())
    }
}

/// Repeats `look` until the result is as wanted, or until the time limit. Returns the last result.
fn poll<R>(mut look: impl FnMut() -> R, wanted: impl Fn(&R) -> bool) -> R {
    static FAILED: AtomicBool = AtomicBool::new(false);
    let patience = if FAILED.load(Ordering::Relaxed) { IMPATIENCE } else { PATIENCE };
    let start = Instant::now();
    loop {
        let result = look();
        if wanted(&result) {
            return result;
        }
        if start.elapsed() > patience {
            FAILED.store(true, Ordering::Relaxed);
            return result;
        }
        thread::yield_now();
    }
}
