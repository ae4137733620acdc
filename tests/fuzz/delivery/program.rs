//! Random programs, each with the options for a recording and the steps to perform on it.

use std::fmt;
use std::time::Duration;

use eventcast::correlator::{Aggregation, SpamFilter};
use eventcast::record::Jitter;
use eventcast::sink::{SinkMode, WriteOrder};
use eventcast::{CorrelatorOptions, Event, OverflowPolicy, RetryPolicy};
use proptest::prelude::*;

/// An interval that is longer than the run of any program.
const EVER: Duration = Duration::from_secs(1 << 30);

/// How the sink assigns groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// One group with an empty name.
    One,
    /// The event's namespace is its group.
    Namespaces,
    /// Like `Namespaces`, but the sink panics when it is asked for the group of an event in the
    /// first namespace.
    FirstPanics,
}

#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub struct Options {
    pub order: WriteOrder,
    pub mode: SinkMode,
    pub workers: usize,
    pub groups: Groups,
    /// The number of namespaces that the objects are in.
    namespaces: u8,
    pub group_queue_capacity: Option<usize>,
    /// Whether one of the sink's threads answers the calls, instead of the thread that submits the
    /// calls.
    pub answers_elsewhere: bool,
    pub queue_capacity: usize,
    pub policy: OverflowPolicy,
    pub incoming_capacity: usize,
    pub max_batch: usize,
    attempts: u32,
    delay: Duration,
    jitter: Jitter,
    /// The number of entries in the correlator's caches. `None` means as many as needed.
    pub cache: Option<usize>,
    /// The number of messages at which similar events begin to be folded. `None` means that similar
    /// events are never folded.
    fold: Option<usize>,
    /// The spam filter's budget. `None` means no filter.
    burst: Option<u32>,
    exempt_warnings: bool,
    /// Whether decisions depend on the time. If so, the queue has capacity for all events, because
    /// the clock must not advance while an event is waiting for its decision.
    pub is_timed: bool,
    /// Whether the sink includes the stored event in the response that a name is taken.
    pub says_which: bool,
}

impl Options {
    /// Returns the namespace with this number.
    pub fn namespace(&self, number: u8) -> String {
        format!("team-{}", number % self.namespaces)
    }

    /// Returns whether the sink panics when it is asked for the group of this event.
    pub fn group_panics(&self, event: &Event) -> bool {
        self.groups == Groups::FirstPanics && event.involved_object.namespace == "team-0"
    }

    /// Returns the group to which the recording assigns the event.
    pub fn group<'e>(&self, event: &'e Event) -> &'e str {
        let is_named = self.groups != Groups::One && self.order == WriteOrder::PerKey;
        if is_named && !self.group_panics(event) { &event.involved_object.namespace } else { "" }
    }

    /// Returns the number of operations that may be under way at the same time, if the sink does
    /// not receive them in batches.
    pub fn places(&self) -> usize {
        match self.mode {
            _ if self.order == WriteOrder::Bus => 1,
            SinkMode::InFlight(count) => count.max(1),
            _ => self.workers,
        }
    }

    /// Returns the number of events in one group that may wait once there are other groups.
    pub fn share(&self) -> usize {
        self.group_queue_capacity.unwrap_or((self.queue_capacity / 4).max(1))
    }

    /// Returns the number of events that a healthy group may have beyond its share, as long as no
    /// more than that number are waiting in total.
    pub fn lent(&self) -> usize {
        if self.group_queue_capacity.is_some() { 0 } else { self.queue_capacity / 2 }
    }

    pub fn retry(&self) -> RetryPolicy {
        RetryPolicy::default().attempts(self.attempts).delay(self.delay).jitter(self.jitter)
    }

    /// Returns the correlator's options, without a clock or functions.
    pub fn correlator(&self) -> CorrelatorOptions {
        let (interval, qps) = if self.is_timed { (Duration::from_secs(20), 0.2) } else { (EVER, 1e-9) };
        // The aggregation stage exists even if it does not fold anything, because it calls the
        // function that reports each decision to the test.
        let fold = Aggregation::default().max_events(self.fold.unwrap_or(usize::MAX)).max_interval(interval);
        let filter = |burst| {
            let filter = SpamFilter::default().burst(burst).qps(qps);
            filter.exempt_warnings(self.exempt_warnings)
        };
        CorrelatorOptions::default()
            .cache_size(self.cache.unwrap_or(4096))
            .aggregation(fold)
            .spam_filter(self.burst.map(filter))
    }

    /// Returns whether every event is counted in a stored event with the same key.
    pub fn counts_each(&self) -> bool {
        self.fold.is_none() && self.burst.is_none()
    }

    /// Returns whether the spam filter may hold events.
    pub fn holds(&self) -> bool {
        self.burst.is_some()
    }

    /// Returns whether every decision can be derived from the events alone.
    pub fn is_determined(&self) -> bool {
        self.cache.is_none()
    }
}

