//! An API server for events that runs in this process. The server responds as a kube-apiserver 1.36
//! was observed to respond, and fails when a test requests a failure.
//!
//! `store.rs` contains the rules for events, `events_v1.rs` the different names and rules of
//! events.k8s.io/v1, `selection.rs` the selectors of a list, `accounts.rs` the accounts and roles,
//! `access.rs` the permission checks for requests, `webhook.rs` the admission webhooks, `port.rs`
//! the connections, `status.rs` the messages in responses, `seen.rs` the received requests, and
//! this file the responses and the faults.

mod access;
mod accounts;
mod events_v1;
mod locks;
mod port;
mod seen;
mod selection;
mod status;
mod store;
mod webhook;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, broadcast};

pub(crate) use access::ADMIN;
use access::{Access, Target, decoded};
use accounts::Accounts;
use locks::lock;
use port::Port;
pub(crate) use seen::Seen;
use selection::Selection;
pub(crate) use status::Answer;
use store::Store;
pub(crate) use webhook::Webhook;
use webhook::Webhooks;

/// The maximum size of a request's body, in bytes.
const MAX_BODY: usize = 3 << 20;

/// The maximum length of a field manager's name, in bytes.
const MAX_MANAGER: usize = 128;

/// A server fault in response to one request, which happens instead of the request's work or after
/// it.
#[derive(Clone)]
pub(crate) enum Fault {
    /// Sends this response with these headers, and does nothing else.
    Answer(u16, Vec<(&'static str, String)>, String),
    /// Closes the connection instead of doing the work.
    HangUpBefore,
    /// Does the work, and closes the connection without a response.
    HangUpAfter,
    /// Does the work, and closes the connection in the middle of the response.
    CutAnswer,
    /// Does nothing and sends nothing for as long as the client waits.
    Silence,
    /// Does the work once a permit is available.
    Hold(Arc<Semaphore>),
}

impl Fault {
    /// Returns a failure that sends no additional headers, and whose body is a `Status`.
    pub(crate) fn status(code: u16, body: &Value) -> Self {
        Self::Answer(code, Vec::new(), body.to_string())
    }

    /// Returns the response of the `EventRateLimit` admission plugin, with these additional
    /// headers.
    pub(crate) fn too_many_requests(headers: Vec<(&'static str, String)>) -> Self {
        let answer = status::too_many_requests();
        Self::Answer(answer.code, headers, answer.body.to_string())
    }
}

/// A new event, and the time at which the server stored it.
#[derive(Clone, Debug)]
pub(crate) struct StoredEvent {
    pub(crate) namespace: String,
    /// The name of the object that the event is about.
    pub(crate) object: String,
    pub(crate) at: Instant,
}

impl StoredEvent {
    /// Reads the event from a response that uses the field names of either API.
    fn of(answer: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = [&answer["involvedObject"], &answer["regarding"]].into_iter().find(|it| it.is_object());
        let object = object.map(|object| text(&object["name"])).unwrap_or_default();
        Self { namespace: text(&answer["metadata"]["namespace"]), object, at: Instant::now() }
    }
}

pub(crate) struct Shared {
    store: Mutex<Store>,
    faults: Mutex<VecDeque<Fault>>,
    seen: Mutex<Vec<Seen>>,
    access: Mutex<Access>,
    webhooks: Webhooks,
    stored: Mutex<Vec<StoredEvent>>,
    /// The number of requests in flight, and the highest number so far.
    busy: Mutex<(usize, usize)>,
    changes: broadcast::Sender<Value>,
}

/// An API server that runs on its own thread until it is killed or dropped.
pub(crate) struct ApiServer {
    port: Port,
    shared: Arc<Shared>,
}

impl ApiServer {
    pub(crate) fn start() -> Self {
        let shared = Arc::new(Shared {
            store: Mutex::new(Store::new()),
            faults: Mutex::default(),
            seen: Mutex::default(),
            access: Mutex::default(),
            webhooks: Webhooks::default(),
            stored: Mutex::default(),
            busy: Mutex::default(),
            changes: broadcast::channel(1000).0,
        });
        let router = Router::new().fallback(serve).with_state(shared.clone());
        Self { port: Port::open(router), shared }
    }

    /// Stops the server as if it had received SIGKILL. All connections are closed, requests in
    /// flight receive no response, and the port is closed.
    pub(crate) fn kill(&self) {
        self.port.close();
    }

    /// Starts the server again after [`kill`](Self::kill), on the same port and with its stored
    /// objects. For the given time, the server refuses every service account with 403, like a
    /// server that has not yet filled its role caches.
    pub(crate) fn start_again(&self, refusing: Duration) {
        lock(&self.shared.access).start(refusing);
        let router = Router::new().fallback(serve).with_state(self.shared.clone());
        self.port.open_again(router);
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.port.address())
    }

    /// Returns a kubeconfig for the administrator.
    pub(crate) fn kubeconfig(&self) -> String {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.url()}}],
            "users": [{"name": "admin", "user": {"token": ADMIN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        });
        config.to_string()
    }

