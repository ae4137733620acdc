//! An event broadcaster's options.

use std::fmt;
use std::time::Duration;

use crate::bus::{Broadcaster, BusOptions};
use crate::clock::Clock;
use crate::error::BuildError;
use crate::record::correlator::{CorrelatorOptions, EventCorrelator};
use crate::record::delivery::{Recordings, RetryPolicy};
use crate::record::event::Event;
use crate::record::loss::{Loss, LossHook, OnLoss};
use crate::record::recorder::{DEFAULT_MAX_MESSAGE_LEN, RecorderContext, Scrub};
use crate::sync::{Arc, Mutex};

use super::EventBroadcaster;

/// Makes an [`EventBroadcaster`] that differs from the defaults. Ends in [`build`](Self::build).
///
/// # Examples
///
/// ```
/// use eventcast::{BusOptions, EventBroadcaster};
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
///
/// static LOST: AtomicU64 = AtomicU64::new(0);
/// let events = EventBroadcaster::builder()
///     .bus(BusOptions::default().queue_len(100))
///     .max_message_len(1024)
///     .scrub(|event| {
///         if event.message.contains("password") {
///             event.message = "(removed)".into();
///         }
///     })
///     .on_loss(|loss| {
///         LOST.fetch_add(loss.count(), Ordering::Relaxed);
///     })
///     .drop_timeout(Duration::from_secs(5))
///     .build()?;
/// events.shutdown();
/// assert_eq!(LOST.load(Ordering::Relaxed), 0);
/// # Ok::<(), eventcast::BuildError>(())
/// ```
#[doc(alias = "BroadcasterOption")]
#[must_use = "nothing happens until `build`"]
pub struct EventBroadcasterBuilder {
    bus: BusOptions,
    clock: Clock,
    max_message_len: usize,
    scrub: Option<Scrub>,
    on_loss: Option<OnLoss>,
    drop_timeout: Duration,
    correlator: CorrelatorOptions,
    retry: RetryPolicy,
}

impl Default for EventBroadcasterBuilder {
    fn default() -> Self {
        Self {
            bus: BusOptions::default(),
            clock: Clock::system(),
            max_message_len: DEFAULT_MAX_MESSAGE_LEN,
            scrub: None,
            on_loss: None,
            drop_timeout: Duration::from_secs(2),
            correlator: CorrelatorOptions::default(),
            retry: RetryPolicy::default(),
        }
    }
}

impl EventBroadcaster {
    /// A broadcaster with its own queues, policy, clock, hooks, limits.
    pub fn builder() -> EventBroadcasterBuilder {
        EventBroadcasterBuilder::default()
    }
}

impl EventBroadcasterBuilder {
    /// Lengths of the queues, what happens when a watcher's is full, the name of the dispatcher's thread.
    pub fn bus(mut self, options: BusOptions) -> Self {
        self.bus = options;
        self
    }

    /// The clock for everything: times and names of events, the correlators' windows, retries and timeouts. A
    /// [`FakeClock`](crate::FakeClock) lets a test step through them. Default the system's. A store has its own, see
    /// [`MemorySink::with_clock`](crate::MemorySink::with_clock).
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The longest message in bytes; a longer one is cut at a character, marked and counted. At least 1, default 16 KiB.
    ///
    /// It is the limit of what is recorded. A recording puts 32 bytes before the message of an event that stands for
    /// similar ones, or what [`aggregate_message`](CorrelatorOptions::aggregate_message) makes of it.
    pub fn max_message_len(mut self, bytes: usize) -> Self {
        self.max_message_len = bytes;
        self
    }

    /// Rewrites each event before anybody sees it, to take out what must not be in a log or a store.
    ///
    /// It runs on the thread that records, and so must be quick. If it panics, the event is not recorded. Of an event that
    /// is refused before it could be scrubbed, `on_loss` is shown object, type and reason alone, which are scrubbed as
    /// an event of their own; and nothing where that panics.
    pub fn scrub(mut self, scrub: impl Fn(&mut Event) + Send + Sync + 'static) -> Self {
        self.scrub = Some(Box::new(scrub));
        self
    }

    /// Is told of every event that a recorder, watcher, handler or recording loses, on the thread where that happens: the one that
    /// records, the dispatcher's, or a recording's. So it must be quick, and must not wait for this broadcaster.
    ///
    /// An event at which a handler or a log panics is told too, on the handler's thread: nobody knows how far it came.
    ///
    /// If it panics, nothing else happens. What it loses itself, by recording, is counted and not told. Not told, too,
    /// are what a watcher throws away by being dropped or [by panicking](crate::WatchBuilder::stop_on_panic), and what is
    /// told to an [`on_drop`](crate::WatchBuilder::on_drop) of the watcher's own.
    ///
    /// Without it the feature `tracing` warns, at most once a second for each reason.
    pub fn on_loss(mut self, hook: impl Fn(&Loss<'_>) + Send + Sync + 'static) -> Self {
        self.on_loss = Some(Box::new(hook));
        self
    }

    /// How long dropping the broadcaster waits at most for what was accepted to be handled. Zero is not at all; default
    /// 2 s.
    pub fn drop_timeout(mut self, timeout: Duration) -> Self {
        self.drop_timeout = timeout;
        self
    }

    /// How recordings fold, count and hold back events, where they do not say so themselves.
    #[doc(alias = "NewBroadcasterWithCorrelatorOptions")]
    #[doc(alias = "WithCorrelatorOptions")]
    pub fn correlator(mut self, options: CorrelatorOptions) -> Self {
        self.correlator = options;
        self
    }

    /// When recordings try again what a sink could not do, where they do not say so themselves.
    #[doc(alias = "NewBroadcasterForTests")]
    #[doc(alias = "WithSleepDuration")]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Starts the broadcaster.
    ///
    /// # Errors
    ///
    /// Names the option that is out of range, or says that the system gives no thread.
    pub fn build(self) -> Result<EventBroadcaster, BuildError> {
        let Self { bus, clock, max_message_len, scrub, on_loss, drop_timeout, correlator, retry } = self;
        if max_message_len == 0 {
            return Err(BuildError::new("max_message_len", max_message_len, "1 byte or more"));
        }
        retry.check()?;
        // Only to check the options, which each recording takes a copy of.
        EventCorrelator::new(correlator.clone())?;
        let losses = Arc::new(LossHook::new(on_loss, &clock));
        Ok(EventBroadcaster {
            bus: Broadcaster::with_clock(bus, clock.clone())?,
            recorder: Arc::new(RecorderContext::new(clock.clone(), max_message_len, scrub, losses.clone())),
            recordings: Recordings::new(clock.clone(), losses.clone()),
            losses,
            clock,
            correlator,
            retry,
            drop_timeout,
            report: Mutex::new(None),
        })
    }
}

impl fmt::Debug for EventBroadcasterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBroadcasterBuilder")
            .field("bus", &self.bus)
            .field("max_message_len", &self.max_message_len)
            .field("drop_timeout", &self.drop_timeout)
            .field("correlator", &self.correlator)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}