/// The sink's response to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    Ok,
    /// The sink stores the event, but returns an error.
    Lost,
    Refuse,
    Retry,
    RetryAfter(u64),
    Unavailable,
    /// The store does not serve the event's group.
    GroupUnavailable,
    /// The sink stores the event, but the response does not arrive in time.
    TimeOut,
    /// The store does not allow the operation.
    Forbid,
    /// The store first deletes the event with this name.
    Forget,
    /// Another writer takes the name first.
    Taken,
    Panic,
    /// The sink panics after this operation, with the whole batch.
    PanicBatch,
    /// The sink stores the event and does not respond. In a batch, the sink also stops at this
    /// operation.
    Short,
    /// The sink returns only after a [`Step::Release`].
    Hang,
}

/// The kind of trouble that a namespace is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The namespace's operations are not answered until the trouble is over.
    Hangs,
    /// The namespace's operations are answered after the clock has advanced.
    Slow,
    /// The namespace's operations fail, because the store does not serve the namespace.
    Closed,
    /// The namespace's operations fail, because the store does not allow them.
    Forbidden,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hangs => "hangs",
            Self::Slow => "is slow",
            Self::Closed => "is closed",
            Self::Forbidden => "is forbidden",
        })
    }
}

/// A step of a program.
#[derive(Clone, Debug)]
pub enum Step {
    Record {
        namespace: u8,
        object: u8,
        reason: u8,
        message: u8,
        is_warning: bool,
        times: u8,
    },
    /// Sets the sink's next responses. All later operations succeed.
    Answers(Vec<Answer>),
    /// Makes the store unavailable, or available again.
    Away(bool),
    /// All hanging operations return.
    Release,
    /// From now on, the sink keeps the calls that it receives, or answers them.
    Keep(bool),
    /// The sink answers one of the calls that it has kept.
    AnswerOne(usize),
    /// The sink answers all calls that it has kept, beginning with this call.
    AnswerAll(usize),
    /// The sink drops one of the calls that it has kept.
    DropOne(usize),
    /// A namespace gets into or out of trouble.
    Trouble(u8, Option<Trouble>),
    /// A namespace gets into trouble, and the events in all other namespaces still get their
    /// outcomes.
    OthersSettle(u8, Trouble),
    /// The clock advances by this number of seconds.
    Advance(u64),
    /// Starts a flush on another thread.
    Flush,
    /// The sink works, and every event gets its outcome.
    Settle,
}

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Shutdown,
    Stop,
    Close,
    /// A shutdown whose deadline has already passed.
    AtOnce,
    /// A shutdown whose deadline the clock reaches.
    Deadline,
    Drop,
}

#[derive(Clone)]
pub struct Program {
    pub options: Options,
    pub steps: Vec<Step>,
    pub end: End,
    /// The steps performed after the end has begun.
    pub late: Vec<Step>,
}

impl fmt::Debug for Program {
    /// Writes one line for each step, in every format.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}", self.options)?;
        self.steps.iter().enumerate().try_for_each(|(number, step)| writeln!(f, "  {number}: {step:?}"))?;
        writeln!(f, "  {:?}, then {:?}", self.end, self.late)
    }
}

/// Generates the options that concern the contract between a recording and a sink.
fn contract() -> impl Strategy<Value = (SinkMode, Groups, u8, Option<usize>, bool)> {
    let mode = prop_oneof![
        3 => Just(SinkMode::OneByOne),
        3 => Just(SinkMode::Batches),
        2 => (0..4_usize).prop_map(SinkMode::InFlight),
        5 => (4..17_usize).prop_map(SinkMode::InFlight),
    ];
    let groups = prop_oneof![
        2 => Just(Groups::One),
        6 => Just(Groups::Namespaces),
        1 => Just(Groups::FirstPanics),
    ];
    let namespaces = prop_oneof![1 => Just(1_u8), 8 => 2..6_u8];
    (mode, groups, namespaces, prop::option::weighted(0.5, 1..7_usize), any::<bool>())
}

