//! The sink, and the task that performs its writes.

use std::fmt;
use std::sync::mpsc as blocking;
use std::time::Duration;

use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use async_nats::jetstream::{self, Context};
use eventcast::sink::{SinkBatch, SinkErrorKind, SinkMode, SinkOp, Stored};
use eventcast::{Event, EventSink, SinkError};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::client::Connection;
use crate::error::BuildError;
use crate::options::{ConnectionOptions, Storage};
use crate::runtime::connect_and_run;
use crate::subject::{check_prefix, check_stream};

use super::write::{Verb, Write};

/// The maximum number of writes from a batch that are in flight at the same time.
const IN_FLIGHT: usize = 64;
/// The number of messages that a client buffers for a subscription. The sink has no subscriptions.
const CAPACITY: usize = 64;

/// Options of a [`NatsSink`].
///
/// # Examples
///
/// ```
/// use eventcast_nats::NatsSinkOptions;
/// use std::time::Duration;
///
/// let options: NatsSinkOptions = serde_json::from_str(r#"{"stream": "RECORDS", "max_age": "2h"}"#)?;
/// assert_eq!(options.max_age, Duration::from_secs(7200));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct NatsSinkOptions {
    /// The servers.
    pub connection: ConnectionOptions,
    /// The name of the stream, which is created if it does not exist. Defaults to `RECORDS`.
    pub stream: String,
    /// The first tokens of every subject, separated by dots. A stream for bus events must not use
    /// the same prefix. Defaults to `records`.
    pub prefix: String,
    /// The storage that the server uses for the events. Defaults to [`Storage::File`].
    pub storage: Storage,
    /// How long the server keeps an event after the event's last write. Defaults to 1 h.
    #[serde(with = "crate::duration")]
    pub max_age: Duration,
    /// The number of servers that keep a copy of the stream, from 1 to 5. Defaults to 1.
    pub replicas: usize,
    /// How long to wait for the server's response to a write. Defaults to 5 s.
    #[serde(with = "crate::duration")]
    pub timeout: Duration,
}

impl Default for NatsSinkOptions {
    fn default() -> Self {
        Self {
            connection: ConnectionOptions::default(),
            stream: "RECORDS".to_owned(),
            prefix: "records".to_owned(),
            storage: Storage::File,
            max_age: Duration::from_secs(3600),
            replicas: 1,
            timeout: Duration::from_secs(5),
        }
    }
}

/// A sink that stores recorded events in a NATS JetStream stream. By default, the stream holds the
/// latest state of each event for an hour after the event's last write.
///
/// Each event has its own subject, `records.<namespace>.<name>`, and the stream keeps one message
/// for each subject. A reader of the stream therefore first receives the current state of all
/// events, and then every change. A message contains the whole event as JSON, and the
/// `Eventcast-Op` header states whether the event was created, updated or patched.
///
/// # Responses
///
/// | response | meaning |
/// |---|---|
/// | the subject of a new event already has a message (10071) | the name is already taken |
/// | the message is too large | rejected |
/// | no connection, or no response in time | the server itself is unavailable |
/// | no stream, and all other responses | retried |
///
/// A patch writes the whole event, so a patch also recreates an event that has expired.
///
/// # Runtimes
///
/// A sink performs its writes on its own thread, which ends after the sink has been dropped.
/// Dropping the sink never blocks.
///
/// # Examples
///
/// ```
/// use eventcast::sink::SinkErrorKind;
/// use eventcast::{Event, EventSink};
/// use eventcast_nats::{ConnectionOptions, NatsSink, NatsSinkOptions};
/// use std::time::Duration;
///
/// let mut options = NatsSinkOptions::default();
/// // Nobody listens there.
/// options.connection = ConnectionOptions::new("nats://127.0.0.1:1");
/// options.timeout = Duration::from_millis(50);
/// let sink = NatsSink::new(options)?;
/// let error = sink.create(&Event::default()).unwrap_err();
/// assert_eq!(error.kind(), SinkErrorKind::Unavailable);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct NatsSink {
    options: NatsSinkOptions,
    jobs: mpsc::UnboundedSender<Job>,
}

/// The writes of a batch, and the channel for their results.
struct Job {
    writes: Vec<Write>,
    answers: blocking::Sender<Vec<Result<u64, SinkError>>>,
}

impl NatsSink {
    /// Creates a sink with its own thread. No server needs to be running yet.
    ///
    /// # Errors
    ///
    /// - [`BuildError::Invalid`] if an option is out of range or an address is invalid.
    /// - [`BuildError::Connect`] if a certificate, key or credentials file cannot be used.
    /// - [`BuildError::Thread`] if the system cannot start a thread.
    pub fn new(options: NatsSinkOptions) -> Result<Self, BuildError> {
        options.connection.check()?;
        check_prefix(&options.prefix)?;
        check_stream(&options.stream)?;
        if options.timeout.is_zero() {
            return Err(BuildError::invalid("timeout", "more than zero", "0"));
        }
        let (jobs, taken) = mpsc::unbounded_channel();
        let task_options = options.clone();
        // The task ends when the sink drops its end of the channel.
        connect_and_run(None, &options.connection, CAPACITY, None, move |connection| {
            work(task_options, connection, taken)
        })?;
        Ok(Self { options, jobs })
    }

