//! The options of the outgoing side.

use std::time::Duration;

use eventcast::OverflowPolicy;
use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::subject::{check_prefix, check_stream};

use super::connection::ConnectionOptions;
use super::stream::StreamOptions;

/// The options of a [`NatsPublisher`](crate::NatsPublisher) that a configuration file can set.
///
/// # Examples
///
/// ```
/// use eventcast::OverflowPolicy;
/// use eventcast_nats::PublisherOptions;
///
/// let options: PublisherOptions = serde_json::from_str(
///     r#"{
///         "connection": {"servers": ["nats://127.0.0.1:4222"]},
///         "prefix": "ticks",
///         "stream": "TICKS",
///         "ensure_stream": {"max_age": "2h"},
///         "overflow": "drop_oldest",
///         "linger": "1ms"
///     }"#,
/// )?;
/// assert_eq!(options.overflow, OverflowPolicy::DropOldest);
/// assert_eq!(options.queue_capacity, 16_384);
/// assert!(serde_json::from_str::<PublisherOptions>(r#"{"que_len": 1}"#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PublisherOptions {
    /// The servers.
    pub connection: ConnectionOptions,
    /// The first tokens of every subject, separated by dots. Defaults to `events`.
    pub prefix: String,
    /// The name of the stream that [`ensure_stream`](Self::ensure_stream) creates. Defaults to
    /// `EVENTS`.
    pub stream: String,
    /// How to create the stream if it does not exist. The stream's subjects are the prefix and all
    /// subjects below the prefix. By default, no stream is created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ensure_stream: Option<StreamOptions>,
    /// Free text that identifies the sender in every message. Defaults to the host's name and the
    /// program's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The capacity of the watcher's queue on the bus, in events. Defaults to 16,384.
    pub queue_capacity: usize,
    /// The policy that applies when the watcher's queue is full. With
    /// [`Wait`](OverflowPolicy::Wait), the bus stops if the queue fills up during a server outage.
    /// Defaults to [`DropIncoming`](OverflowPolicy::DropIncoming).
    pub overflow: OverflowPolicy,
    /// The maximum number of events in a message, from 1 to 65,536. Defaults to 256.
    pub max_batch: usize,
    /// The maximum size of a message's payload in bytes, from 1 byte to 8 MiB. The server's own
    /// limit also applies. Defaults to 512 KiB.
    pub max_bytes: usize,
    /// How long the publisher waits for more events before it sends a message that is not full. The
    /// maximum is 1 s. Defaults to 0, which means that a message contains the events that are
    /// available when the message is assembled.
    #[serde(with = "crate::duration")]
    pub linger: Duration,
    /// How long the publisher waits for another event after a loss before it reports the loss in a
    /// separate message. Defaults to 1 s.
    #[serde(with = "crate::duration")]
    pub gap_after: Duration,
    /// The interval at which the publisher sends messages without events while nothing is
    /// published. By default, the publisher sends no such messages.
    #[serde(with = "crate::duration::option", skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Duration>,
    /// How long to wait for a message's acknowledgement before sending the message again. Defaults
    /// to 5 s.
    #[serde(with = "crate::duration")]
    pub ack_timeout: Duration,
    /// The pauses between attempts to send a message.
    pub retry: RetryOptions,
    /// The action to take if the stream is full and refuses new messages. Defaults to
    /// [`OnFull::Retry`].
    pub on_full: OnFull,
    /// Whether attaching to a bus fails if there is no connection within `ack_timeout`. Defaults to
    /// `false`.
    pub require_connection: bool,
}

/// The pauses between the attempts to send a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RetryOptions {
    /// The first pause. Each later pause is twice as long as the previous pause, up to `max`.
    /// Defaults to 100 ms.
    #[serde(with = "crate::duration")]
    pub min: Duration,
    /// The longest pause. Defaults to 10 s.
    #[serde(with = "crate::duration")]
    pub max: Duration,
}

/// The action that a publisher takes if a stream is full and refuses new messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnFull {
    /// The publisher sends the message again until the stream has space.
    #[default]
    Retry,
    /// The publisher drops the message's events, and counts them as `refused`.
    Drop,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self { min: Duration::from_millis(100), max: Duration::from_secs(10) }
    }
}

impl Default for PublisherOptions {
    fn default() -> Self {
        Self {
            connection: ConnectionOptions::default(),
            prefix: "events".to_owned(),
            stream: "EVENTS".to_owned(),
            ensure_stream: None,
            source: None,
            queue_capacity: 16_384,
            overflow: OverflowPolicy::DropIncoming,
            max_batch: 256,
            max_bytes: 512 * 1024,
            linger: Duration::ZERO,
            gap_after: Duration::from_secs(1),
            heartbeat: None,
            ack_timeout: Duration::from_secs(5),
            retry: RetryOptions::default(),
            on_full: OnFull::Retry,
            require_connection: false,
        }
    }
}

impl PublisherOptions {
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        self.connection.check()?;
        check_prefix(&self.prefix)?;
        check_stream(&self.stream)?;
        self.ensure_stream.as_ref().map_or(Ok(()), StreamOptions::check)?;
        if !(1..=65_536).contains(&self.max_batch) {
            return Err(BuildError::invalid("max_batch", "1 to 65536 events", self.max_batch));
        }
        if !(1..=8 << 20).contains(&self.max_bytes) {
            return Err(BuildError::invalid("max_bytes", "1 to 8388608 bytes", self.max_bytes));
        }
        if self.linger > Duration::from_secs(1) {
            return Err(BuildError::invalid("linger", "at most 1 s", format!("{:?}", self.linger)));
        }
        if self.ack_timeout.is_zero() {
            return Err(BuildError::invalid("ack_timeout", "more than zero", "0"));
        }
        if self.retry.min.is_zero() || self.retry.max < self.retry.min {
            let got = format!("{:?} to {:?}", self.retry.min, self.retry.max);
            return Err(BuildError::invalid("retry", "more than zero, and max at least min", got));
        }
        Ok(())
    }
}
