//! Builds the outgoing side of a bridge.

use std::fmt;
use std::sync::Arc;

use crate::remote_status::RemoteStatus;
use eventcast::{Broadcaster, Watcher};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use crate::client::Connection;
use crate::codec::{Codec, Json};
use crate::error::BuildError;
use crate::options::{ConnectionOptions, PublisherOptions, StreamOptions};
use crate::runtime::{Signal, connect_and_run};
use crate::status::{OnStatus, StatusCell};
use crate::subject::Subject;
use crate::wire::{Origin, is_codec};

use super::assembler::{Assembler, Limits, SubjectOf};
use super::publisher::NatsPublisher;
use super::pump::{Pump, Shared};
use super::send::Sender;

/// The number of messages that a client buffers for a subscription. The outgoing side has no
/// subscriptions.
const CAPACITY: usize = 64;

impl NatsPublisher {
    /// Returns a builder for a publisher that connects to one server. Events are encoded as JSON.
    pub fn builder<T>(server: &str) -> NatsPublisherBuilder<T>
    where
        T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
    {
        let options = PublisherOptions { connection: ConnectionOptions::new(server), ..Default::default() };
        NatsPublisherBuilder::new(options)
    }

    /// Returns a builder with these options. Events are encoded as JSON.
    pub fn with_options<T>(options: PublisherOptions) -> NatsPublisherBuilder<T>
    where
        T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
    {
        NatsPublisherBuilder::new(options)
    }
}

/// A user-supplied filter.
type Keep<T> = Box<dyn FnMut(&T) -> bool + Send>;

/// Builds a [`NatsPublisher`]. If an option is out of range, [`attach`](Self::attach) returns an
/// error.
#[must_use = "a builder does nothing until it is attached"]
pub struct NatsPublisherBuilder<T> {
    options: PublisherOptions,
    codec: Box<dyn Codec<T>>,
    subject_of: Option<SubjectOf<T>>,
    keep: Option<Keep<T>>,
    on_status: Option<OnStatus>,
    handle: Option<Handle>,
}

impl<T: Serialize + DeserializeOwned + 'static> NatsPublisherBuilder<T> {
    pub(crate) fn new(options: PublisherOptions) -> Self {
        Self { options, codec: Box::new(Json), subject_of: None, keep: None, on_status: None, handle: None }
    }
}

