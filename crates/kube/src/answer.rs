//! Interprets an API server's responses for a recording.

use std::error::Error;
use std::time::{Duration, SystemTime};

use eventcast::sink::SinkErrorKind;
use eventcast::{Event, SinkError, Timestamp};
use http::{HeaderMap, Response, StatusCode, header};
use http_body_util::BodyExt;
use jiff::fmt::rfc2822;
use kube::client::Body;
use serde::Deserialize;

use crate::verb::Verb;

/// The maximum number of bytes read from a response. Events that a cluster can store are smaller.
const MAX_BODY: usize = 4 << 20;
/// The maximum number of bytes kept from a string that arrived over the wire.
const MAX_TEXT: usize = 1000;

/// The messages by which a server refuses an event in a 500 response that contains no reason. In
/// this order, the messages originate from etcd, from the connection to etcd, and from the server's
/// own store.
const REFUSALS: [&str; 3] = [
    "request is too large",
    "message larger than max",
    "resourceVersion should not be set on objects to be created",
];

/// Phrases by which a server's message mentions an admission webhook that refused a request or
/// failed.
const WEBHOOKS: [&str; 2] = ["admission webhook", "failed calling webhook"];

/// The reason why a request did not receive a response.
#[derive(Debug)]
pub(crate) enum Failure {
    /// No response arrived within this time limit.
    TimedOut(Duration),
    /// No connection could be established, the connection was lost, or no credentials were
    /// available to sign the request.
    Broken(String),
    /// The request could not be built.
    Impossible(String),
}

impl From<Failure> for SinkError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::TimedOut(limit) => {
                Self::new(SinkErrorKind::GroupUnavailable, format!("no response within {limit:?}"))
            }
            Failure::Broken(text) => Self::new(SinkErrorKind::Unavailable, text),
            Failure::Impossible(text) => Self::rejected(text),
        }
    }
}

/// Returns the text of an error and its causes, in which each cause appears once. The outermost
/// error's text is often only "client error".
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let cause = error.to_string();
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
        next = error.source();
    }
    cut(&text).to_owned()
}

/// A response that was read completely or up to the maximum length.
#[derive(Debug)]
pub(crate) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    /// Whether the response is longer than the part that was read.
    is_cut: bool,
}

impl Answer {
    pub(crate) async fn read(response: Response<Body>) -> Result<Self, kube::Error> {
        let (parts, mut body) = response.into_parts();
        let mut answer =
            Self { status: parts.status, headers: parts.headers, body: Vec::new(), is_cut: false };
        while let Some(frame) = body.frame().await {
            let data = match frame {
                Ok(frame) => frame.into_data().unwrap_or_default(),
                // If the response reports an error, its status alone is sufficient.
                Err(_) if !answer.status.is_success() => break,
                Err(error) => return Err(error),
            };
            if answer.body.len() + data.len() > MAX_BODY {
                answer.is_cut = true;
                break;
            }
            answer.body.extend_from_slice(&data);
        }
        Ok(answer)
    }

    /// Returns the stored event, or an error that determines how a recording reacts.
    pub(crate) fn understand(&self, verb: Verb) -> Result<Event, SinkError> {
        if verb == Verb::Discover {
            return self.discovered().map(|()| Event::default());
        }
        if self.status.is_success() {
            return self.event();
        }
        let status = Status::read(&self.body);
        let text = self.text(&status);
        Err(match self.status {
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => self.retry(&status, text),
            StatusCode::UNAUTHORIZED if !is_of_webhook(&status.message) => {
                self.with_wait(SinkError::new(SinkErrorKind::Forbidden, text), &status)
            }
            StatusCode::FORBIDDEN if is_about_the_user(&status.message) => {
                self.with_wait(SinkError::new(SinkErrorKind::Forbidden, forbidden(&status, &text)), &status)
            }
            StatusCode::FORBIDDEN => SinkError::rejected(forbidden(&status, &text)),
            StatusCode::NOT_FOUND if verb == Verb::Patch && status.details.kind != "namespaces" => {
                SinkError::new(SinkErrorKind::NotFound, text)
            }
            StatusCode::CONFLICT => conflict(verb, &status, text),
            code if code.is_server_error() && is_about_the_event(&status.message) => {
                SinkError::rejected(text)
            }
            code if code.is_server_error() => self.retry(&status, text),
            _ => SinkError::rejected(text),
        })
    }

