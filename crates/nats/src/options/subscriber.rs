//! The options of the incoming side.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::subject::{check_filter, check_stream};

use super::connection::ConnectionOptions;

/// The options of a [`NatsSubscriber`](crate::NatsSubscriber) that a configuration file can set.
///
/// # Examples
///
/// ```
/// use eventcast_nats::{Start, SubscriberOptions};
///
/// let options: SubscriberOptions = serde_json::from_str(
///     r#"{"stream": "EVENTS", "filter": "events.*.Warning.>", "start": "all", "resume": "position.json"}"#,
/// )?;
/// assert_eq!(options.start, Start::All);
/// let options: SubscriberOptions = serde_json::from_str(r#"{"start": {"sequence": 51}}"#)?;
/// assert_eq!(options.start, Start::Sequence(51));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SubscriberOptions {
    /// The servers.
    pub connection: ConnectionOptions,
    /// The name of the stream. Defaults to `EVENTS`.
    pub stream: String,
    /// The subjects to read, where `*` matches one token and `>` matches all remaining tokens. By
    /// default, all subjects are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The position at which to start reading if no position is saved. Defaults to [`Start::New`].
    pub start: Start,
    /// The file in which the position is saved. By default, the position is not saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<PathBuf>,
    /// The minimum time between two saves of the position. Defaults to 1 s.
    #[serde(with = "crate::duration")]
    pub save_every: Duration,
    /// The maximum number of messages that are buffered in this process, from 2 to 8,192. A message
    /// can hold many events. Defaults to 500.
    pub max_messages: usize,
    /// The action to take if the local bus is full. Defaults to [`Overflow::Wait`].
    pub overflow: Overflow,
    /// The interval at which an idle server sends heartbeats, from 100 ms to 1 min. The reader
    /// restarts if it misses three heartbeats. Defaults to 5 s.
    #[serde(with = "crate::duration")]
    pub heartbeat: Duration,
    /// Whether starting the reader fails if there is no connection within 5 s. Defaults to `false`.
    pub require_connection: bool,
}

/// The position at which a reader starts in a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Start {
    /// The reader receives only messages that the server stores from now on.
    #[default]
    New,
    /// The reader starts with the first message in the stream.
    All,
    /// The reader receives the last message in the stream, and all later messages.
    Last,
    /// The reader receives the last message of each subject, and all later messages.
    LastPerSubject,
    /// The reader starts with the message that has this number, or with the first later message.
    Sequence(u64),
    /// The reader starts with the first message that the server stored at or after this time, in
    /// seconds since 1970.
    Since(u64),
}

/// The action that a subscriber takes if the local bus is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Overflow {
    /// The subscriber waits until the bus has space, and the server keeps the remaining messages.
    #[default]
    Wait,
    /// The subscriber drops the events that do not fit, counts them, and publishes a gap.
    Drop,
}

impl Default for SubscriberOptions {
    fn default() -> Self {
        Self {
            connection: ConnectionOptions::default(),
            stream: "EVENTS".to_owned(),
            filter: None,
            start: Start::New,
            resume: None,
            save_every: Duration::from_secs(1),
            max_messages: 500,
            overflow: Overflow::Wait,
            heartbeat: Duration::from_secs(5),
            require_connection: false,
        }
    }
}

impl SubscriberOptions {
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        self.connection.check()?;
        check_stream(&self.stream)?;
        self.filter.as_deref().map_or(Ok(()), check_filter)?;
        if !(2..=8192).contains(&self.max_messages) {
            return Err(BuildError::invalid("max_messages", "2 to 8192 messages", self.max_messages));
        }
        if !(Duration::from_millis(100)..=Duration::from_secs(60)).contains(&self.heartbeat) {
            return Err(BuildError::invalid("heartbeat", "100 ms to 1 min", format!("{:?}", self.heartbeat)));
        }
        Ok(())
    }
}
