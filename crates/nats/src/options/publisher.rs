//! The options of the outgoing side.

use std::time::Duration;

use eventcast::OverflowPolicy;
use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::subject::{check_prefix, check_stream};

use super::connection::ConnectionOptions;
use super::stream::StreamOptions;

/// The options of a [`NatsPublisher`](crate::NatsPublisher) that are plain data.
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
    /// The first tokens of every subject, separated by dots. Default `events`.
    pub prefix: String,
    /// The name of the stream that [`ensure_stream`](Self::ensure_stream) creates. Default
    /// `EVENTS`.
    pub stream: String,
    /// The stream to create if it does not exist. Its subjects are the prefix and everything below
    /// it. Default: no stream is created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ensure_stream: Option<StreamOptions>,
    /// Free text in every message that identifies the sender. Default: the host and the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The capacity of the watcher's queue on the bus, in events. Default 16,384.
    pub queue_capacity: usize,
    /// The watcher's policy for a full queue. With [`Wait`](OverflowPolicy::Wait), an outage of the
    /// server stops the bus. Default [`DropIncoming`](OverflowPolicy::DropIncoming).
    pub overflow: OverflowPolicy,
    /// The maximum number of events in a message, 1 to 65,536. Default 256.
    pub max_batch: usize,
    /// The maximum size of a message's payload in bytes, 1 to 8 MiB. The server's own limit also
    /// applies. Default 512 KiB.
    pub max_bytes: usize,
    /// How long a message that is not full waits for more events, at most 1 s. Default 0: a message
    /// holds the events that are available.
    #[serde(with = "crate::duration")]
    pub linger: Duration,
    /// The time after which a loss is reported in its own message if no event follows. Default 1 s.
    #[serde(with = "crate::duration")]
    pub gap_after: Duration,
    /// The interval between messages that report that nothing was published. Default: none are
    /// sent.
    #[serde(with = "crate::duration::option", skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Duration>,
    /// How long to wait for the acknowledgement of a message before it is sent again. Default 5 s.
    #[serde(with = "crate::duration")]
    pub ack_timeout: Duration,
    /// The pauses between attempts.
    pub retry: RetryOptions,
    /// The action if the stream is full and refuses new messages. Default [`OnFull::Retry`].
    pub on_full: OnFull,
    /// Whether attaching fails if not connected within `ack_timeout`. Default false.
    pub require_connection: bool,
}

/// The pauses between the attempts to send a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RetryOptions {
    /// The first pause. Each later pause is twice as long as the previous one. Default 100 ms.
    #[serde(with = "crate::duration")]
    pub min: Duration,
    /// The longest pause. Default 10 s.
    #[serde(with = "crate::duration")]
    pub max: Duration,
}

/// The action if a stream is full and refuses new messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnFull {
    /// The message is sent again until the stream has space.
    #[default]
    Retry,
    /// The events of the message are dropped, and counted as `refused`.
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
