//! An API server in this process, for events. It answers as a kube-apiserver 1.36 was seen to, and
//! fails when a test asks for it.
//!
//! `store.rs` has the rules for events, `events_v1.rs` the other names and rules of
//! events.k8s.io/v1, `status.rs` the words, and this file the connections, the permissions and the
//! faults.

mod events_v1;
mod status;
mod store;

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, broadcast};

pub(crate) use status::Answer;
use store::Store;

/// The limit of a request's body, in bytes.
const MAX_BODY: usize = 3 << 20;

/// The limit of a field manager's name, in bytes.
const MAX_MANAGER: usize = 128;

/// The tokens of three users: the first may do everything, the second may only create events, and
/// the third may do nothing. The server knows no other token.
pub(crate) const ADMIN: &str = "admin-token";
pub(crate) const CREATOR: &str = "creator-token";
pub(crate) const NOBODY: &str = "nobody-token";

/// A fault of the server at one request, instead of its work or after it.
#[derive(Clone)]
pub(crate) enum Fault {
    /// Sends this answer with these headers, and does nothing else.
    Answer(u16, Vec<(&'static str, String)>, String),
    /// Closes the connection instead of doing the work.
    HangUpBefore,
    /// Does the work, and closes the connection without an answer.
    HangUpAfter,
    /// Does the work, and closes the connection in the middle of the answer.
    CutAnswer,
    /// Does nothing, and sends nothing, for as long as the client waits.
    Silence,
    /// Does the work when there is a permit for it.
    Hold(Arc<Semaphore>),
}

impl Fault {
    /// Returns a failure without headers, in the words of a `Status`.
    pub(crate) fn status(code: u16, body: &Value) -> Self {
        Self::Answer(code, Vec::new(), body.to_string())
    }

    /// Returns the answer of the admission plugin `EventRateLimit`, with these additional headers.
    pub(crate) fn too_many_requests(headers: Vec<(&'static str, String)>) -> Self {
        let answer = status::too_many_requests();
        Self::Answer(answer.code, headers, answer.body.to_string())
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whether the client asks to watch changes. The watch has then begun.
    pub(crate) is_watch: bool,
}

impl Seen {
    /// Returns the method and the namespace, such as `POST default`. For an event that exists, its
    /// name follows.
    pub(crate) fn short(&self) -> String {
        let rest = self.path.strip_prefix("/api/v1/namespaces/");
        let rest =
            rest.or(self.path.strip_prefix("/apis/events.k8s.io/v1/namespaces/")).unwrap_or(&self.path);
        format!("{} {}", self.method, rest.replacen("/events", "", 1))
    }
}

pub(crate) struct Shared {
    store: Mutex<Store>,
    faults: Mutex<VecDeque<Fault>>,
    seen: Mutex<Vec<Seen>>,
    /// Whether a client without credentials may do everything.
    is_open: Mutex<bool>,
    /// The number of requests that are under way, and the most that were under way at once.
    busy: Mutex<(usize, usize)>,
    changes: broadcast::Sender<Value>,
}

/// An API server that runs on its own thread until it is dropped.
pub(crate) struct ApiServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ApiServer {
    pub(crate) fn start() -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).thread_name("api-server").enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            store: Mutex::new(Store::new()),
            faults: Mutex::default(),
            seen: Mutex::default(),
            is_open: Mutex::default(),
            busy: Mutex::default(),
            changes: broadcast::channel(1000).0,
        });
        let router = Router::new().fallback(serve).with_state(shared.clone());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { address, shared, runtime: Some(runtime) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
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

    /// Adds faults for the requests to come, one for each request, in this order.
    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        lock(&self.shared.faults).extend(faults);
    }

    /// Takes events.k8s.io/v1 away.
    pub(crate) fn remove_events_v1(&self) {
        lock(&self.shared.store).has_events_v1 = false;
    }

    /// Lets a client without credentials do everything from now on.
    #[allow(dead_code, reason = "`kubectl` uses it, in another program")]
    pub(crate) fn open(&self) {
        *lock(&self.shared.is_open) = true;
    }

    /// Returns the requests that came since the last call.
    pub(crate) fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut lock(&self.shared.seen))
    }

    pub(crate) fn seen_count(&self) -> usize {
        lock(&self.shared.seen).len()
    }

    /// Returns the most requests that were under way at once.
    pub(crate) fn most_busy(&self) -> usize {
        lock(&self.shared.busy).1
    }

    /// Returns all stored events, in the order of namespace and name.
    pub(crate) fn events(&self) -> Vec<Value> {
        lock(&self.shared.store).events()
    }

    /// Removes an event, as if its time to live had ended.
    pub(crate) fn expire(&self, namespace: &str, name: &str) {
        assert!(lock(&self.shared.store).delete(namespace, name).code < 300, "{name} is not there");
    }

    /// Stores an object so that clients can list and watch it.
    pub(crate) fn put_object(&self, collection: &str, object: Value) {
        let object = lock(&self.shared.store).put_object(collection, object);
        let _ = self.shared.changes.send(object);
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let declared = parts.headers.get(header::CONTENT_LENGTH).and_then(|len| len.to_str().ok()?.parse().ok());
    if declared.is_some_and(|len: usize| len > MAX_BODY) {
        // A real server may answer and hang up while the client still writes. The client then sees
        // a broken connection now and then, and tries again. Here it always sees the answer.
        let _ = to_bytes(body, 2 * MAX_BODY).await;
        return response(&status::too_large(MAX_BODY));
    }
    // The request broke off while it came, so no client is there to be answered.
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
    let answer = answer(&shared, &seen);
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

/// A guard that counts a request for as long as it is under way.
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

/// Ends the connection's task, and the connection with it. The panic has no message, because it is
/// not a failure of the test.
fn hang_up() -> ! {
    std::panic::resume_unwind(Box::new("hangs up"))
}

fn response(answer: &Answer) -> Response {
    let response = Response::builder().status(answer.code).header(header::CONTENT_TYPE, "application/json");
    response.body(Body::from(answer.body.to_string())).unwrap()
}

/// Finds the user of a request, checks the user's permission, and returns the answer.
fn answer(shared: &Shared, request: &Seen) -> Answer {
    let user = match request.headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap_or("")) {
        // kubectl sends no token to an address without TLS.
        None if *lock(&shared.is_open) => "admin",
        None => "system:anonymous",
        Some(token) => match token.strip_prefix("Bearer ") {
            Some(ADMIN) => "admin",
            Some(CREATOR) => "creator",
            Some(NOBODY) => "nobody",
            _ => return status::unauthorized(),
        },
    };
    let segments: Vec<String> = request.path.split('/').skip(1).map(decoded).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let manager = manager(request);
    if manager.len() > MAX_MANAGER || manager.contains(char::is_control) {
        return status::invalid("", "fieldManager", "may not be longer than 128, and must be printable");
    }
    let mut store = lock(&shared.store);
    store.manager = manager;
    match segments[..] {
        ["api", "v1", "namespaces", namespace, "events"] => {
            if let Some(refused) = refused(user, &request.method, "", namespace, "") {
                return refused;
            }
            store.collection(&request.method, namespace, &request.headers, &request.body)
        }
        ["apis", "events.k8s.io", "v1", ref rest @ ..] => events_v1(&mut store, user, request, rest),
        ["api", "v1", "namespaces", namespace, "events", name] => {
            if let Some(refused) = refused(user, &request.method, "", namespace, name) {
                return refused;
            }
            store.item(&request.method, namespace, name, &request.headers, &request.body)
        }
        ["api", "v1", "events"] => store.list(""),
        ["api", "v1", "namespaces"] => store.create_namespace(&request.body),
        ["api", "v1", "namespaces", name] if request.method == Method::DELETE => store.end_namespace(name),
        ["api", "v1", "namespaces", name] => store.namespace(name),
        _ => store.objects(&request.path),
    }
}

