//! A session: one consumer of the server, from which a reader pulls messages until something is
//! wrong. The reader then opens another one, at its position.
//!
//! The consumer keeps no state that matters, because the reader knows its position itself. It has
//! no acknowledgements, lives in the server's memory, and disappears by itself. The client's own
//! ordered consumer is not used: it does not come back after the server was killed.

use std::time::{Duration, SystemTime};

use async_nats::jetstream::consumer::pull::{BatchConfig, Config};
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy};
use async_nats::jetstream::context::{GetStreamErrorKind, RequestError, RequestErrorKind};
use async_nats::jetstream::stream::ConsumerErrorKind;
use async_nats::jetstream::{self, Context};
use async_nats::{StatusCode, Subscriber};
use futures::StreamExt;
use tokio::time::{Instant, sleep_until};

use crate::client::chain;
use crate::failure::{NO_JETSTREAM, of_jetstream};

use super::start::{Beginning, Place, StreamState};

/// The time after which the server forgets a consumer that nobody pulls from.
const FORGET_AFTER: Duration = Duration::from_secs(300);
/// The number of signs of life that may be missing.
const SIGNS: u32 = 3;
/// The header with the number of messages that an ended request has not delivered.
const PENDING: &str = "Nats-Pending-Messages";

/// The stream and the subjects to read.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) stream: String,
    pub(crate) filter: Option<String>,
    /// The most messages that are asked for at once.
    pub(crate) messages: usize,
    /// The time between two signs of life of an idle server.
    pub(crate) heartbeat: Duration,
}

/// The reason for which a session did not begin or has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The server refuses, for example because there is no such stream.
    Refused(String),
    Other(String),
}

/// Returns whether nobody takes the requests to JetStream.
fn is_unanswered(error: &dyn std::error::Error) -> bool {
    let request = error.source().and_then(|cause| cause.downcast_ref::<RequestError>());
    request.is_some_and(|request| request.kind() == RequestErrorKind::NoResponders)
}

/// A message of the stream.
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
    /// The messages that were asked for, and that have not come yet.
    outstanding: usize,
    /// The number of the last message among those of this consumer.
    delivered: u64,
    last_sign: Instant,
}

impl Session {
    /// Creates a consumer at a place.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such stream, or if the server does not answer.
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
            // The server insists on a filter then.
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

    /// Asks for more messages if half of what may be asked for has come.
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

    /// Notes that the reader was away itself, so that the silence begins now.
    pub(crate) fn was_away(&mut self) {
        self.last_sign = Instant::now();
    }

    /// Waits for the next message. If the future is dropped before it is ready, it has taken
    /// nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if a message is missing, the consumer is gone, or the server is silent.
    pub(crate) async fn next(&mut self) -> Result<Option<Stored>, Broken> {
        let silent_at = self.last_sign + self.wanted.heartbeat * SIGNS;
        let message = tokio::select! {
            biased;
            message = self.subscriber.next() => message,
            () = sleep_until(silent_at) => return Err(Broken::Other("the server is silent".to_owned())),
        };
        let message = message.ok_or_else(|| Broken::Other("the subscription has ended".to_owned()))?;
        self.last_sign = Instant::now();
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

    /// Notes what the server says about a request.
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
            _ => Err(Broken::Other(format!("the server says {status}: {text}"))),
        }
    }

    /// Asks the server to forget the consumer. Waits for no answer.
    pub(crate) fn close(self) {
        let Self { context, consumer, wanted, .. } = self;
        let name = consumer.cached_info().name.clone();
        tokio::spawn(async move {
            // The server forgets the consumer by itself if this does not reach it.
            let _ = context.delete_consumer_from_stream(name, wanted.stream).await;
        });
    }
}