    /// Adds faults for the next requests, one fault for each request, in this order.
    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        lock(&self.shared.faults).extend(faults);
    }

    /// Removes the events.k8s.io/v1 API from the server.
    pub(crate) fn remove_events_v1(&self) {
        lock(&self.shared.store).has_events_v1 = false;
    }

    /// From now on, permits clients without credentials to do everything.
    #[allow(dead_code, reason = "`kubectl` uses it, in another program")]
    pub(crate) fn open(&self) {
        lock(&self.shared.access).is_open = true;
    }

    /// Returns the requests that arrived since the last call.
    pub(crate) fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut lock(&self.shared.seen))
    }

    pub(crate) fn seen_count(&self) -> usize {
        lock(&self.shared.seen).len()
    }

    /// Returns the highest number of requests that were in flight at the same time.
    pub(crate) fn most_busy(&self) -> usize {
        lock(&self.shared.busy).1
    }

    /// Sets the webhook that the server calls before it stores an event in this namespace.
    pub(crate) fn set_webhook(&self, namespace: &str, webhook: Option<Webhook>) {
        self.shared.webhooks.set(namespace, webhook);
    }

    /// Returns the new events that were stored so far, in the order in which they were stored.
    pub(crate) fn stored(&self) -> Vec<StoredEvent> {
        lock(&self.shared.stored).clone()
    }

    /// Returns all stored events, ordered by namespace and name.
    pub(crate) fn events(&self) -> Vec<Value> {
        lock(&self.shared.store).events()
    }

    /// Removes an event, as if its time to live had expired.
    pub(crate) fn expire(&self, namespace: &str, name: &str) {
        assert!(lock(&self.shared.store).delete(namespace, name).code < 300, "{name} is not there");
    }

    /// Stores an object so that clients can list and watch it.
    pub(crate) fn put_object(&self, collection: &str, object: Value) {
        let object = lock(&self.shared.store).put_object(collection, object);
        let _ = self.shared.changes.send(object);
    }
}

async fn serve(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let declared = parts.headers.get(header::CONTENT_LENGTH).and_then(|len| len.to_str().ok()?.parse().ok());
    if declared.is_some_and(|len: usize| len > MAX_BODY) {
        // A real server may respond and close the connection while the client is still writing. The
        // client then occasionally sees a broken connection, and retries. With this server, the
        // client always sees the response.
        let _ = to_bytes(body, 2 * MAX_BODY).await;
        return response(&status::too_large(MAX_BODY));
    }
    // The connection was lost in the middle of the request, so there is no client to respond to.
    let Ok(body) = to_bytes(body, MAX_BODY).await else { hang_up() };
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let is_watch = query.contains("watch=true");
    let seen = Seen { method: parts.method, path, query, headers: parts.headers, body, is_watch };
    if is_watch {
        let response = watch(&shared, &seen.path);
        lock(&shared.seen).push(seen);
        return response;
    }
    let fault = lock(&shared.faults).pop_front();
    lock(&shared.seen).push(seen.clone());
    let _busy = Busy::new(&shared);
    match &fault {
        Some(Fault::Answer(code, headers, body)) => {
            let mut response = Response::builder().status(*code);
            for (name, value) in headers {
                response = response.header(*name, value);
            }
            return response.body(Body::from(body.clone())).unwrap();
        }
        Some(Fault::HangUpBefore) => hang_up(),
        Some(Fault::Silence) => std::future::pending().await,
        Some(Fault::Hold(permits)) => permits.acquire().await.unwrap().forget(),
        Some(Fault::HangUpAfter | Fault::CutAnswer) | None => {}
    }
    let answer = answer(&shared, &seen).await;
    match fault {
        Some(Fault::HangUpAfter) => hang_up(),
        Some(Fault::CutAnswer) => {
            let text = answer.body.to_string();
            let parts = [Ok(text[..text.len() / 2].to_owned()), Err(std::io::Error::other("cut"))];
            let mut response = Response::new(Body::from_stream(futures::stream::iter(parts)));
            *response.status_mut() = StatusCode::from_u16(answer.code).unwrap();
            response
        }
        _ => response(&answer),
    }
}

/// A guard that counts a request for as long as it is in flight.
struct Busy<'s>(&'s Shared);

impl<'s> Busy<'s> {
    fn new(shared: &'s Shared) -> Self {
        let mut busy = lock(&shared.busy);
        busy.0 += 1;
        busy.1 = busy.1.max(busy.0);
        Self(shared)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        lock(&self.0.busy).0 -= 1;
    }
}

/// Ends the connection's task, and therefore the connection. The panic prints no message, because
/// it does not mean that the test has failed.
fn hang_up() -> ! {
    std::panic::resume_unwind(Box::new("hangs up"))
}