/// Returns the answer to a request of events.k8s.io/v1.
fn events_v1(store: &mut Store, user: &str, request: &Seen, rest: &[&str]) -> Answer {
    let (namespace, name) = match *rest {
        [] if store.has_events_v1 => return events_v1::discovery(),
        ["namespaces", namespace, "events"] if store.has_events_v1 => (namespace, ""),
        ["namespaces", namespace, "events", name] if store.has_events_v1 => (namespace, name),
        _ => return status::not_found("the path", &request.path),
    };
    if let Some(refused) = refused(user, &request.method, "events.k8s.io", namespace, name) {
        return refused;
    }
    let body = match events_v1::to_core(&request.method, &request.body) {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    events_v1::from_core(if name.is_empty() {
        store.collection(&request.method, namespace, &request.headers, &body)
    } else {
        store.item(&request.method, namespace, name, &request.headers, &body)
    })
}

/// Returns the name of the field manager: the one in the request, or else the beginning of the user
/// agent.
fn manager(request: &Seen) -> String {
    let asked = request.query.split('&').find_map(|option| option.strip_prefix("fieldManager="));
    if let Some(asked) = asked.map(decoded).filter(|asked| !asked.is_empty()) {
        return asked;
    }
    let agent = request.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let name = agent.unwrap_or_default().split('/').next().unwrap_or_default();
    name.chars().take(MAX_MANAGER).collect()
}

fn refused(user: &str, method: &Method, group: &str, namespace: &str, name: &str) -> Option<Answer> {
    let verb = match method.as_str() {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "get",
    };
    let is_allowed = user == "admin" || (user == "creator" && verb == "create");
    // A server names a service account in this form, which is long.
    let account = || format!("system:serviceaccount:{namespace}:{user}");
    (!is_allowed).then(|| status::forbidden(&account(), verb, group, namespace, name))
}

/// Returns the changes of a collection from now on, one object in each line, for as long as the
/// client reads.
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

/// Returns a path's segment without its percent-encoding, such as `%41`.
fn decoded(segment: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = segment.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex =
            (first == b'%').then(|| tail.get(..2)).flatten().and_then(|two| std::str::from_utf8(two).ok());
        if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
