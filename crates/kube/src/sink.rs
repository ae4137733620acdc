//! The sink: a batch of operations as requests, a few of them at once.
//!
//! `request` turns an operation into a request, `answer` says what the answer means, and `runtime`
//! runs both. Events travel as their own JSON in both directions, so nothing is lost in types that
//! know fewer fields or more.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use eventcast::sink::{NeededThread, SinkErrorKind, SinkOp, Stored};
use eventcast::{Event, EventSink, SinkError};
use http::HeaderValue;
use http::header::USER_AGENT;
use kube::{Client, Config};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::api::{Api, EventsApi, is_timed};
use crate::error::BuildError;
use crate::request::Job;
use crate::runtime::Runtime;

/// The time that a request may take by default.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The number of requests of a batch that are in flight at once by default.
const IN_FLIGHT: usize = 8;

/// A Kubernetes cluster as a store. Events become Events there, which `kubectl get events` and
/// `kubectl describe` show. They go through core/v1, or through events.k8s.io/v1 if they have an
/// event time and [`api`](Self::api) says so.
///
/// An event goes to its own namespace. If it names none, it goes to the namespace of its object,
/// and if the object has none, to `default`. The sink sends a new event by POST, a repeat as a
/// strategic merge patch with count, last time and message, or with the series of an event that has
/// an event time, and an [`update`](EventSink::update) by PUT. The role under which the program
/// runs needs `create` and `patch` on events, and `update` if the program itself calls
/// [`update`](EventSink::update), which recordings do not. `docs/kubernetes.md`, which is in the
/// package `eventcast` too, has the manifest, and describes what else to know about running in a
/// cluster.
///
/// # Answers
///
/// | answer | means |
/// |---|---|
/// | 429, and 5xx except those below | tried again, when `Retry-After` says. 503 and 504 say that the server itself is unavailable |
/// | 401, 408 | tried again: tokens are rotated, and the next request may be quicker |
/// | no connection, a lost one, no answer in time | the server itself is unavailable. Tried again, because the answer is not known |
/// | 404 to a patch | the event has expired. A recording creates it |
/// | 409 to a patch, 409 with the reason `Conflict` to a new event | tried again: another client wrote at the same moment |
/// | any other 409 to a new event | the name is taken. A patch that changes nothing reads which event has it |
/// | 403, 404 for the namespace, 409 to an update, 413, 422, other 4xx | rejected, with the server's text |
/// | 5xx with `request is too large` or `message larger than max` | rejected too |
/// | 5xx with `resourceVersion should not be set on objects to be created` | rejected too |
///
/// # Runtimes
///
/// kube is asynchronous, but this sink is not. It waits for its requests on the thread that calls
/// it, a thread of the recording.
///
/// - With [`new`](Self::new): the requests run on a thread that belongs to the sink and ends with
///   it. This works in every program.
/// - With [`with_client`](Self::with_client): the requests run on the program's runtime. If that
///   runtime is a `current_thread` one, `flush`, `shutdown` and the drop of the broadcaster do not
///   wait for this sink on the runtime's thread, because then no thread would run the requests
///   ([`needed_thread`](EventSink::needed_thread)). Await `flush_async` and `shutdown_async`
///   instead. A program that calls the sink's own methods, such as `create`, must do so on a thread
///   that does not run tasks of that runtime, for example in `spawn_blocking`. A call on a worker
///   thread can wait for twice the timeout, and fail, because tokio may give the request to the
///   very thread that waits.
///
/// Dropping the sink never waits.
///
/// # Examples
///
/// ```no_run
/// use eventcast::EventBroadcaster;
/// use eventcast_kube::KubernetesSink;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let events = EventBroadcaster::new()?;
/// events.start_recording_to_sink(KubernetesSink::new(kube::Config::infer().await?)?)?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "EventSinkImpl")]
pub struct KubernetesSink {
    client: Client,
    runtime: Runtime,
    timeout: Duration,
    in_flight: usize,
    /// The name of the field manager, or `None` to use each event's own.
    field_manager: Option<String>,
    api: EventsApi,
    /// The API that the server was found to have.
    found: OnceLock<Api>,
}