fn response(answer: &Answer) -> Response {
    let mut response =
        Response::builder().status(answer.code).header(header::CONTENT_TYPE, "application/json");
    // A server also sends a status's delay in a header.
    if let Some(seconds) = answer.body["details"]["retryAfterSeconds"].as_u64() {
        response = response.header(header::RETRY_AFTER, seconds);
    }
    response.body(Body::from(answer.body.to_string())).unwrap()
}

/// Returns the response to a request. Checks the user's permissions first, then calls the
/// namespace's webhook, and then does the work.
async fn answer(shared: &Shared, request: &Seen) -> Answer {
    let target = Target::of(&request.path);
    let refused = lock(&shared.access).refused(request, target.as_ref());
    if let Some(refused) = refused {
        return refused;
    }
    let manager = manager(request);
    if manager.len() > MAX_MANAGER || manager.contains(char::is_control) {
        return status::invalid("", "fieldManager", "may not be longer than 128, and must be printable");
    }
    let writes = [Method::POST, Method::PUT, Method::PATCH].contains(&request.method);
    if let Some(target) = target.as_ref().filter(|_| writes)
        && let Some(refused) = shared.webhooks.ask(&target.namespace).await
    {
        return refused;
    }
    let mut store = lock(&shared.store);
    store.manager = manager;
    let answer = match &target {
        Some(target) => events(&mut store, request, target),
        None => others(&mut store, &mut lock(&shared.access).accounts, request),
    };
    drop(store);
    if answer.code == 201 && target.is_some() {
        lock(&shared.stored).push(StoredEvent::of(&answer.body));
    }
    answer
}

/// Returns the response to a request about events.
fn events(store: &mut Store, request: &Seen, target: &Target) -> Answer {
    let Target { group, namespace, name } = target;
    if !group.is_empty() && !store.has_events_v1 {
        return status::not_found("the path", &request.path);
    }
    if name.is_empty() && [Method::GET, Method::DELETE].contains(&request.method) {
        let answer = selected(store, request, namespace);
        return if group.is_empty() { answer } else { events_v1::from_core(answer) };
    }
    if group.is_empty() {
        return store.events_of(&request.method, namespace, name, &request.headers, &request.body);
    }
    match events_v1::to_core(&request.method, &request.body) {
        Ok(body) => {
            let answer = store.events_of(&request.method, namespace, name, &request.headers, &body);
            events_v1::from_core(answer)
        }
        Err(answer) => answer,
    }
}

/// Returns the response to a request that lists or deletes a collection.
fn selected(store: &mut Store, request: &Seen, namespace: &str) -> Answer {
    match Selection::of(&request.query) {
        Ok(selection) if request.method == Method::DELETE => store.delete_selected(namespace, &selection),
        Ok(selection) => store.list(namespace, &selection),
        Err(answer) => answer,
    }
}

/// Returns the response to any other request.
fn others(store: &mut Store, accounts: &mut Accounts, request: &Seen) -> Answer {
    let segments: Vec<String> = request.path.split('/').skip(1).map(decoded).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    if let Some(answer) = accounts.answer(&request.method, &segments, &request.body) {
        return answer;
    }
    match segments[..] {
        ["apis", "events.k8s.io", "v1"] if store.has_events_v1 => events_v1::discovery(),
        ["apis", "events.k8s.io", "v1", "events"] if store.has_events_v1 => {
            events_v1::from_core(selected(store, request, ""))
        }
        ["api", "v1", "events"] => selected(store, request, ""),
        ["api", "v1", "namespaces"] => store.create_namespace(&request.body),
        ["api", "v1", "namespaces", name] if request.method == Method::DELETE => store.end_namespace(name),
        ["api", "v1", "namespaces", name] => store.namespace(name),
        _ => store.objects(&request.path),
    }
}

/// Returns the field manager's name in the request, or the beginning of the user agent if the
/// request contains no name.
fn manager(request: &Seen) -> String {
    let asked = request.query.split('&').find_map(|option| option.strip_prefix("fieldManager="));
    if let Some(asked) = asked.map(decoded).filter(|asked| !asked.is_empty()) {
        return asked;
    }
    let agent = request.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let name = agent.unwrap_or_default().split('/').next().unwrap_or_default();
    name.chars().take(MAX_MANAGER).collect()
}

/// Streams future changes to a collection, one object per line, for as long as the client is
/// reading.
fn watch(shared: &Shared, path: &str) -> Response {
    let (changes, collection) = (shared.changes.subscribe(), path.to_owned());
    let lines = futures::stream::unfold((changes, collection), |(mut changes, collection)| async {
        loop {
            let object = changes.recv().await.ok()?;
            if object["collection"] == collection.as_str() {
                let line = json!({"type": "MODIFIED", "object": object["object"]});
                return Some((Ok::<_, std::io::Error>(format!("{line}\n")), (changes, collection)));
            }
        }
    });
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from_stream(lines))
        .unwrap()
}
