//! The sink. It sends events through the asynchronous client, and says what the client's answers
//! mean.

use std::time::Duration;

use eventcast::sink::AsyncEventSink;
use eventcast::{Event, SinkError};

use super::client::Client;
use super::http::Message;

pub(crate) struct StoreSink(Client);

impl StoreSink {
    pub(crate) fn new(client: Client) -> Self {
        Self(client)
    }

    async fn send(&self, method: &str, event: &Event) -> Result<Event, SinkError> {
        let answer = self.0.send(method, "/events", &event.to_json()).await;
        // If there is no connection, if the connection breaks, or if no answer comes in time, the
        // store itself is unreachable, so no other event would fare better.
        understand(&answer.map_err(SinkError::unreachable)?)
    }
}

impl AsyncEventSink for StoreSink {
    /// Creates the event in the store. If an answer is lost on its way back, the next attempt finds
    /// the event there, and the recording gives up an event that in fact was stored. A store that
    /// knows a request by an identifier would answer as it did the first time.
    async fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.send("POST", event).await
    }

    /// Replaces the whole event. There is no `patch` here, so this method serves for patches too.
    async fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.send("PUT", event).await
    }
}

/// Returns what the recording should do next: keep what is stored, try again, create, or give up.
fn understand(answer: &Message) -> Result<Event, SinkError> {
    let why = format!("{}: {}", answer.second_word(), answer.body);
    match answer.second_word() {
        "200" | "201" => Event::from_json(&answer.body).map_err(SinkError::rejected),
        "404" => Err(SinkError::not_found(why)),
        "409" => Err(SinkError::already_exists(why)),
        status if status == "429" || status.starts_with('5') => {
            let wait = answer.header("retry-after-ms").and_then(|wait| wait.parse().ok());
            Err(match wait {
                Some(wait) => SinkError::retry_after(why, Duration::from_millis(wait)),
                None => SinkError::retry(why),
            })
        }
        _ => Err(SinkError::rejected(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Message, understand};
    use eventcast::sink::SinkErrorKind::{AlreadyExists, NotFound, Rejected, Retry};
    use std::time::Duration;

    fn message(text: &str) -> Option<Message> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(Message::read(&mut text.as_bytes())).ok().flatten()
    }

    #[test]
    fn each_answer_says_what_to_do_next() {
        for (status, kind) in [
            ("400", Rejected),
            ("404", NotFound),
            ("409", AlreadyExists),
            ("413", Rejected),
            ("429", Retry),
            ("500", Retry),
            ("503", Retry),
            // The event is stored, but the answer does not hold an event.
            ("201", Rejected),
        ] {
            let answer = format!("HTTP/1.1 {status} Reason\r\nContent-Length: 3\r\n\r\nwhy");
            let error = understand(&message(&answer).expect("a message")).unwrap_err();
            assert_eq!((error.kind(), error.wait()), (kind, None), "{error}");
            assert!(status == "201" || error.to_string().ends_with(&format!("{status}: why")), "{error}");
        }
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n{\"reason\": \"Ok\"}";
        assert_eq!(understand(&message(answer).expect("a message")).expect("an event").reason, "Ok");
        let answer = "HTTP/1.1 429 Too Many Requests\r\nRetry-After-Ms: 250\r\n\r\n";
        let error = understand(&message(answer).expect("a message")).unwrap_err();
        assert_eq!((error.kind(), error.wait()), (Retry, Some(Duration::from_millis(250))));
    }

    #[test]
    fn what_is_no_message_is_an_error_or_the_end() {
        for text in [
            "",
            "HTTP/1.1 200 OK",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwhy",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        ] {
            assert!(message(text).is_none(), "{text:?}");
        }
    }
}
