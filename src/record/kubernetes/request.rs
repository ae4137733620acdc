//! What is asked of the API server: one request for each operation.

use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::escape::escaped_to;
use crate::record::event::Event;
use crate::record::sink::{SinkError, SinkErrorKind, SinkOp};

use super::answer::{self, Answer, Failure};
use super::verb::Verb;

/// The most that a server takes as the name of a field manager, in bytes.
const MAX_MANAGER: usize = 128;

/// All of a path's segment but RFC 3986's unreserved characters.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One operation, ready to be sent.
pub(super) struct Job {
    verb: Verb,
    /// Where the events of the namespace are.
    collection: String,
    /// The event's own path; none if it has no name that can be in one.
    item: Option<String>,
    /// With its question mark: under which name the server notes who writes.
    query: String,
    body: Vec<u8>,
}

/// What became of a job.
pub(super) struct JobResult {
    pub(super) answer: Result<Event, SinkError>,
    /// No answer came within the time allowed: the next request would fare no better.
    pub(super) is_stalled: bool,
}

impl Job {
    /// The errors are those of names that cannot be in a path: the API server allows no such name either.
    /// `manager` is who writes, if the sink has been told.
    pub(super) fn new(op: &SinkOp, manager: Option<&str>) -> Result<Self, SinkError> {
        match op {
            SinkOp::Create(event) => Self::create(event, manager),
            SinkOp::Update(event) => Self::update(event, manager),
            SinkOp::Patch(event, patch) => Self::patch(event, patch.as_bytes(), manager),
        }
    }

    pub(super) fn create(event: &Event, manager: Option<&str>) -> Result<Self, SinkError> {
        let collection = collection(event)?;
        let item = item(&collection, event).ok();
        let (query, body) = (query(event, manager), event.to_json().into_bytes());
        Ok(Self { verb: Verb::Create, collection, item, query, body })
    }

    pub(super) fn update(event: &Event, manager: Option<&str>) -> Result<Self, SinkError> {
        let collection = collection(event)?;
        let item = Some(item(&collection, event)?);
        let (query, body) = (query(event, manager), event.to_json().into_bytes());
        Ok(Self { verb: Verb::Update, collection, item, query, body })
    }

    pub(super) fn patch(event: &Event, patch: &[u8], manager: Option<&str>) -> Result<Self, SinkError> {
        let collection = collection(event)?;
        let item = Some(item(&collection, event)?);
        Ok(Self { verb: Verb::Patch, collection, item, query: query(event, manager), body: patch.to_vec() })
    }

    /// Sends it and says what the answer means.
    pub(super) async fn run(self, client: &Client, timeout: Duration) -> JobResult {
        let Self { verb, collection, item, query, body } = self;
        let path = match (verb, &item) {
            (Verb::Update | Verb::Patch, Some(item)) => item,
            _ => &collection,
        };
        let answer = match send(client, verb, &format!("{path}{query}"), body, timeout).await {
            Ok(answer) => answer.understand(verb),
            Err(failure) => return JobResult::from(failure),
        };
        match (answer, item) {
            (Err(error), Some(item)) if error.kind() == SinkErrorKind::AlreadyExists => {
                look(client, &item, error, timeout).await
            }
            (answer, _) => JobResult { answer, is_stalled: false },
        }
    }
}

impl From<Failure> for JobResult {
    fn from(failure: Failure) -> Self {
        Self { is_stalled: failure.is_timeout(), answer: Err(failure.into()) }
    }
}

/// Says which event has the name. A patch that changes nothing reads it, and needs no permission that a recording has
/// not got anyway.
async fn look(client: &Client, item: &str, error: SinkError, timeout: Duration) -> JobResult {
    let answer = match send(client, Verb::Patch, item, b"{}".to_vec(), timeout).await {
        Ok(answer) => answer.understand(Verb::Patch),
        Err(failure) => return JobResult::from(failure),
    };
    let answer = match answer {
        Ok(stored) => Err(error.with_stored(stored)),
        // Once more from the beginning.
        Err(failed) if failed.kind() == SinkErrorKind::Retry => Err(failed),
        Err(failed) if failed.kind() == SinkErrorKind::NotFound => {
            Err(SinkError::retry("the event that had the name has expired since"))
        }
        // Not allowed, say: what is known is that the name is taken.
        Err(_) => Err(error),
    };
    JobResult { answer, is_stalled: false }
}

async fn send(
    client: &Client,
    verb: Verb,
    path: &str,
    body: Vec<u8>,
    timeout: Duration,
) -> Result<Answer, Failure> {
    let (method, content) = match verb {
        Verb::Create => (Method::POST, "application/json"),
        Verb::Update => (Method::PUT, "application/json"),
        Verb::Patch => (Method::PATCH, "application/strategic-merge-patch+json"),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content)
        .header("accept", "application/json")
        .body(Body::from(body))
        .map_err(|error| Failure::Impossible(error.to_string()))?;
    let exchange = async { Answer::read(client.send(request).await?).await };
    match tokio::time::timeout(timeout, exchange).await {
        Ok(answer) => answer.map_err(|error| Failure::Broken(answer::chain(&error))),
        Err(_) => Err(Failure::TimedOut(timeout)),
    }
}

/// Names who writes: as the sink has been told, or else the event's component. As the server cuts what it
/// takes from a user agent, so that no name is refused.
fn query(event: &Event, manager: Option<&str>) -> String {
    let component = event.source.component.as_str();
    let own = if component.is_empty() { event.reporting_controller.as_str() } else { component };
    let is_printable = |c: &char| matches!(c, ' '..='~');
    let name: String = manager.unwrap_or(own).chars().filter(is_printable).take(MAX_MANAGER).collect();
    if name.is_empty() {
        return name;
    }
    format!("?fieldManager={}", utf8_percent_encode(&name, SEGMENT))
}

/// The path of the events of the namespace that this one goes to.
fn collection(event: &Event) -> Result<String, SinkError> {
    let namespaces = [&event.metadata.namespace, &event.involved_object.namespace];
    let namespace = namespaces.into_iter().find(|name| !name.is_empty()).map_or("default", |name| name);
    Ok(format!("/api/v1/namespaces/{}/events", segment("namespace", namespace)?))
}

fn item(collection: &str, event: &Event) -> Result<String, SinkError> {
    Ok(format!("{collection}/{}", segment("name", &event.metadata.name)?))
}

/// As the API server checks what is to be in a path, whatever the kind. The rest is encoded, so that a name cannot mean
/// another path.
fn segment(what: &str, name: &str) -> Result<String, SinkError> {
    if name.is_empty() {
        return Err(SinkError::rejected(format!("the event has no {what}")));
    }
    if matches!(name, "." | "..") || name.contains(['/', '%']) {
        let name = escaped_to(name, 100);
        return Err(SinkError::rejected(format!("the event's {what} \"{name}\" cannot be in a path")));
    }
    Ok(utf8_percent_encode(name, SEGMENT).to_string())
}