    /// Returns `Ok` if the server has the API, and a `NotFound` error if the server lacks the API.
    /// After any other response, it is still unknown whether the server has the API, so a recording
    /// retries.
    fn discovered(&self) -> Result<(), SinkError> {
        if self.status.is_success() {
            return Ok(());
        }
        let status = Status::read(&self.body);
        let text = self.text(&status);
        Err(match self.status {
            StatusCode::NOT_FOUND => SinkError::new(SinkErrorKind::NotFound, text),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                self.with_wait(SinkError::new(SinkErrorKind::Forbidden, text), &status)
            }
            _ => self.retry(&status, text),
        })
    }

    /// Returns the event in a response that reports success. If such a response does not contain an
    /// event, an intermediary between this program and the server sent the response, and a
    /// recording tries again.
    fn event(&self) -> Result<Event, SinkError> {
        if self.is_cut {
            return Err(SinkError::retry(format!("{}: more than {MAX_BODY} bytes", self.status)));
        }
        let event = std::str::from_utf8(&self.body).map_err(|error| error.to_string()).and_then(|text| {
            let event = Event::from_json(text).map_err(|error| error.to_string())?;
            if event.metadata.name.is_empty() { Err("an event without a name".to_owned()) } else { Ok(event) }
        });
        event.map_err(|error| SinkError::retry(format!("{}: {error}", self.status)))
    }

    /// Returns an error after which a recording retries. A 503 or 504 response concerns the server
    /// itself, or was sent by a component in front of the server, such as a load balancer. The
    /// exception is a webhook's response, which may have any status code. Other responses may
    /// concern only a single namespace whose quota is exhausted or whose admission webhook fails.
    fn retry(&self, status: &Status, text: String) -> SinkError {
        let is_of_webhook = is_of_webhook(&status.message);
        let error = match self.status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT if !is_of_webhook => {
                SinkError::new(SinkErrorKind::GroupUnavailable, text)
            }
            _ => SinkError::retry(text),
        };
        self.with_wait(error, status)
    }

    /// Adds to `error` the delay that the server requests, if the response specifies a delay.
    fn with_wait(&self, error: SinkError, status: &Status) -> SinkError {
        match retry_after(&self.headers).or(status.details.retry_after) {
            Some(wait) => error.with_retry_after(wait),
            None => error,
        }
    }

    /// Returns an error's text, such as `422 Invalid:` followed by the server's message. If the
    /// response contains no such message, for example because it was not sent by an API server, the
    /// text includes the beginning of the response body.
    fn text(&self, status: &Status) -> String {
        let body;
        let message = if status.message.is_empty() {
            body = String::from_utf8_lossy(&self.body[..self.body.len().min(MAX_TEXT)]);
            body.trim()
        } else {
            cut(&status.message)
        };
        let mut text = self.status.as_u16().to_string();
        if !status.reason.is_empty() {
            text = format!("{text} {}", cut(&status.reason));
        } else if let Some(reason) = self.status.canonical_reason() {
            text = format!("{text} {reason}");
        }
        if message.is_empty() { text } else { format!("{text}: {message}") }
    }
}

/// Returns whether an admission webhook refused the request, with any status code, or failed.
fn is_of_webhook(message: &str) -> bool {
    WEBHOOKS.iter().any(|words| message.contains(words))
}

/// Returns whether a 403 response concerns the user's permissions rather than the event. A server
/// that has just started sends such a response to every user until it knows its roles.
fn is_about_the_user(message: &str) -> bool {
    if is_of_webhook(message) {
        return false;
    }
    let is_role = message.contains(" cannot ") && message.contains("resource \"events\"");
    is_role || message.contains("RBAC: ") || message.contains("not yet ready to handle request")
}

/// Returns whether a server that reports an internal failure is in fact refusing the event. A later
/// attempt would send the same event and would also fail.
fn is_about_the_event(message: &str) -> bool {
    REFUSALS.iter().any(|refusal| message.contains(refusal))
}

/// Returns the text of a 403 response, including the cause if it is known.
///
/// - If the namespace is being deleted, it does not accept new events.
/// - If a permission is missing, a role must be changed.
///
/// The text begins with the server's own message, because text that is too long is truncated at the
/// end.
fn forbidden(status: &Status, text: &str) -> String {
    if status.details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating") {
        return format!("{text} (the namespace is being deleted)");
    }
    if status.message.contains(" cannot ") && status.message.contains("resource \"events\"") {
        if status.message.contains("API group \"events.k8s.io\"") {
            return format!(
                "{text} (needs a role with create, patch and update on events, whose rule has apiGroups: \
                 [\"events.k8s.io\"]: docs/kubernetes.md, Permissions)"
            );
        }
        return format!(
            "{text} (needs a role with create, patch and update on events: docs/kubernetes.md, Permissions)"
        );
    }
    text.to_owned()
}

