//! The sink, which runs each operation as a task with its own requests.
//!
//! `request` turns an operation into requests, `answer` interprets the responses, and `runtime`
//! runs both. Events are sent and received as eventcast's own JSON, because other event types may
//! have different fields, so converting an event could lose information.

use std::fmt;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use eventcast::sink::{NeededThread, SinkBatch, SinkErrorKind, SinkMode, SinkOp, Stored};
use eventcast::{Event, EventSink, SinkError};
use http::HeaderValue;
use http::header::USER_AGENT;
use kube::{Client, Config};
use tokio::runtime::Handle;

use crate::api::EventsApi;
use crate::error::BuildError;
use crate::request::{Requests, namespace};
use crate::runtime::Runtime;

/// The default time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The default maximum number of operations in flight at the same time.
const IN_FLIGHT: usize = 16;

/// A sink that stores events in a Kubernetes cluster, as Kubernetes Events that `kubectl get
/// events` and `kubectl describe` show. The sink writes events through core/v1, or through
/// events.k8s.io/v1 if they have an event time and [`api`](Self::api) selects that API.
///
/// The sink writes an event to the namespace that the event names. If the event does not name a
/// namespace, the sink uses the namespace of the event's object, or `default` if the object does
/// not have a namespace either. The sink sends a new event with POST and an
/// [`update`](EventSink::update) with PUT. It sends a repeat as a strategic merge patch, which
/// contains the count, the last time and the message, or the series if the event has an event time.
/// The program's role needs `create` and `patch` on events. It also needs `update` if the program
/// itself calls [`update`](EventSink::update), which recordings do not do. `docs/kubernetes.md`,
/// which is also included in the `eventcast` package, contains the manifest, and describes
/// everything else about running in a cluster.
///
/// # Responses
///
/// | response | meaning |
/// |---|---|
/// | 429, and 5xx except those below | retried, at the time that `Retry-After` specifies |
/// | 503 and 504 whose text names no admission webhook | the server does not serve the [group](#groups), or is itself unavailable |
/// | no response in time | the same |
/// | 401, 403 about the user's role, 403 of a server that is not ready | access to the [group](#groups) is denied. Retried for 30 s, because tokens are rotated and a server that has just started does not know its roles, and then rejected |
/// | 408 | retried |
/// | no connection, or a lost connection | the server itself is unavailable. Retried, because the response is not known |
/// | 404 to a patch | the event has expired. A recording creates it again |
/// | 409 to a patch, 409 with the reason `Conflict` to a new event | retried, because another client wrote at the same time |
/// | any other 409 to a new event | the name is taken. The sink then sends a patch that changes nothing to read the event with this name |
/// | any other 403, 404 for the namespace, 409 to an update, 413, 422, other 4xx | rejected, with the server's text |
/// | 5xx with `request is too large` or `message larger than max` | also rejected |
/// | 5xx with `resourceVersion should not be set on objects to be created` | also rejected |
///
/// # Groups
///
/// An event's [group](EventSink::group) is the namespace to which the sink writes it. If a
/// namespace's admission webhook is slow, hangs or fails, only the events in that namespace are
/// delayed.
///
/// # Runtimes
///
/// Each operation is a task, and up to [`in_flight`](Self::in_flight) operations are in flight at
/// the same time.
///
/// - With [`new`](Self::new), the requests run on a thread that belongs to the sink and ends with
///   the sink. This works in every program.
/// - With [`with_client`](Self::with_client), the requests run on the program's runtime. If that
///   runtime is a `current_thread` runtime, then `flush`, `shutdown` and dropping the broadcaster
///   do not wait for this sink when they happen on the runtime's thread, because no thread would
///   then run the requests (see [`needed_thread`](EventSink::needed_thread)). Await `flush_async`
///   and `shutdown_async` instead. If a program calls the sink's own methods, such as `create`, it
///   must do so on a thread that does not run tasks of that runtime, for example in
///   `spawn_blocking`. A call on a worker thread can wait for three times the
///   [`timeout`](Self::timeout) plus one second and then fail, because tokio may assign the request
///   to the very thread that is waiting.
///
/// Dropping the sink never blocks.
///
/// # Examples
///
/// ```no_run
/// use eventcast::EventBroadcaster;
/// use eventcast_kube::KubernetesSink;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let events = EventBroadcaster::new()?;
/// events.record_to(KubernetesSink::new(kube::Config::infer().await?)?)?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a sink does nothing until a recording writes to it"]
#[doc(alias = "EventSinkImpl")]
pub struct KubernetesSink {
    requests: Arc<Requests>,
    runtime: Runtime,
    in_flight: usize,
}

