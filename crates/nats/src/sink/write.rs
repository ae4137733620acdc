//! Sends a single write of an event, and interprets the server's response.

use async_nats::HeaderMap;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, Context, ErrorCode};
use bytes::Bytes;
use eventcast::sink::SinkErrorKind;
use eventcast::{Event, SinkError};

use crate::client::{chain, server_error};
use crate::subject::Subject;

/// How a write treats a stored event with the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Create,
    Update,
    Patch,
}

/// A write that is ready to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) subject: String,
    verb: Verb,
    payload: Bytes,
}

impl Write {
    pub(crate) fn new(prefix: &str, event: &Event, verb: Verb) -> Self {
        let place = [&event.metadata.namespace, &event.involved_object.namespace];
        let namespace = place.into_iter().find(|namespace| !namespace.is_empty());
        let namespace = namespace.map_or("default", |namespace| namespace.as_str());
        let subject = Subject::new(prefix).token(namespace).token(&event.metadata.name);
        Self { subject: subject.to_string(), verb, payload: event.to_json().into() }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let verb = match self.verb {
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
        };
        headers.insert("Eventcast-Op", verb);
        if self.verb == Verb::Create {
            headers.insert("Nats-Expected-Last-Subject-Sequence", "0");
        }
        headers
    }

    /// Sends the write, and returns the number of the message in the stream.
    ///
    /// # Errors
    ///
    /// Returns the error in the form that a recording expects.
    pub(crate) async fn send(self, context: &Context) -> Result<u64, SinkError> {
        let publish = PublishMessage::build().payload(self.payload.clone()).headers(self.headers());
        let error = match context.send_publish(self.subject, publish).await {
            Ok(sent) => match sent.await {
                Ok(acknowledged) => return Ok(acknowledged.sequence),
                Err(error) => error,
            },
            Err(error) => error,
        };
        let text = chain(&error);
        Err(match error.kind() {
            PublishErrorKind::WrongLastSequence => SinkError::new(SinkErrorKind::AlreadyExists, text),
            PublishErrorKind::MaxPayloadExceeded => SinkError::rejected(text),
            PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => {
                SinkError::new(SinkErrorKind::Unavailable, text)
            }
            PublishErrorKind::StreamNotFound => SinkError::retry(text),
            _ => match server_error(&error).map(jetstream::Error::error_code) {
                Some(ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM) => SinkError::rejected(text),
                _ => SinkError::retry(text),
            },
        })
    }
}