/// Returns the error for a 409 response.
///
/// - If the name of a new event is taken, the event already exists.
/// - If an update names a version that is no longer the stored version, the update is rejected.
///   Only updates name a version.
/// - If two clients write at the same time, a recording retries. The server itself has already
///   retried for a while.
fn conflict(verb: Verb, status: &Status, text: String) -> SinkError {
    match verb {
        Verb::Create if status.reason != "Conflict" => SinkError::new(SinkErrorKind::AlreadyExists, text),
        Verb::Update => SinkError::rejected(text),
        Verb::Create | Verb::Patch | Verb::Discover => SinkError::retry(text),
    }
}

/// The part of metav1's `Status` that this module uses.
#[derive(Debug, Default)]
struct Status {
    message: String,
    reason: String,
    details: Details,
}

#[derive(Debug, Default)]
struct Details {
    kind: String,
    causes: Vec<StatusCause>,
    retry_after: Option<Duration>,
}

#[derive(Debug)]
struct StatusCause {
    reason: String,
}

impl Status {
    /// Reads a status from the body of a response. Returns an empty status if the body does not
    /// contain one.
    fn read(body: &[u8]) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Document {
            message: Option<String>,
            reason: Option<String>,
            details: Option<DetailsDocument>,
        }

        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct DetailsDocument {
            kind: Option<String>,
            causes: Option<Vec<CauseDocument>>,
            retry_after_seconds: Option<u32>,
        }

        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct CauseDocument {
            reason: Option<String>,
        }

        let found: Document = serde_json::from_slice(body).unwrap_or_default();
        let details = found.details.unwrap_or_default();
        let causes = details.causes.unwrap_or_default().into_iter();
        Self {
            message: found.message.unwrap_or_default(),
            reason: found.reason.unwrap_or_default(),
            details: Details {
                kind: details.kind.unwrap_or_default(),
                causes: causes
                    .map(|cause| StatusCause { reason: cause.reason.unwrap_or_default() })
                    .collect(),
                retry_after: details
                    .retry_after_seconds
                    .filter(|seconds| *seconds > 0)
                    .map(|seconds| Duration::from_secs(seconds.into())),
            },
        }
    }
}

/// Returns the delay that `Retry-After` specifies in seconds or as a date, or `None` if the header
/// is missing or invalid. A date is compared with the response's own `Date`, so the client's clock
/// and the server's clock need not agree. If the response has no `Date`, the system clock is used.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let date = |text: &str| {
        let at = rfc2822::DateTimeParser::new().relaxed_weekday(true).parse_timestamp(text).ok()?;
        Timestamp::new(at.as_second(), 0)
    };
    let sent = headers.get(header::DATE).and_then(|sent| date(sent.to_str().ok()?));
    let now = sent.unwrap_or_else(|| SystemTime::now().into());
    Some(date(text)?.duration_since(now))
}

/// Truncates a string to at most `MAX_TEXT` bytes, at a character boundary.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::{HeaderMap, cut, header, retry_after};
    use std::time::Duration;

    fn waits(after: &str, date: Option<&str>) -> Option<u64> {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, after.parse().unwrap());
        if let Some(date) = date {
            headers.insert(header::DATE, date.parse().unwrap());
        }
        retry_after(&headers).map(|wait| Duration::as_secs(&wait))
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let noon = Some("Sun, 06 Nov 1994 12:00:00 GMT");
        assert_eq!(waits("7", None), Some(7));
        assert_eq!(waits("0", None), Some(0));
        assert_eq!(waits("Sun, 06 Nov 1994 12:01:30 GMT", noon), Some(90));
        // The first date is in the past. The second response has no `Date`, so the system clock is
        // used.
        assert_eq!(waits("Sun, 06 Nov 1994 11:00:00 GMT", noon), Some(0));
        assert_eq!(waits("Sun, 06 Nov 1994 12:01:30 GMT", None), Some(0));
        for wrong in ["", "soon", "-1", "1.5", "1994-11-06T12:00:00Z"] {
            assert_eq!(waits(wrong, noon), None, "{wrong}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        let long = "ä".repeat(700);
        assert_eq!(cut(&long).len(), 1000);
        assert_eq!(cut(&format!("x{long}")).len(), 999);
    }
}
