//! The requests to the API server. Each operation sends one request. If the name of a new event is
//! already taken, the operation sends a second request. With `EventsApi::Auto`, a discovery request
//! may precede these requests.

use std::sync::OnceLock;
use std::time::Duration;

use eventcast::escape::escape;
use eventcast::sink::{SinkErrorKind, SinkOp};
use eventcast::{Event, SinkError};
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::answer::{self, Answer, Failure};
use crate::api::{Api, EventsApi, is_timed};
use crate::verb::Verb;

/// The maximum length, in bytes, of a field manager's name that a server accepts.
const MAX_MANAGER: usize = 128;

/// The characters that are percent-encoded in a path segment, which are all except RFC 3986's
/// unreserved characters.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One operation, ready to be sent.
struct Job {
    verb: Verb,
    /// The path of the namespace's events.
    collection: String,
    /// The path of the event itself, or `None` if there is no event or the event's name cannot be
    /// part of a path.
    item: Option<String>,
    /// The query string including its question mark. The query string contains the name under which
    /// the server records the writer, and is empty if there is no such name.
    query: String,
    body: Vec<u8>,
}

impl Job {
    /// Turns an operation into a job. Returns an error if the request's path requires a name that
    /// cannot be part of a path. The API server does not allow such names either. `manager` is the
    /// sink's field manager, or `None` to use the event's component or reporting controller.
    fn new(op: &SinkOp, api: Api, manager: Option<&str>) -> Result<Self, SinkError> {
        match op {
            SinkOp::Create(event) => Self::create(event, api, manager),
            SinkOp::Update(event) => Self::update(event, api, manager),
            SinkOp::Patch(event) => Self::patch(event, api, manager),
            _ => Err(SinkError::rejected("this version of eventcast-kube does not support this operation")),
        }
    }

    fn create(event: &Event, api: Api, manager: Option<&str>) -> Result<Self, SinkError> {
        let collection = collection(event, api)?;
        let item = item(&collection, event).ok();
        let (query, body) = (query(event, manager), api.document(event));
        Ok(Self { verb: Verb::Create, collection, item, query, body })
    }

    fn update(event: &Event, api: Api, manager: Option<&str>) -> Result<Self, SinkError> {
        let collection = collection(event, api)?;
        let item = Some(item(&collection, event)?);
        let (query, body) = (query(event, manager), api.document(event));
        Ok(Self { verb: Verb::Update, collection, item, query, body })
    }

    fn patch(event: &Event, api: Api, manager: Option<&str>) -> Result<Self, SinkError> {
        let collection = collection(event, api)?;
        let item = Some(item(&collection, event)?);
        let (query, body) = (query(event, manager), event.to_patch_json().into_bytes());
        Ok(Self { verb: Verb::Patch, collection, item, query, body })
    }

    /// Returns the request that finds out whether the server supports events.k8s.io/v1.
    fn discover() -> Self {
        let collection = Api::DISCOVERY.to_owned();
        Self { verb: Verb::Discover, collection, item: None, query: String::new(), body: Vec::new() }
    }

    /// Sends the request and interprets the response.
    async fn run(self, client: &Client, timeout: Duration) -> Result<Event, SinkError> {
        let Self { verb, collection, item, query, body } = self;
        let path = match (verb, &item) {
            (Verb::Update | Verb::Patch, Some(item)) => item,
            _ => &collection,
        };
        let answer = send(client, verb, &format!("{path}{query}"), body, timeout).await?.understand(verb);
        match (answer, item) {
            (Err(error), Some(item)) if error.kind() == SinkErrorKind::AlreadyExists => {
                Err(look(client, &item, error, timeout).await?)
            }
            (answer, _) => answer,
        }
    }
}

/// Sends a sink's requests, and holds the settings that these requests share.
#[derive(Clone)]
pub(crate) struct Requests {
    pub(crate) client: Client,
    /// The time limit of a request.
    pub(crate) timeout: Duration,
    /// The name of the field manager, or `None` to use each event's component or reporting
    /// controller.
    pub(crate) field_manager: Option<String>,
    pub(crate) api: EventsApi,
    /// The API to use for events with an event time, once discovery has determined it.
    found: OnceLock<Api>,
}

