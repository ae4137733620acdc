//! A session is a consumer on the server, from which a reader pulls messages until an error occurs.
//! The reader then opens another session at its current position.
//!
//! The consumer keeps no important state, because the reader knows its own position. The consumer
//! uses no acknowledgements, is stored in the server's memory, and expires automatically. The
//! client's own ordered consumer is not used, because it does not recover after the server is
//! killed.

use std::time::{Duration, SystemTime};

use async_nats::jetstream::consumer::pull::{BatchConfig, Config};
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy};
use async_nats::jetstream::context::{GetStreamErrorKind, RequestError, RequestErrorKind};
use async_nats::jetstream::stream::ConsumerErrorKind;
use async_nats::jetstream::{self, Context};
use async_nats::{StatusCode, Subscriber};
use futures::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep_until};

use crate::client::chain;
use crate::failure::{NO_JETSTREAM, of_jetstream};

use super::start::{Beginning, Place, StreamState};

/// How long the server keeps a consumer while no messages are pulled from it.
const FORGET_AFTER: Duration = Duration::from_secs(300);
/// The number of missed heartbeats after which the reader considers the server silent.
const SIGNS: u32 = 3;
/// The header with the number of messages that were still undelivered when a request ended.
const PENDING: &str = "Nats-Pending-Messages";

/// The stream and the subjects to read.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) stream: String,
    pub(crate) filter: Option<String>,
    /// The maximum number of messages to request at a time.
    pub(crate) messages: usize,
    /// The interval at which an idle server sends heartbeats.
    pub(crate) heartbeat: Duration,
}

/// The reason why a session could not begin or has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The server refuses the request, for example because the stream does not exist.
    Refused(String),
    Other(String),
}

/// Returns whether the error means that no server handles JetStream requests.
fn is_unanswered(error: &dyn std::error::Error) -> bool {
    let request = error.source().and_then(|cause| cause.downcast_ref::<RequestError>());
    request.is_some_and(|request| request.kind() == RequestErrorKind::NoResponders)
}

/// A message that is stored in the stream.
pub(crate) struct Stored {
    pub(crate) message: async_nats::Message,
    pub(crate) sequence: u64,
    pub(crate) at: SystemTime,
}

pub(crate) struct Session {
    context: Context,
    consumer: Consumer<Config>,
    subscriber: Subscriber,
    inbox: String,
    wanted: Wanted,
    /// The number of requested messages that have not arrived yet.
    outstanding: usize,
    /// The number of the last message, as counted by this consumer.
    delivered: u64,
    last_sign: Instant,
}

impl Session {
    /// Creates a consumer that begins at this position.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream does not exist or the server does not respond.
    pub(crate) async fn open(
        context: &Context,
        wanted: &Wanted,
        place: &Place,
    ) -> Result<(Self, Beginning, StreamState), Broken> {
        let other = |error: &dyn std::error::Error| Broken::Other(chain(error));
        let stream = context.get_stream(&wanted.stream).await.map_err(|error| match error.kind() {
            GetStreamErrorKind::JetStream(ref cause)
                if cause.error_code() == jetstream::ErrorCode::STREAM_NOT_FOUND =>
            {
                Broken::Refused(format!("there is no stream {}", wanted.stream))
            }
            GetStreamErrorKind::JetStream(ref cause) => Broken::Refused(of_jetstream(cause)),
            _ if is_unanswered(&error) => Broken::Refused(NO_JETSTREAM.to_owned()),
            _ => other(&error),
        })?;
        let info = stream.cached_info();
        let created = info.created.to_string().into();
        let state = StreamState { created, first: info.state.first_sequence, last: info.state.last_sequence };
        let begins = place.begin(&state);
        let mut filter = wanted.filter.clone().unwrap_or_default();
        if begins.policy == DeliverPolicy::LastPerSubject && filter.is_empty() {
            // The server requires a filter for this policy.
            ">".clone_into(&mut filter);
        }
        let config = Config {
            deliver_policy: begins.policy,
            ack_policy: AckPolicy::None,
            filter_subject: filter,
            inactive_threshold: FORGET_AFTER,
            memory_storage: true,
            num_replicas: 1,
            ..Default::default()
        };
        let consumer = stream.create_consumer(config).await.map_err(|error| match error.kind() {
            ConsumerErrorKind::JetStream(cause) => Broken::Refused(of_jetstream(&cause)),
            _ => other(&error),
        })?;
        let inbox = context.client().new_inbox();
        let subscriber = context.client().subscribe(inbox.clone()).await.map_err(|error| other(&error))?;
        let session = Self {
            context: context.clone(),
            consumer,
            subscriber,
            inbox,
            wanted: wanted.clone(),
            outstanding: 0,
            delivered: 0,
            last_sign: Instant::now(),
        };
        Ok((session, begins, state))
    }