impl KubernetesSink {
    /// Creates a sink for the cluster of a configuration, with its own client and thread.
    ///
    /// The sink switches off kube's own retries (`default_retry`) in this client, because the
    /// recording tries again and counts its attempts. If the headers of the configuration have no
    /// `User-Agent`, it is `eventcast` and the version.
    ///
    /// # Errors
    ///
    /// Returns an error in these cases:
    ///
    /// - If no client can be made: for example, a certificate cannot be read, a program for
    ///   credentials fails, or the URL is `https` while kube has neither of its features
    ///   `rustls-tls` and `openssl-tls`.
    /// - If the system cannot start a thread.
    ///
    /// The method does not check whether there is a server.
    ///
    /// # Blocking
    ///
    /// If the configuration names a program for credentials, the method waits until that program
    /// has ended.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::SinkErrorKind;
    /// use eventcast::{Event, EventSink};
    /// use eventcast_kube::KubernetesSink;
    ///
    /// // Nobody listens there.
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
            // A client spawns a task on the runtime where it is made.
            let _entered = runtime.handle().enter();
            Client::try_from(config).map_err(|error| BuildError::Client { url, source: Box::new(error) })?
        };
        Ok(Self::from_parts(client, runtime))
    }

    /// Creates a sink for an existing client, whose requests run on `runtime`, the runtime on which
    /// the client was made.
    ///
    /// If the client tries again on its own (`default_retry` of its configuration, which is on by
    /// default), it does so within the time that a request may take.
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
        let (api, found) = (EventsApi::CoreV1, OnceLock::new());
        Self { client, runtime, timeout: TIMEOUT, in_flight: IN_FLIGHT, field_manager: None, api, found }
    }

    /// Sets how long a request may take, from connecting to the last byte of the answer. A request
    /// that takes longer counts as failed, and may be tried again. Default 30 s. With zero, no
    /// request succeeds.
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
        self.timeout = timeout;
        self
    }

    /// Sets how many requests of a batch are in flight at the same time, each on its own
    /// connection. Default 8. Zero counts as 1.
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

    /// Sets the name under which the server notes what this sink writes (`managedFields` of the
    /// event). By default the name is the event's component, or else its reporting controller. A
    /// program that records under its own name therefore also writes under its own name. With an
    /// empty name the server takes the beginning of the `User-Agent`.
    ///
    /// A server accepts at most 128 printable characters. The sink leaves out characters that are
    /// not printable ASCII, and sends at most the first 128 of the others.
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
    pub fn field_manager(mut self, name: impl Into<String>) -> Self {
        self.field_manager = Some(name.into());
        self
    }

    /// Sets the API through which events go that have an event time. Default
    /// [`EventsApi::CoreV1`].
    pub fn api(mut self, api: EventsApi) -> Self {
        self.api = api;
        self
    }

    /// Returns the API for an event. May ask the server.
    fn api_of(&self, event: &Event) -> Result<Api, SinkError> {
        if !is_timed(event) {
            return Ok(Api::Core);
        }
        match self.api {
            EventsApi::CoreV1 => Ok(Api::Core),
            EventsApi::EventsV1 => Ok(Api::Events),
            EventsApi::Auto => self.found.get().map_or_else(|| self.discover(), |api| Ok(*api)),
        }
    }

    #[cold]
    fn discover(&self) -> Result<Api, SinkError> {
        let api = match self.perform(Ok(Job::discover())) {
            Ok(_) => Api::Events,
            Err(error) if error.kind() == SinkErrorKind::NotFound => Api::Core,
            Err(error) => return Err(error),
        };
        Ok(*self.found.get_or_init(|| api))
    }

    /// Returns the time without any answer after which a runtime counts as not running. A job has
    /// at most two requests, each with its own timeout.
    fn patience(&self) -> Duration {
        self.timeout.saturating_mul(2).saturating_add(Duration::from_secs(1))
    }

    fn perform(&self, job: Result<Job, SinkError>) -> Result<Event, SinkError> {
        // There is an answer for each job.
        self.perform_all(vec![job]).pop().unwrap_or_else(|| Err(SinkError::unavailable(NOT_RUN)))
    }

    /// Performs all jobs, a few at the same time, and returns an answer for each.
    fn perform_all(&self, jobs: Vec<Result<Job, SinkError>>) -> Vec<Result<Event, SinkError>> {
        let mut answers = Vec::with_capacity(jobs.len());
        let mut waiting = VecDeque::with_capacity(jobs.len());
        for (place, job) in jobs.into_iter().enumerate() {
            answers.push(job.and_then(|job| {
                waiting.push_back((place, job));
                Err(SinkError::unavailable(NOT_RUN))
            }));
        }
        let tasks = self.in_flight.min(waiting.len());
        let (sender, answered) = mpsc::channel();
        let batch = Arc::new(Batch { waiting: Mutex::new(waiting), answers: sender });
        let spawn = |_| self.runtime.spawn(batch.clone().work(self.client.clone(), self.timeout));
        let tasks: Vec<_> = (0..tasks).map(spawn).collect();
        // From here on only the tasks hold the sender, so the channel ends with them.
        drop(batch);
        let patience = self.patience();
        while let Ok((place, answer)) = answered.recv_timeout(patience) {
            answers[place] = answer;
        }
        // If no answer came for so long, no thread runs the runtime. Else the tasks have ended, and
        // this does nothing.
        tasks.iter().for_each(JoinHandle::abort);
        answers
    }
}