impl Requests {
    pub(crate) fn new(client: Client, timeout: Duration) -> Self {
        Self { client, timeout, field_manager: None, api: EventsApi::CoreV1, found: OnceLock::new() }
    }

    /// Performs an operation on the server.
    pub(crate) async fn perform(&self, op: &SinkOp) -> Result<Event, SinkError> {
        let api = self.api_of(op.event()).await?;
        Job::new(op, api, self.field_manager.as_deref())?.run(&self.client, self.timeout).await
    }

    /// Returns the API to use for an event. This method may first send a request to find out
    /// whether the server supports events.k8s.io/v1.
    async fn api_of(&self, event: &Event) -> Result<Api, SinkError> {
        if !is_timed(event) {
            return Ok(Api::Core);
        }
        match self.api {
            EventsApi::CoreV1 => Ok(Api::Core),
            EventsApi::EventsV1 => Ok(Api::Events),
            EventsApi::Auto => {
                if let Some(api) = self.found.get() {
                    return Ok(*api);
                }
                // Each operation sends its own request, because it must not wait for another
                // operation's response.
                let api = self.discover().await?;
                Ok(*self.found.get_or_init(|| api))
            }
        }
    }

    async fn discover(&self) -> Result<Api, SinkError> {
        match Job::discover().run(&self.client, self.timeout).await {
            Ok(_) => Ok(Api::Events),
            Err(error) if error.kind() == SinkErrorKind::NotFound => Ok(Api::Core),
            Err(error) => Err(error),
        }
    }
}

/// Adds to `error` the stored event that already has the name. To read this event, the function
/// sends a patch that changes nothing, because such a patch requires only permissions that a
/// recording needs anyway.
async fn look(
    client: &Client,
    item: &str,
    error: SinkError,
    timeout: Duration,
) -> Result<SinkError, SinkError> {
    use SinkErrorKind::{GroupUnavailable, NotFound, Retry, Unavailable};
    match send(client, Verb::Patch, item, b"{}".to_vec(), timeout).await?.understand(Verb::Patch) {
        Ok(stored) => Ok(error.with_stored(stored)),
        // After any of these errors, a recording tries to create the event again.
        Err(failed) if matches!(failed.kind(), Retry | Unavailable | GroupUnavailable) => Err(failed),
        Err(failed) if failed.kind() == NotFound => {
            Err(SinkError::retry("the event with this name has expired since"))
        }
        // For example, the program may not be allowed to patch events. All that is known is that
        // the name is taken.
        Err(_) => Ok(error),
    }
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
        Verb::Discover => (Method::GET, "application/json"),
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

/// Returns the query string that names the writer, which is the sink's field manager, the event's
/// component, or the event's reporting controller, in this order of preference. The name is
/// truncated in the same way as the server truncates a name from a user agent, so that the server
/// does not refuse it. Returns an empty string if there is no name.
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

/// Returns the namespace to which the sink writes this event.
pub(crate) fn namespace(event: &Event) -> &str {
    let namespaces = [&event.metadata.namespace, &event.involved_object.namespace];
    namespaces.into_iter().find(|name| !name.is_empty()).map_or("default", |name| name)
}

/// Returns the path of the events in the namespace to which the sink writes this event.
fn collection(event: &Event, api: Api) -> Result<String, SinkError> {
    Ok(format!("{}/namespaces/{}/events", api.prefix(), segment("namespace", namespace(event))?))
}

fn item(collection: &str, event: &Event) -> Result<String, SinkError> {
    Ok(format!("{collection}/{}", segment("name", &event.metadata.name)?))
}

/// Returns a name as a path segment. The function refuses names that the API server never allows in
/// a path, regardless of the kind, and percent-encodes all others, so that a name cannot redirect a
/// request to another path.
fn segment(what: &str, name: &str) -> Result<String, SinkError> {
    if name.is_empty() {
        return Err(SinkError::rejected(format!("the event has no {what}")));
    }
    if matches!(name, "." | "..") || name.contains(['/', '%']) {
        let name = escape(name);
        return Err(SinkError::rejected(format!("the event's {what} \"{name:.100}\" cannot be in a path")));
    }
    Ok(utf8_percent_encode(name, SEGMENT).to_string())
}