    /// Requests more messages once half of the maximum number of messages has arrived.
    ///
    /// # Errors
    ///
    /// Returns an error if the client has ended.
    pub(crate) async fn refill(&mut self) -> Result<(), Broken> {
        if self.outstanding > self.wanted.messages / 2 {
            return Ok(());
        }
        let request = BatchConfig {
            batch: self.wanted.messages - self.outstanding,
            expires: Some((self.wanted.heartbeat * SIGNS).max(Duration::from_secs(30))),
            idle_heartbeat: self.wanted.heartbeat,
            ..Default::default()
        };
        self.outstanding = self.wanted.messages;
        let asked = self.consumer.request_batch(request, self.inbox.as_str().into()).await;
        asked.map_err(|error| Broken::Other(chain(&error)))
    }

    /// Restarts the heartbeat timeout after the reader itself was busy.
    pub(crate) fn was_away(&mut self) {
        self.last_sign = Instant::now();
    }

    /// Waits for the next message. If the future is dropped before it is ready, no message is lost.
    ///
    /// # Errors
    ///
    /// Returns an error if a message is missing, the consumer no longer exists, or the server is
    /// silent.
    pub(crate) async fn next(&mut self) -> Result<Option<Stored>, Broken> {
        let silent_at = self.last_sign + self.wanted.heartbeat * SIGNS;
        let message = tokio::select! {
            biased;
            message = self.subscriber.next() => message,
            () = sleep_until(silent_at) => return Err(Broken::Other("the server does not respond".to_owned())),
        };
        self.last_sign = Instant::now();
        self.accept(message)
    }

    /// Returns the next message if it has already arrived. The outer `Option` is `None` if nothing
    /// has arrived.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`next`](Self::next).
    pub(crate) fn try_next(&mut self) -> Option<Result<Option<Stored>, Broken>> {
        let message = self.subscriber.next().now_or_never()?;
        Some(self.accept(message))
    }

    fn accept(&mut self, message: Option<async_nats::Message>) -> Result<Option<Stored>, Broken> {
        let message = message.ok_or_else(|| Broken::Other("the subscription has ended".to_owned()))?;
        match message.status {
            None | Some(StatusCode::OK) => self.judge(message).map(Some),
            Some(status) => self.note(status, &message).map(|()| None),
        }
    }

    fn judge(&mut self, message: async_nats::Message) -> Result<Stored, Broken> {
        let message = jetstream::Message { message, context: self.context.clone() };
        let info = message.info().map_err(|error| Broken::Other(error.to_string()))?;
        let (sequence, delivered) = (info.stream_sequence, info.consumer_sequence);
        let nanos = u64::try_from(info.published.unix_timestamp_nanos()).unwrap_or_default();
        let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos);
        if delivered != self.delivered + 1 {
            return Err(Broken::Other("a message is missing between the server and the reader".to_owned()));
        }
        self.delivered = delivered;
        self.outstanding = self.outstanding.saturating_sub(1);
        Ok(Stored { message: message.message, sequence, at })
    }

    /// Handles the server's status message about a request.
    fn note(&mut self, status: StatusCode, message: &async_nats::Message) -> Result<(), Broken> {
        let text = message.description.as_deref().unwrap_or_default();
        match status {
            StatusCode::IDLE_HEARTBEAT => Ok(()),
            StatusCode::TIMEOUT | StatusCode::REQUEST_TERMINATED if !text.contains("Consumer") => {
                let pending = message.headers.as_ref().and_then(|headers| headers.get(PENDING));
                let pending = pending.and_then(|pending| pending.as_str().parse().ok());
                self.outstanding = self.outstanding.saturating_sub(pending.unwrap_or(self.outstanding));
                Ok(())
            }
            _ => Err(Broken::Other(format!("the server returned {status}: {text}"))),
        }
    }

    /// Asks the server to delete the consumer, without waiting for a response.
    pub(crate) fn close(self) {
        let Self { context, consumer, wanted, .. } = self;
        let name = consumer.cached_info().name.clone();
        tokio::spawn(async move {
            // If this request does not reach the server, the consumer expires on its own.
            let _ = context.delete_consumer_from_stream(name, wanted.stream).await;
        });
    }
}