fn options() -> impl Strategy<Value = Options> {
    let policy = prop::sample::select(vec![
        OverflowPolicy::DropIncoming,
        OverflowPolicy::DropOldest,
        OverflowPolicy::Wait,
    ]);
    let workers = prop::sample::select(vec![1, 2, 3, 4, 4, 6]);
    let per_key = workers.prop_map(|workers| (WriteOrder::PerKey, workers));
    let bus = (
        prop_oneof![6 => per_key, 1 => Just((WriteOrder::Bus, 1))],
        prop::sample::select(vec![1, 2, 3, 8, 64, 64]),
        policy,
        prop::sample::select(vec![2, 8, 1000]),
        prop::sample::select(vec![1, 3, 256]),
    );
    let retry = (
        prop::sample::select(vec![1, 2, 3, 12]),
        prop::sample::select(vec![1, 1000, 10_000]).prop_map(Duration::from_millis),
        prop::sample::select(vec![Jitter::Never, Jitter::First, Jitter::All]),
    );
    let sizes = (
        prop::option::weighted(0.2, 1..5_usize),
        prop::option::weighted(0.4, 1..4_usize),
        prop::option::weighted(0.4, 2..7_u32),
    );
    let correlator = (sizes, any::<[bool; 3]>());
    (bus, retry, correlator, contract()).prop_map(|(bus, retry, correlator, contract)| {
        let (mode, groups, namespaces, group_queue_capacity, answers_elsewhere) = contract;
        let ((order, workers), mut queue_capacity, policy, mut incoming_capacity, max_batch) = bus;
        let (attempts, delay, jitter) = retry;
        let ((cache, fold, burst), [exempt_warnings, is_timed, says_which]) = correlator;
        if is_timed {
            (queue_capacity, incoming_capacity) = (10_000, 10_000);
        }
        // Two groups created at the same time may have the same name. Only the stored event
        // distinguishes the two groups.
        let says_which = says_which || fold.is_some();
        Options {
            order,
            mode,
            workers,
            groups,
            namespaces,
            group_queue_capacity,
            answers_elsewhere,
            queue_capacity,
            policy,
            incoming_capacity,
            max_batch,
            attempts,
            delay,
            jitter,
            cache,
            fold,
            burst,
            exempt_warnings,
            is_timed,
            says_which,
        }
    })
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        8 => Just(Answer::Ok),
        4 => Just(Answer::Lost),
        2 => Just(Answer::Refuse),
        4 => Just(Answer::Retry),
        2 => (1..20_000_u64).prop_map(Answer::RetryAfter),
        2 => Just(Answer::Unavailable),
        3 => Just(Answer::GroupUnavailable),
        2 => Just(Answer::TimeOut),
        1 => Just(Answer::Forbid),
        2 => Just(Answer::Forget),
        1 => Just(Answer::Taken),
        1 => Just(Answer::Panic),
        1 => Just(Answer::PanicBatch),
        1 => Just(Answer::Short),
        2 => Just(Answer::Hang),
    ]
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop::sample::select(vec![
        Trouble::Hangs,
        Trouble::Hangs,
        Trouble::Slow,
        Trouble::Closed,
        Trouble::Closed,
        Trouble::Forbidden,
    ])
}

fn step() -> impl Strategy<Value = Step> {
    let event = (0..5_u8, 0..3_u8, 0..2_u8, 0..4_u8, prop::bool::weighted(0.2), 1..9_u8);
    let record = event.prop_map(|(namespace, object, reason, message, is_warning, times)| Step::Record {
        namespace,
        object,
        reason,
        message,
        is_warning,
        times,
    });
    let number = 0..16_usize;
    let trouble_of = (0..5_u8, prop::option::weighted(0.7, trouble()));
    prop_oneof![
        28 => record,
        6 => prop::collection::vec(answer(), 1..8).prop_map(Step::Answers),
        2 => any::<bool>().prop_map(Step::Away),
        3 => Just(Step::Release),
        3 => prop::bool::weighted(0.8).prop_map(Step::Keep),
        5 => number.clone().prop_map(Step::AnswerOne),
        2 => number.clone().prop_map(Step::AnswerAll),
        2 => number.prop_map(Step::DropOne),
        3 => trouble_of.prop_map(|(namespace, trouble)| Step::Trouble(namespace, trouble)),
        3 => (0..5_u8, trouble()).prop_map(|(namespace, trouble)| Step::OthersSettle(namespace, trouble)),
        5 => (1..15_u64).prop_map(Step::Advance),
        2 => Just(Step::Flush),
        2 => Just(Step::Settle),
    ]
}

pub fn program() -> impl Strategy<Value = Program> {
    let end = prop::sample::select(vec![
        End::Shutdown,
        End::Stop,
        End::Close,
        End::AtOnce,
        End::Deadline,
        End::Drop,
    ]);
    let late = prop::collection::vec(step(), 0..4);
    (options(), prop::collection::vec(step(), 1..80), end, late)
        .prop_map(|(options, steps, end, late)| Program { options, steps, end, late })
}
