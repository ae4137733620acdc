//! Sends a message to the server once, and interprets the response.

use std::time::Duration;

use async_nats::jetstream::context::{
    AccountErrorKind, ContextBuilder, CreateStreamErrorKind, PublishErrorKind,
};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, Context, ErrorCode};

use crate::client::{Connection, chain, server_error};
use crate::failure::{NO_ACK, NO_JETSTREAM, of_jetstream};
use crate::options::{Discard, Storage, StreamOptions};

use super::assembler::Message;

/// The number of bytes within the server's size limit that are reserved for headers, unless the
/// limit is small.
const FOR_HEADERS: usize = 1024;

/// The outcome of sending a message, as determined from the server's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Acknowledged {
        is_duplicate: bool,
    },
    NoStream,
    /// The stream is full and refuses new messages.
    Full(String),
    TooLarge,
    /// The server refuses the message for another reason, which may be temporary.
    Refused(String),
    /// The server did not respond to the message.
    None(String),
}

/// Sends messages to the server.
pub(crate) struct Sender {
    context: Context,
    pub(crate) connection: Connection,
    source: String,
    stream: String,
    subjects: Vec<String>,
    ensure: Option<StreamOptions>,
}

impl Sender {
    pub(crate) fn new(
        connection: Connection,
        timeout: Duration,
        source: String,
        (stream, prefix): (String, &str),
        ensure: Option<StreamOptions>,
    ) -> Self {
        let context = ContextBuilder::new().timeout(timeout).build(connection.client.clone());
        let subjects = vec![prefix.to_owned(), format!("{prefix}.>")];
        Self { context, connection, source, stream, subjects, ensure }
    }

    /// Returns the maximum size of a payload in bytes.
    pub(crate) fn max_payload(&self) -> usize {
        let limit = self.connection.client.max_payload();
        limit - FOR_HEADERS.min(limit / 2)
    }

    /// Creates the stream if the options request this and the stream does not exist.
    ///
    /// # Errors
    ///
    /// If the server refuses to create the stream, returns the text of the refusal. A missing
    /// response is not an error, because the next message shows whether the stream exists.
    pub(crate) async fn ensure(&self) -> Result<(), String> {
        let Some(options) = &self.ensure else { return Ok(()) };
        let config = config(&self.stream, &self.subjects, options);
        let created = self.context.get_or_create_stream(config).await;
        let text = match created.map_err(|error| error.kind()) {
            Err(CreateStreamErrorKind::JetStream(error)) => of_jetstream(&error),
            Err(CreateStreamErrorKind::JetStreamUnavailable) => return Err(NO_JETSTREAM.to_owned()),
            _ => return Ok(()),
        };
        Err(format!("cannot create the stream {}: {text}", self.stream))
    }

    /// Returns the reason why no stream accepts messages with this subject. If the options request
    /// the creation of the stream, this method first tries to create the stream.
    pub(crate) async fn why_no_stream(&self, subject: &str) -> String {
        if let Err(text) = self.ensure().await {
            return text;
        }
        if self.ensure.is_none() {
            match self.context.query_account().await.map_err(|error| error.kind()) {
                Err(AccountErrorKind::JetStreamUnavailable) => return NO_JETSTREAM.to_owned(),
                Err(AccountErrorKind::JetStream(error)) => return of_jetstream(&error),
                _ => {}
            }
        }
        format!("no stream captures the subject {subject}")
    }

    /// Sends a message, and waits for the response.
    pub(crate) async fn attempt(&self, message: &Message) -> Answer {
        let headers = message.head.write(&self.source);
        let publish = PublishMessage::build().payload(message.payload.to_bytes()).headers(headers);
        let error = match self.context.send_publish(message.subject.to_string(), publish).await {
            Ok(acknowledged) => match acknowledged.await {
                Ok(acknowledged) => return Answer::Acknowledged { is_duplicate: acknowledged.duplicate },
                Err(error) => error,
            },
            Err(error) => error,
        };
        match error.kind() {
            PublishErrorKind::StreamNotFound => Answer::NoStream,
            PublishErrorKind::MaxPayloadExceeded => Answer::TooLarge,
            PublishErrorKind::TimedOut => Answer::None(NO_ACK.to_owned()),
            _ => match server_error(&error) {
                None => Answer::None(chain(&error)),
                Some(error) => match error.error_code() {
                    ErrorCode::STREAM_STORE_FAILED if is_full(&error.to_string()) => {
                        Answer::Full(format!("the stream is full: {error}"))
                    }
                    ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM => Answer::TooLarge,
                    _ => Answer::Refused(of_jetstream(error)),
                },
            },
        }
    }
}

/// Returns whether an error from the server's store means that the stream has reached one of its
/// limits.
fn is_full(text: &str) -> bool {
    text.contains("maximum")
}

fn config(name: &str, subjects: &[String], options: &StreamOptions) -> jetstream::stream::Config {
    let limit = |limit: u64| i64::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(-1);
    jetstream::stream::Config {
        name: name.to_owned(),
        subjects: subjects.to_vec(),
        max_bytes: limit(options.max_bytes),
        max_messages: limit(options.max_messages),
        max_age: options.max_age,
        num_replicas: options.replicas,
        duplicate_window: options.duplicate_window,
        storage: match options.storage {
            Storage::File => jetstream::stream::StorageType::File,
            Storage::Memory => jetstream::stream::StorageType::Memory,
        },
        discard: match options.discard {
            Discard::Old => jetstream::stream::DiscardPolicy::Old,
            Discard::New => jetstream::stream::DiscardPolicy::New,
        },
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_limits_are_a_full_stream() {
        assert!(is_full("maximum messages exceeded") && is_full("maximum bytes exceeded"));
        assert!(!is_full("no space left on device"));
    }
}