impl KubernetesSink {
    /// Creates a sink with its own client and thread for the cluster that `config` describes.
    ///
    /// The sink disables kube's own retries (`default_retry`) in this client, because the recording
    /// retries and counts its attempts. If the configuration's headers contain no `User-Agent`, the
    /// sink sends `eventcast` and the version.
    ///
    /// # Errors
    ///
    /// Returns an error in these cases:
    ///
    /// - If no client can be created, for example because a certificate cannot be read, because a
    ///   credentials program fails, or because the URL is `https` while neither of kube's
    ///   `rustls-tls` and `openssl-tls` features is enabled.
    /// - If the system cannot start a thread.
    ///
    /// This method does not check whether a server is available.
    ///
    /// # Blocking
    ///
    /// If the configuration specifies a credentials program, this method waits until that program
    /// has exited.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::SinkErrorKind;
    /// use eventcast::{Event, EventSink};
    /// use eventcast_kube::KubernetesSink;
    ///
    /// // No server listens there.
    /// let config = kube::Config::new("http://127.0.0.1:1".parse()?);
    /// let sink = KubernetesSink::new(config)?;
    /// let error = sink.create(&Event::default()).unwrap_err();
    /// assert_eq!(error.kind(), SinkErrorKind::Unavailable);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(mut config: Config) -> Result<Self, BuildError> {
        config.default_retry = false;
        if !config.headers.iter().any(|(name, _)| name == USER_AGENT) {
            let agent = concat!("eventcast/", env!("CARGO_PKG_VERSION"));
            config.headers.push((USER_AGENT, HeaderValue::from_static(agent)));
        }
        let url = config.cluster_url.to_string();
        let runtime = Runtime::own().map_err(|source| BuildError::Thread { source })?;
        let client = {
            // A client spawns a task on the runtime on which it is created.
            let _entered = runtime.handle().enter();
            Client::try_from(config).map_err(|error| BuildError::Client { url, source: Box::new(error) })?
        };
        Ok(Self::from_parts(client, runtime))
    }

    /// Creates a sink that uses an existing client, and runs its requests on `runtime`, which must
    /// be the runtime on which the client was created.
    ///
    /// If the client itself retries (`default_retry` in the client's configuration, which is on by
    /// default), all of the client's attempts share the request's time limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast_kube::KubernetesSink;
    /// use tokio::runtime::Handle;
    ///
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = kube::Client::try_default().await?;
    /// let sink = KubernetesSink::with_client(client, Handle::current());
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_client(client: Client, runtime: Handle) -> Self {
        Self::from_parts(client, Runtime::of_caller(runtime))
    }

    fn from_parts(client: Client, runtime: Runtime) -> Self {
        Self { requests: Arc::new(Requests::new(client, TIMEOUT)), runtime, in_flight: IN_FLIGHT }
    }

    /// Sets the time limit for a request, from connecting to receiving the last byte of the
    /// response. A request that takes longer is treated as failed, and may be retried. Defaults to
    /// 30 s. If the limit is zero, no request succeeds.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast_kube::KubernetesSink;
    /// use std::time::Duration;
    ///
    /// let config = kube::Config::new("http://127.0.0.1:1".parse()?);
    /// let sink = KubernetesSink::new(config)?.timeout(Duration::from_secs(5));
    /// assert!(format!("{sink:?}").contains("timeout: 5s"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.requests_mut().timeout = timeout;
        self
    }

    /// Sets the maximum number of operations in flight at the same time, each of which uses its own
    /// connection. Defaults to 16. Zero is treated as 1.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast_kube::KubernetesSink;
    ///
    /// let config = kube::Config::new("http://127.0.0.1:1".parse()?);
    /// let sink = KubernetesSink::new(config)?.in_flight(0);
    /// assert!(format!("{sink:?}").contains("in_flight: 1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn in_flight(mut self, requests: usize) -> Self {
        self.in_flight = requests.max(1);
        self
    }

    /// Sets the name under which the server records this sink's writes (in the event's
    /// `managedFields`). By default, the name is the event's component or, if the component is
    /// empty, the event's reporting controller. If a program records events under its own name, the
    /// sink therefore also writes under that name. If the name is empty, the server uses the
    /// beginning of the `User-Agent`. `None` restores the default. For a `String`, pass
    /// `name.as_str()`.
    ///
    /// A server accepts at most 128 printable characters. The sink omits characters that are not
    /// printable ASCII, and sends at most the first 128 of the remaining characters.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use eventcast_kube::KubernetesSink;
    ///
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = kube::Config::infer().await?;
    /// let sink = KubernetesSink::new(config)?.field_manager("shop-controller");
    /// # Ok(())
    /// # }
    /// ```
    pub fn field_manager<'a>(mut self, name: impl Into<Option<&'a str>>) -> Self {
        self.requests_mut().field_manager = name.into().map(str::to_owned);
        self
    }

    /// Sets the API through which events with an event time are written. Defaults to
    /// [`EventsApi::CoreV1`].
    pub fn api(mut self, api: EventsApi) -> Self {
        self.requests_mut().api = api;
        self
    }

    fn requests_mut(&mut self) -> &mut Requests {
        // While a sink is being configured, it has no tasks yet, so nothing is copied.
        Arc::make_mut(&mut self.requests)
    }

    /// Performs one operation, and waits for its result.
    fn perform(&self, op: SinkOp) -> Result<Event, SinkError> {
        let (sender, answered) = mpsc::channel();
        let requests = self.requests.clone();
        let task = self.runtime.spawn(async move {
            // An error means that the caller is no longer waiting.
            let _ = sender.send(requests.perform(&op).await);
        });
        // An operation sends at most three requests, each with its own timeout. If no result
        // arrives within this time, no thread is running the task.
        let patience = self.requests.timeout.saturating_mul(3).saturating_add(Duration::from_secs(1));
        answered.recv_timeout(patience).unwrap_or_else(|_| {
            task.abort();
            Err(SinkError::new(SinkErrorKind::Unavailable, NOT_RUN))
        })
    }
}

