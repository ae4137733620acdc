//! Kubernetes as a store, and its objects as what events are about.
//!
//! `request` makes a request of an operation, `answer` says what comes back means, `runtime` is where both run. Events
//! travel as their own JSON in both directions, so nothing is lost in types that know less or more.

mod answer;
mod reference;
mod request;
mod runtime;
mod verb;

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::{Client, Config};
use tokio::runtime::Handle;

use crate::error::BuildError;
use crate::escape::escaped;
use crate::record::event::{Event, EventPatch};
use crate::record::sink::{EventSink, SinkError, SinkOp};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex};

use request::Job;
use runtime::{Progress, Runtime};

/// How long a request may take, unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How many requests of a batch are under way at once, unless told otherwise.
const IN_FLIGHT: usize = 8;

/// A Kubernetes cluster as a store: events become core/v1 Events there, which `kubectl get events` and
/// `kubectl describe` show. Feature `kube-5`.
///
/// An event goes to its namespace; if it names none, to its object's, and if that has none, to `default`. A new one is
/// sent by POST, a repeat as a strategic merge patch with count, last time and message, an [`update`](EventSink::update) by
/// PUT. The role that the program runs under needs `create`, `patch` and `update` on events: `docs/kubernetes.md` in the
/// repository has the manifest, and says what else there is to know about running in a cluster.
///
/// # Answers
///
/// | answer | means |
/// |---|---|
/// | 429, and 5xx except those below | tried again, when `Retry-After` says; 503 and 504 say that the server itself is away |
/// | 401, 408 | tried again: tokens are rotated, and the next request may be quicker |
/// | no connection, a lost one, no answer in time | the server itself is away; tried again, because what the answer was is not known |
/// | 404 to a patch | the event has expired; a recording creates it |
/// | 409 with the reason `Conflict`, but to an update | tried again: somebody else wrote at the same moment |
/// | any other 409 to a new event | the name is taken; which event has it is read by a patch that changes nothing |
/// | 403, 404 for the namespace, 413, 422, other 4xx | rejected, with what the server says |
/// | 5xx with `request is too large` or `message larger than max` | rejected too |
/// | 5xx with `resourceVersion should not be set on objects to be created` | rejected too |
///
/// # Runtimes
///
/// kube is asynchronous, this sink is not: it waits for its requests on the thread that calls it, a recording's own.
/// With [`new`](Self::new) the requests run on a thread that the sink has for itself, which goes with it: that works in
/// every program. With [`with_client`](Self::with_client) they run on the program's runtime. If that has one thread only,
/// the thread must not wait in `flush` or `shutdown`, or the requests that are waited for have nobody to run them: await
/// `flush_async` and `shutdown_async` instead. Dropping the sink never waits.
///
/// # Examples
///
/// ```no_run
/// use eventcast::{EventBroadcaster, KubernetesSink};
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
    /// `None`: each event's own.
    field_manager: Option<String>,
}