    /// Performs writes, and returns the result of each write.
    fn perform(&self, writes: Vec<Write>) -> Vec<Result<u64, SinkError>> {
        let count = writes.len();
        let (answers, answered) = blocking::channel();
        // The time limit allows one timeout for the connection, one timeout for the stream, and one
        // timeout for each round of up to `IN_FLIGHT` writes.
        let rounds = u32::try_from(count.div_ceil(IN_FLIGHT)).unwrap_or(u32::MAX);
        let patience = self.options.timeout.saturating_mul(rounds.saturating_add(2));
        let sent = self.jobs.send(Job { writes, answers });
        let got = sent.ok().and_then(|()| answered.recv_timeout(patience).ok());
        got.unwrap_or_else(|| {
            (0..count)
                .map(|_| Err(SinkError::new(SinkErrorKind::Unavailable, "no response in time")))
                .collect()
        })
    }

    fn write(&self, event: &Event, verb: Verb) -> Result<Event, SinkError> {
        let answer = self.perform(vec![Write::new(&self.options.prefix, event, verb)]).pop();
        let sequence =
            answer.unwrap_or_else(|| Err(SinkError::new(SinkErrorKind::Unavailable, "no answer")))?;
        Ok(as_stored(event.clone(), sequence))
    }
}

/// Returns an event with the version assigned by the store.
fn as_stored(mut event: Event, sequence: u64) -> Event {
    event.metadata.set_resource_version(sequence.to_string());
    event
}

impl EventSink for NatsSink {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.write(event, Verb::Create)
    }

    /// Replaces the stored event, or creates the event if it does not exist.
    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.write(event, Verb::Update)
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.write(event, Verb::Patch)
    }

    fn mode(&self) -> SinkMode {
        SinkMode::Batches
    }

    /// Performs up to 64 operations at the same time, in no particular order.
    fn submit(&self, batch: SinkBatch) {
        let write = |op: &SinkOp| {
            let verb = match op {
                SinkOp::Create(_) => Verb::Create,
                SinkOp::Patch(_) => Verb::Patch,
                _ => Verb::Update,
            };
            Write::new(&self.options.prefix, op.event(), verb)
        };
        let answers = self.perform(batch.ops().iter().map(write).collect());
        let stored = |(op, answer): (&SinkOp, Result<u64, SinkError>)| {
            answer.map(|sequence| Stored::from(as_stored(op.event().clone(), sequence)))
        };
        let answers: Vec<_> = batch.ops().iter().zip(answers).map(stored).collect();
        batch.answer(answers);
    }
}

impl fmt::Debug for NatsSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsSink").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Writes batches, one at a time, until the sink is dropped.
async fn work(options: NatsSinkOptions, mut connection: Connection, mut jobs: mpsc::UnboundedReceiver<Job>) {
    let context = ContextBuilder::new().timeout(options.timeout).build(connection.client.clone());
    // Before the first batch, and after a failure, the stream may not exist. In these cases, the
    // stream is created before the writes.
    let mut has_failed = true;
    while let Some(Job { writes, answers }) = jobs.recv().await {
        if timeout(options.timeout, connection.connected()).await.is_err() {
            let failure = connection.link().failure.map(|failure| failure.text);
            let text = failure.unwrap_or_else(|| "not connected".to_owned());
            let away = || Err(SinkError::new(SinkErrorKind::Unavailable, text.clone()));
            // An error means that the caller is no longer waiting.
            let _ = answers.send(writes.iter().map(|_| away()).collect());
            continue;
        }
        if has_failed {
            // Ignore the result, because the writes will show whether the stream exists.
            let _ = context.get_or_create_stream(config(&options)).await;
        }
        let got = send_all(&context, writes).await;
        let is_failure = |answer: &Result<u64, SinkError>| {
            answer.as_ref().is_err_and(|error| error.kind() != SinkErrorKind::AlreadyExists)
        };
        has_failed = got.iter().any(is_failure);
        let _ = answers.send(got);
    }
}

async fn send_all(context: &Context, writes: Vec<Write>) -> Vec<Result<u64, SinkError>> {
    let sending = writes.into_iter().map(|write| write.send(context));
    futures::stream::iter(sending).buffered(IN_FLIGHT).collect().await
}

fn config(options: &NatsSinkOptions) -> jetstream::stream::Config {
    Config {
        name: options.stream.clone(),
        subjects: vec![format!("{}.>", options.prefix)],
        max_messages_per_subject: 1,
        max_age: options.max_age,
        num_replicas: options.replicas,
        discard: DiscardPolicy::Old,
        storage: match options.storage {
            Storage::File => StorageType::File,
            Storage::Memory => StorageType::Memory,
        },
        // If the window were longer than `max_age`, the server would refuse the stream.
        duplicate_window: Duration::from_secs(120).min(options.max_age),
        ..Default::default()
    }
}