const NOT_RUN: &str = "the runtime for requests has ended, or nobody runs it";

/// The place of a job in its batch, and the answer to the job.
type Answered = (usize, Result<Event, SinkError>);

/// The jobs that a few tasks share.
struct Batch {
    /// The jobs that are not begun, each with its place in the batch.
    waiting: Mutex<VecDeque<(usize, Job)>>,
    answers: mpsc::Sender<Answered>,
}

impl Batch {
    /// Runs one job after the other, until there are no more. If the server gives no answer in
    /// time, the tasks send no further jobs, so a batch takes a few times the timeout at most.
    async fn work(self: Arc<Self>, client: Client, timeout: Duration) {
        while let Some((place, job)) = self.next() {
            let outcome = job.run(&client, timeout).await;
            if outcome.is_stalled {
                let unsent: Vec<_> = self.waiting.lock().drain(..).collect();
                for (place, _) in unsent {
                    self.answer(place, Err(SinkError::unavailable("not sent: the server does not answer")));
                }
            }
            self.answer(place, outcome.answer);
        }
    }

    /// Removes the job that is next.
    fn next(&self) -> Option<(usize, Job)> {
        self.waiting.lock().pop_front()
    }

    fn answer(&self, place: usize, answer: Result<Event, SinkError>) {
        // An error means that the caller no longer waits.
        let _ = self.answers.send((place, answer));
    }
}

impl EventSink for KubernetesSink {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        let api = self.api_of(event)?;
        self.perform(Job::create(event, api, self.field_manager.as_deref()))
    }

    /// Replaces the stored event, or creates it if there is none. If `event` has a resource version
    /// and the stored event has another one, the update is rejected. Without a version, `event`
    /// replaces any stored event.
    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        let api = self.api_of(event)?;
        self.perform(Job::update(event, api, self.field_manager.as_deref()))
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        let api = self.api_of(event)?;
        self.perform(Job::patch(event, api, self.field_manager.as_deref()))
    }

    /// The only thread of a runtime that was given to [`with_client`](Self::with_client).
    fn needed_thread(&self) -> Option<NeededThread> {
        self.runtime.needed_thread()
    }

    /// Returns `None`: each write is a request to the server, so a count that the spam filter
    /// stopped is written only at a flush and at the end.
    fn refresh_every(&self) -> Option<Duration> {
        None
    }

    /// Performs a few operations at the same time, in no order. If one gets no answer in time, the
    /// sink does not send those that have not begun.
    fn apply(&self, batch: &mut [SinkOp]) -> Vec<Result<Stored, SinkError>> {
        // The server is asked once for a batch, whatever it says.
        let mut failed = None;
        let mut job = |op: &SinkOp| {
            let event = event_of(op);
            if let Some(kind) = failed.filter(|_| event.is_some_and(is_timed)) {
                let text = "not sent: it is not known which API the server has";
                let is_away = kind == SinkErrorKind::Unavailable;
                return Err(if is_away { SinkError::unavailable(text) } else { SinkError::retry(text) });
            }
            let api = event.map_or(Ok(Api::Core), |event| self.api_of(event));
            let api = api.inspect_err(|error| failed = Some(error.kind()))?;
            Job::new(op, api, self.field_manager.as_deref())
        };
        let answers = self.perform_all(batch.iter().map(&mut job).collect());
        answers.into_iter().map(|answer| answer.map(Stored::from)).collect()
    }
}

/// Returns the event of an operation that this version knows.
fn event_of(op: &SinkOp) -> Option<&Event> {
    match op {
        SinkOp::Create(event) | SinkOp::Update(event) | SinkOp::Patch(event) => Some(event),
        _ => None,
    }
}

/// Leaves out the client, which has credentials.
impl fmt::Debug for KubernetesSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubernetesSink")
            .field("namespace", &self.client.default_namespace())
            .field("own_runtime", &self.runtime.is_own())
            .field("timeout", &self.timeout)
            .field("in_flight", &self.in_flight)
            .field("field_manager", &self.field_manager)
            .field("api", &self.api)
            .finish_non_exhaustive()
    }
}