impl KubernetesSink {
    /// For the cluster of a configuration, with a client and a thread of its own.
    ///
    /// kube's own retries (`default_retry`) are switched off in this client, because the recording tries again and
    /// counts it. Without a `User-Agent` among the headers of the configuration it is `eventcast` and the version.
    ///
    /// # Errors
    ///
    /// When no client can be made: a certificate that cannot be read, a program for credentials that fails, `https`
    /// while kube has neither of its features `rustls-tls` and `openssl-tls`. Or when the system gives no thread. Whether
    /// there is a server is not looked at.
    ///
    /// # Blocking
    ///
    /// If the configuration names a program for credentials, until that has ended.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, EventSink, KubernetesSink, SinkErrorKind};
    ///
    /// // Nobody listens there.
    /// let config = kube::Config::new("http://127.0.0.1:1".parse()?);
    /// let sink = KubernetesSink::new(config)?;
    /// let error = sink.create(&Event::default()).unwrap_err();
    /// assert_eq!(error.kind(), SinkErrorKind::Retry);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(mut config: Config) -> Result<Self, BuildError> {
        config.default_retry = false;
        if !config.headers.iter().any(|(name, _)| name == USER_AGENT) {
            let agent = concat!("eventcast/", env!("CARGO_PKG_VERSION"));
            config.headers.push((USER_AGENT, HeaderValue::from_static(agent)));
        }
        let url = config.cluster_url.to_string();
        let runtime = Runtime::own().map_err(|error| BuildError::thread(runtime::THREAD, error))?;
        let client = {
            // A client puts a task on the runtime where it is made.
            let _entered = runtime.handle().enter();
            Client::try_from(config)
                .map_err(|error| BuildError::client(&url, escaped(&answer::chain(&error)).to_string()))?
        };
        Ok(Self::from_parts(client, runtime))
    }

    /// For a client that there is already, whose requests run on `runtime`, the one it was made on.
    ///
    /// A client that tries again by itself (`default_retry` of its configuration, which is on unless switched off) does
    /// so within the time that a request may take.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::KubernetesSink;
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
        Self { client, runtime, timeout: TIMEOUT, in_flight: IN_FLIGHT, field_manager: None }
    }

    /// How long a request may take, from connecting to the last byte of the answer; then it counts as failed, and may
    /// be tried again. Default 30 s; with zero none succeeds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How many requests of a batch are under way at the same time, each on a connection of its own. Default 8; zero
    /// counts as 1.
    pub fn in_flight(mut self, requests: usize) -> Self {
        self.in_flight = requests.max(1);
        self
    }

    /// Under which name the server notes what this sink writes (`managedFields` of the event).
    /// Unless this is called it is the event's component, or else its reporting controller: so a
    /// program that records under its own name writes under its own name. With an empty name the
    /// server takes the beginning of the `User-Agent`.
    ///
    /// A server takes at most 128 printable characters. Of a longer name the first 128 are sent,
    /// and characters that are not printable ASCII are left out.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use eventcast::KubernetesSink;
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

    /// So long without any answer, and the runtime does not run: a job has at most two requests, each with its own end.
    fn patience(&self) -> Duration {
        self.timeout.saturating_mul(2).saturating_add(Duration::from_secs(1))
    }

    fn perform(&self, job: Result<Job, SinkError>) -> Result<Event, SinkError> {
        // There is an answer for each job.
        self.perform_all(vec![job]).pop().unwrap_or_else(|| Err(SinkError::unreachable(NOT_RUN)))
    }

    /// All of them, a few at the same time.
    fn perform_all(&self, jobs: Vec<Result<Job, SinkError>>) -> Vec<Result<Event, SinkError>> {
        let mut answers = Vec::with_capacity(jobs.len());
        let mut waiting = VecDeque::with_capacity(jobs.len());
        for (place, job) in jobs.into_iter().enumerate() {
            answers.push(job.and_then(|job| {
                waiting.push_back((place, job));
                Err(SinkError::unreachable(NOT_RUN))
            }));
        }
        let tasks = self.in_flight.min(waiting.len());
        let batch = Arc::new(Requests {
            waiting: Mutex::new(waiting),
            is_stalled: AtomicBool::new(false),
            progress: Progress::default(),
        });
        let spawn = |_| self.runtime.spawn(batch.clone().work(self.client.clone(), self.timeout));
        let tasks: Vec<_> = (0..tasks).map(spawn).collect();
        let mut patience = self.patience();
        for task in tasks {
            match runtime::wait(task, &batch.progress, patience) {
                Some(given) => given.into_iter().for_each(|(place, answer)| answers[place] = answer),
                // What is true of one is true of all.
                None => patience = Duration::ZERO,
            }
        }
        if batch.is_stalled() {
            for (place, _) in batch.waiting.lock().drain(..) {
                answers[place] = Err(SinkError::unreachable("not sent: the server does not answer"));
            }
        }
        answers
    }
}

const NOT_RUN: &str = "the runtime for requests has ended, or nobody runs it";

/// Operations that a few tasks share.
struct Requests {
    /// Each with its place in the batch.
    waiting: Mutex<VecDeque<(usize, Job)>>,
    /// A request got no answer in time.
    is_stalled: AtomicBool,
    progress: Progress,
}

impl Requests {
    /// One after the other, until there are no more. A server that gives no answer in time gets no further request, so
    /// that a batch takes a few times the timeout at most.
    async fn work(
        self: Arc<Self>,
        client: Client,
        timeout: Duration,
    ) -> Vec<(usize, Result<Event, SinkError>)> {
        let mut answers = Vec::new();
        while !self.is_stalled() {
            let next = self.waiting.lock().pop_front();
            let Some((place, job)) = next else { break };
            let outcome = job.run(&client, timeout).await;
            self.progress.step();
            if outcome.is_stalled {
                // Relaxed: a late look sends one request more.
                self.is_stalled.store(true, Ordering::Relaxed);
            }
            answers.push((place, outcome.answer));
        }
        answers
    }

    fn is_stalled(&self) -> bool {
        // Relaxed: as where it is set.
        self.is_stalled.load(Ordering::Relaxed)
    }
}

impl EventSink for KubernetesSink {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.perform(Job::create(event, self.field_manager.as_deref()))
    }

    /// Replaces the stored event, or creates it. If `event` has a resource version, and the stored one has another, it is
    /// rejected: without a version it is replaced whatever it is.
    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.perform(Job::update(event, self.field_manager.as_deref()))
    }

    fn patch(&self, event: &Event, patch: &EventPatch) -> Result<Event, SinkError> {
        self.perform(Job::patch(event, patch.as_bytes(), self.field_manager.as_deref()))
    }

    /// A few at the same time, in no order. When one gets no answer in time, those that have not begun are not sent.
    fn apply(&self, batch: &[SinkOp]) -> Vec<Result<Event, SinkError>> {
        let job = |op| Job::new(op, self.field_manager.as_deref());
        self.perform_all(batch.iter().map(job).collect())
    }
}

/// Without the client, which has credentials.
impl fmt::Debug for KubernetesSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubernetesSink")
            .field("namespace", &self.client.default_namespace())
            .field("own_runtime", &self.runtime.is_own())
            .field("timeout", &self.timeout)
            .field("in_flight", &self.in_flight)
            .field("field_manager", &self.field_manager)
            .finish_non_exhaustive()
    }
}
