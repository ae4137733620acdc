//! Random programs: the options of a recording, and the steps of its life.

use std::fmt;
use std::time::Duration;

use eventcast::correlator::{Aggregation, SpamFilter};
use eventcast::record::Jitter;
use eventcast::sink::{SinkMode, WriteOrder};
use eventcast::{CorrelatorOptions, Event, OverflowPolicy, RetryPolicy};
use proptest::prelude::*;

/// An interval that no program reaches.
const EVER: Duration = Duration::from_secs(1 << 30);

/// The groups that the sink names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// One group, whose name is empty.
    One,
    /// The namespace of the event.
    Namespaces,
    /// The same, and the sink panics when it is asked about an event in the first namespace.
    FirstPanics,
}

#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub struct Options {
    pub order: WriteOrder,
    pub mode: SinkMode,
    pub workers: usize,
    pub groups: Groups,
    /// The number of namespaces of the objects.
    namespaces: u8,
    pub group_queue_capacity: Option<usize>,
    /// Whether a thread of the sink answers the calls, instead of the thread that submits them.
    pub answers_elsewhere: bool,
    pub queue_capacity: usize,
    pub policy: OverflowPolicy,
    pub incoming_capacity: usize,
    pub max_batch: usize,
    attempts: u32,
    delay: Duration,
    jitter: Jitter,
    /// The number of entries of the correlator's caches. `None` means as many as needed.
    pub cache: Option<usize>,
    /// The number of messages at which similar events are folded. `None` means never.
    fold: Option<usize>,
    /// The budget of the spam filter. `None` means no filter.
    burst: Option<u32>,
    exempt_warnings: bool,
    /// Whether decisions depend on the time. If so, the queue has capacity for all events, because
    /// the clock must not move while an event waits for its decision.
    pub is_timed: bool,
    /// Whether the answer that a name is taken includes the stored event.
    pub says_which: bool,
}

impl Options {
    /// Returns the namespace of this number.
    pub fn namespace(&self, number: u8) -> String {
        format!("team-{}", number % self.namespaces)
    }

    /// Returns whether the sink panics when it is asked for the group of this event.
    pub fn group_panics(&self, event: &Event) -> bool {
        self.groups == Groups::FirstPanics && event.involved_object.namespace == "team-0"
    }

    /// Returns the group to which the event belongs for the recording.
    pub fn group<'e>(&self, event: &'e Event) -> &'e str {
        let is_named = self.groups != Groups::One && self.order == WriteOrder::PerKey;
        if is_named && !self.group_panics(event) { &event.involved_object.namespace } else { "" }
    }

    /// Returns how many operations may be under way at the same time, if the sink does not get them
    /// in batches.
    pub fn places(&self) -> usize {
        match self.mode {
            _ if self.order == WriteOrder::Bus => 1,
            SinkMode::InFlight(count) => count.max(1),
            _ => self.workers,
        }
    }

    /// Returns how many events of one group may wait, once there are others.
    pub fn share(&self) -> usize {
        self.group_queue_capacity.unwrap_or((self.queue_capacity / 4).max(1))
    }

    /// Returns how many events a healthy group may have beyond its share, while no more events wait
    /// in total.
    pub fn lent(&self) -> usize {
        if self.group_queue_capacity.is_some() { 0 } else { self.queue_capacity / 2 }
    }

    pub fn retry(&self) -> RetryPolicy {
        RetryPolicy::default().attempts(self.attempts).delay(self.delay).jitter(self.jitter)
    }

    /// Returns the correlator's options, without a clock and without functions.
    pub fn correlator(&self) -> CorrelatorOptions {
        let (interval, qps) = if self.is_timed { (Duration::from_secs(20), 0.2) } else { (EVER, 1e-9) };
        // The stage exists even if it folds nothing, because it calls the function that reports
        // each decision to the test.
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

    /// Returns whether every event is counted on a stored event with the same key.
    pub fn counts_each(&self) -> bool {
        self.fold.is_none() && self.burst.is_none()
    }

    /// Returns whether the spam filter stops events.
    pub fn holds(&self) -> bool {
        self.burst.is_some()
    }

    /// Returns whether every decision can be derived from the events alone.
    pub fn is_determined(&self) -> bool {
        self.cache.is_none()
    }
}

/// The answer of the sink to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    Ok,
    /// The sink stores the event, but returns an error.
    Lost,
    Refuse,
    Retry,
    RetryAfter(u64),
    Unavailable,
    /// The store does not serve the group of the event.
    GroupUnavailable,
    /// The sink stores the event, but the answer does not arrive in time.
    TimeOut,
    /// The store does not allow the operation.
    Forbid,
    /// The store removes the event with this name first.
    Forget,
    /// Another writer takes the name first.
    Taken,
    Panic,
    /// The sink panics after this operation, with the whole batch.
    PanicBatch,
    /// The sink stores the event and gives no answer. In a batch its work ends there.
    Short,
    /// The sink returns only after a [`Step::Release`].
    Hang,
}

/// The trouble of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Its operations have no answer until the trouble is over.
    Hangs,
    /// Its operations are answered after the clock has moved.
    Slow,
    /// Its operations fail, because the store does not serve it.
    Closed,
    /// Its operations fail, because the store does not allow them.
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
    /// The sink's next answers. All operations after them succeed.
    Answers(Vec<Answer>),
    /// The store is unavailable from here on, or available again.
    Away(bool),
    /// All operations that hang return.
    Release,
    /// The sink keeps the calls that it receives from here on, or answers them.
    Keep(bool),
    /// The sink answers one of the calls that it has kept.
    AnswerOne(usize),
    /// The sink answers all calls that it has kept, beginning with this one.
    AnswerAll(usize),
    /// The sink drops one of the calls that it has kept.
    DropOne(usize),
    /// A namespace gets into trouble, or out of it.
    Trouble(u8, Option<Trouble>),
    /// A namespace gets into trouble, and the events of all others still get their outcomes.
    OthersSettle(u8, Trouble),
    /// The clock moves by seconds.
    Advance(u64),
    /// A thread flushes from here on.
    Flush,
    /// The sink works, and everything gets its outcome.
    Settle,
}

/// The end of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Shutdown,
    Stop,
    Close,
    /// A shutdown whose deadline has passed.
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
    /// The steps after the end has begun.
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

/// The options about the contract between a recording and a sink.
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
        // distinguishes them.
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