impl<T: Clone + Send + Sync + 'static> NatsPublisherBuilder<T> {
    /// Creates a builder with a custom codec, for events that do not implement serde's traits.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use eventcast::Broadcaster;
    /// use eventcast_nats::{Json, NatsPublisherBuilder, PublisherOptions};
    ///
    /// let bus = Broadcaster::<u64>::new()?;
    /// let out = NatsPublisherBuilder::with_codec(PublisherOptions::default(), Json).attach(&bus)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_codec(options: PublisherOptions, codec: impl Codec<T>) -> Self {
        let codec = Box::new(codec);
        Self { options, codec, subject_of: None, keep: None, on_status: None, handle: None }
    }

    /// Changes the options.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast_nats::NatsPublisher;
    ///
    /// let builder = NatsPublisher::builder::<u64>("nats://127.0.0.1:4222")
    ///     .configure(|options| options.max_batch = 1024);
    /// assert!(format!("{builder:?}").contains("max_batch: 1024"));
    /// ```
    pub fn configure(mut self, change: impl FnOnce(&mut PublisherOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Sets the first tokens of every subject. Defaults to `events`.
    pub fn prefix(self, prefix: &str) -> Self {
        self.configure(|options| prefix.clone_into(&mut options.prefix))
    }

    /// Creates the stream with this name if it does not exist. See
    /// [`PublisherOptions::ensure_stream`].
    pub fn ensure_stream(self, name: &str, stream: StreamOptions) -> Self {
        self.configure(|options| {
            name.clone_into(&mut options.stream);
            options.ensure_stream = Some(stream);
        })
    }

    /// Sets the codec. Defaults to [`Json`].
    pub fn codec(mut self, codec: impl Codec<T>) -> Self {
        self.codec = Box::new(codec);
        self
    }

    /// Sets a function that chooses the subject of each event. By default, the subject of all
    /// events is the prefix. The stream must accept the subject, so the subject should begin with
    /// the prefix. If the function panics, the panic is caught and the event counts as lost.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast_nats::{NatsPublisher, Subject};
    ///
    /// let builder = NatsPublisher::builder::<(String, f64)>("nats://127.0.0.1:4222")
    ///     .prefix("ticks")
    ///     .subject(|(symbol, _): &(String, f64)| Subject::new("ticks").token(symbol));
    /// # drop(builder);
    /// ```
    pub fn subject(mut self, subject_of: impl Fn(&T) -> Subject + Send + Sync + 'static) -> Self {
        self.subject_of = Some(Box::new(subject_of));
        self
    }

    /// Sends only the events for which `keep` returns true. Like every
    /// [filter](eventcast::WatchBuilder::filter), `keep` runs on the bus's dispatcher.
    pub fn filter(mut self, keep: impl FnMut(&T) -> bool + Send + 'static) -> Self {
        self.keep = Some(Box::new(keep));
        self
    }

    /// Sets a function that is called with the status whenever the state or the failure changes.
    /// The function runs on the bridge's own thread, or on a thread of the runtime set with
    /// [`runtime`](Self::runtime), so it must not block. If the function panics, the panic is
    /// caught.
    pub fn on_status(mut self, on_status: impl Fn(&RemoteStatus) + Send + Sync + 'static) -> Self {
        self.on_status = Some(Box::new(on_status));
        self
    }

    /// Runs the bridge on this tokio runtime, whose timer and network driver must be enabled. By
    /// default, the bridge runs on its own thread.
    pub fn runtime(mut self, handle: Handle) -> Self {
        self.handle = Some(handle);
        self
    }

    /// Registers a watcher on the bus, and starts sending the events that the watcher receives.
    ///
    /// The bus offers the bridge every event whose publish call begins after this method has
    /// returned.
    ///
    /// # Errors
    ///
    /// - [`BuildError::Invalid`] if an option is out of range or an address is invalid.
    /// - [`BuildError::Watch`] if the bus refuses the watcher.
    /// - [`BuildError::Connect`] if a certificate, key or credentials file cannot be used, or if
    ///   the options require a connection and the bridge is not connected in time. If the options
    ///   do not require a connection, no server needs to be running yet.
    /// - [`BuildError::Thread`] or [`BuildError::Random`] if the system cannot start a thread or
    ///   provide random numbers.
    ///
    /// # Blocking
    ///
    /// If the options require a connection, this method waits for the connection. In that case, do
    /// not call this method on a thread of the runtime that will run the bridge. If the options do
    /// not require a connection, this method waits only for the bridge's thread to start.
    pub fn attach(self, bus: &Broadcaster<T>) -> Result<NatsPublisher, BuildError> {
        let Self { options, codec, subject_of, keep, on_status, handle } = self;
        options.check()?;
        if !is_codec(codec.name()) {
            let allowed = "a name of 1 to 64 printable characters without spaces";
            return Err(BuildError::invalid(
                "codec",
                allowed,
                format_args!("{:.80}", eventcast::escape::escape(codec.name())),
            ));
        }
        let watcher = watch(bus, &options, keep)?;
        let origin = Origin::random().map_err(BuildError::Random)?;
        let subject_of = subject_of.unwrap_or_else(|| {
            let subject = Subject::new(&options.prefix);
            Box::new(move |_| subject.clone())
        });
        let limits = Limits { events: options.max_batch, bytes: options.max_bytes };
        let assembler = Assembler::new(origin.clone(), codec, subject_of, limits);
        let status = StatusCell::new(&format!("publisher to {}", options.connection), on_status);
        let shared = Shared { stats: Arc::new(Mutex::default()), status };
        let (stop, stopped) = watch::channel(None);
        let (requests, requested) = mpsc::unbounded_channel();
        let watch = watcher.handle();
        let task_shared = shared.clone();
        let finished = begin(handle, &options.clone(), move |connection| {
            let source = harmless(&options.source.clone().unwrap_or_else(source));
            let place = (options.stream.clone(), options.prefix.as_str());
            let ensure = options.ensure_stream.clone();
            let sender = Sender::new(connection, options.ack_timeout, source, place, ensure);
            let guard = task_shared.status.guard();
            let pump = Pump::new(watcher, assembler, sender, options, task_shared, (stopped, requested));
            async move {
                let _guard = guard;
                pump.run().await;
            }
        })?;
        Ok(NatsPublisher::new(origin, shared, finished, watch, stop, requests))
    }
}

/// Registers the watcher on the bus.
fn watch<T: Clone + Send + Sync + 'static>(
    bus: &Broadcaster<T>,
    options: &PublisherOptions,
    keep: Option<Keep<T>>,
) -> Result<Watcher<T>, BuildError> {
    let builder =
        bus.watch_builder().name("nats").queue_capacity(options.queue_capacity).overflow(options.overflow);
    let builder = match keep {
        Some(keep) => builder.filter(keep),
        None => builder,
    };
    Ok(builder.watch()?)
}

/// Starts the task, and waits for the task's connection to be opened.
fn begin<F, R>(handle: Option<Handle>, options: &PublisherOptions, task: F) -> Result<Signal, BuildError>
where
    F: FnOnce(Connection) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let within = options.require_connection.then_some(options.ack_timeout);
    connect_and_run(handle, &options.connection, CAPACITY, within, task)
}

/// Returns a description of the sender, which consists of the host and the program.
fn source() -> String {
    let host = hostname::get().map(|host| host.to_string_lossy().into_owned()).unwrap_or_default();
    let program = std::env::args_os().next().map(std::path::PathBuf::from);
    let program = program.as_deref().and_then(std::path::Path::file_name).unwrap_or_default();
    format!("{host}/{}", program.to_string_lossy())
}

/// Returns a string without the characters that a header cannot contain.
fn harmless(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(200).collect()
}

impl<T> fmt::Debug for NatsPublisherBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsPublisherBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}