const NOT_RUN: &str = "the runtime for requests has ended, or is not running";

impl EventSink for KubernetesSink {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.perform(SinkOp::Create(event.clone()))
    }

    /// Replaces the stored event, or creates the event if none is stored. If `event` has a resource
    /// version and the stored event has a different version, the update is rejected. Without a
    /// resource version, `event` replaces any stored event.
    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.perform(SinkOp::Update(event.clone()))
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.perform(SinkOp::Patch(event.clone()))
    }

    /// Returns the only thread of the runtime that was passed to
    /// [`with_client`](Self::with_client), if that runtime is single-threaded.
    fn needed_thread(&self) -> Option<NeededThread> {
        self.runtime.needed_thread()
    }

    /// Returns `None`, because each write is a request to the server. A count that the spam filter
    /// suppressed is therefore written only when the recording is flushed and when it ends.
    fn refresh_every(&self) -> Option<Duration> {
        None
    }

    /// Allows up to [`in_flight`](Self::in_flight) operations in flight at the same time.
    fn mode(&self) -> SinkMode {
        SinkMode::InFlight(self.in_flight)
    }

    /// Returns the namespace to which the sink writes the event.
    fn group<'e>(&self, event: &'e Event) -> &'e str {
        namespace(event)
    }

    fn submit(&self, batch: SinkBatch) {
        for call in batch {
            let requests = self.requests.clone();
            self.runtime.spawn(async move {
                let answer = requests.perform(call.op()).await;
                call.answer(answer.map(Stored::from));
            });
        }
    }
}

/// Omits the client, because it contains credentials.
impl fmt::Debug for KubernetesSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Requests { client, timeout, field_manager, api, .. } = &*self.requests;
        f.debug_struct("KubernetesSink")
            .field("namespace", &client.default_namespace())
            .field("own_runtime", &self.runtime.is_own())
            .field("timeout", timeout)
            .field("in_flight", &self.in_flight)
            .field("field_manager", field_manager)
            .field("api", api)
            .finish_non_exhaustive()
    }
}
