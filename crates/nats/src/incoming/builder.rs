//! Builds the incoming side of a bridge.

use std::collections::HashSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::remote_status::RemoteStatus;
use eventcast::Publisher;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use crate::codec::{Codec, Json};
use crate::error::BuildError;
use crate::options::{ConnectionOptions, Start, SubscriberOptions};
use crate::outgoing::NatsPublisher;
use crate::runtime::{Signal, connect_and_run};
use crate::status::{OnStatus, StatusCell};

use super::outlet::{Map, Outlet};
use super::parts::{OnError, Parts, Shared};
use super::reader::Reader;
use super::remote_event::{Mark, Remote};
use super::remote_watcher::RemoteWatcher;
use super::store::{FilePosition, PositionStore};
use super::subscriber::NatsSubscriber;

/// How long to wait for a connection if the options require a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// The maximum number of messages that are buffered for a watcher without a bus.
const CHUNKS: usize = 4;

impl NatsSubscriber {
    /// Returns a builder for a subscriber that connects to one server. Events are encoded as JSON.
    pub fn builder<T>(server: &str) -> NatsSubscriberBuilder<T>
    where
        T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
    {
        let options = SubscriberOptions { connection: ConnectionOptions::new(server), ..Default::default() };
        Self::with_options(options)
    }

    /// Returns a builder with these options. Events are encoded as JSON.
    pub fn with_options<T>(options: SubscriberOptions) -> NatsSubscriberBuilder<T>
    where
        T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
    {
        NatsSubscriberBuilder::with_codec(options, Json)
    }
}

/// Builds a [`NatsSubscriber`] or a [`RemoteWatcher`]. If an option is out of range,
/// [`attach`](Self::attach) and [`watch`](Self::watch) return an error.
#[must_use = "a builder does nothing until it is attached"]
pub struct NatsSubscriberBuilder<T> {
    options: SubscriberOptions,
    codec: Box<dyn Codec<T>>,
    store: Option<Arc<dyn PositionStore>>,
    own: HashSet<String>,
    map: Option<Map<T>>,
    on_status: Option<OnStatus>,
    on_error: Option<OnError>,
    handle: Option<Handle>,
}

impl<T: Clone + Send + Sync + 'static> NatsSubscriberBuilder<T> {
    /// Creates a builder with a custom codec, for events that do not implement serde's traits.
    pub fn with_codec(options: SubscriberOptions, codec: impl Codec<T>) -> Self {
        let (codec, own) = (Box::new(codec), HashSet::new());
        Self { options, codec, store: None, own, map: None, on_status: None, on_error: None, handle: None }
    }

    /// Changes the options.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast_nats::{NatsSubscriber, Overflow};
    ///
    /// let builder = NatsSubscriber::builder::<u64>("nats://127.0.0.1:4222")
    ///     .configure(|options| options.overflow = Overflow::Drop);
    /// assert!(format!("{builder:?}").contains("overflow: Drop"));
    /// ```
    pub fn configure(mut self, change: impl FnOnce(&mut SubscriberOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Sets the name of the stream. Defaults to `EVENTS`.
    pub fn stream(self, name: &str) -> Self {
        self.configure(|options| name.clone_into(&mut options.stream))
    }

    /// Reads only the messages whose subject matches `subject`, in which `*` matches one token and
    /// `>` matches all remaining tokens.
    pub fn filter(self, subject: &str) -> Self {
        self.configure(|options| options.filter = Some(subject.to_owned()))
    }

    /// Sets the position at which to start reading if no position is saved. Defaults to
    /// [`Start::New`].
    pub fn start(self, start: Start) -> Self {
        self.configure(|options| options.start = start)
    }

    /// Resumes at the position that the last reader with this store saved, and saves the reader's
    /// position in the store.
    pub fn resume(mut self, store: impl PositionStore) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Sets the codec. Defaults to [`Json`].
    pub fn codec(mut self, codec: impl Codec<T>) -> Self {
        self.codec = Box::new(codec);
        self
    }

    /// Skips the events that a publisher in the same program sends.
    pub fn skip(mut self, publisher: &NatsPublisher) -> Self {
        self.own.insert(publisher.origin().to_owned());
        self
    }

    /// Sets a function that turns a remote event into a local event. By default, the local event is
    /// the remote event's `event` field. If the function panics, the panic is caught and the event
    /// becomes a gap. Only [`attach`](Self::attach) uses this function.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast_nats::NatsSubscriber;
    ///
    /// let builder = NatsSubscriber::builder("nats://127.0.0.1:4222")
    ///     .map(|remote| format!("{}: {}", remote.origin, remote.event));
    /// # drop::<eventcast_nats::NatsSubscriberBuilder<String>>(builder);
    /// ```
    pub fn map(mut self, map: impl Fn(Remote<T>) -> T + Send + Sync + 'static) -> Self {
        self.map = Some(Box::new(map));
        self
    }

    /// Sets a function that is called with the status whenever the state or the failure changes.
    /// The function runs on the reader's own thread, or on a thread of the runtime set with
    /// [`runtime`](Self::runtime), so it must not block. If the function panics, the panic is
    /// caught.
    pub fn on_status(mut self, on_status: impl Fn(&RemoteStatus) + Send + Sync + 'static) -> Self {
        self.on_status = Some(Box::new(on_status));
        self
    }

    /// Sets a function that is called if a message cannot be read or the reader restarts. The
    /// function runs on the reader's own thread, or on a thread of the runtime set with
    /// [`runtime`](Self::runtime), so it must not block. If the function panics, the panic is
    /// caught.
    pub fn on_error(mut self, on_error: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Box::new(on_error));
        self
    }

    /// Runs the reader on this tokio runtime, whose timer and network driver must be enabled. By
    /// default, the reader runs on its own thread.
    pub fn runtime(mut self, handle: Handle) -> Self {
        self.handle = Some(handle);
        self
    }

    /// Starts reading, and publishes the events on a bus. The reader does not keep the bus open,
    /// and ends when the bus ends.
    ///
    /// # Errors
    ///
    /// - [`BuildError::Invalid`] if an option is out of range or an address is invalid.
    /// - [`BuildError::Position`] if the saved position cannot be read.
    /// - [`BuildError::Connect`] if a certificate, key or credentials file cannot be used, or if
    ///   the options require a connection and the reader is not connected within 5 s. If the
    ///   options do not require a connection, no server needs to be running yet.
    /// - [`BuildError::Thread`] if the system cannot start a thread.
    ///
    /// # Blocking
    ///
    /// If the options require a connection, this method waits for the connection. In that case, do
    /// not call this method on a thread of the runtime that will run the reader. If the options do
    /// not require a connection, this method waits only for the reader's thread to start.
    pub fn attach(mut self, publisher: &Publisher<T>) -> Result<NatsSubscriber, BuildError> {
        let outlet = Outlet::bus(publisher.clone(), self.map.take(), self.options.overflow);
        // A bus accepts the events immediately, so no marks are sent to the reader.
        let (_, marks) = mpsc::unbounded_channel();
        self.begin(outlet, marks)
    }

    /// Starts reading, and returns a watcher that receives the events with their positions in the
    /// stream.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`attach`](Self::attach).
    ///
    /// # Blocking
    ///
    /// Blocks under the same conditions as [`attach`](Self::attach).
    pub fn watch(self) -> Result<RemoteWatcher<T>, BuildError> {
        let (sender, chunks) = mpsc::channel(CHUNKS);
        let (marks, marked) = mpsc::unbounded_channel();
        let subscriber = self.begin(Outlet::watcher(sender), marked)?;
        Ok(RemoteWatcher::new(chunks, marks, subscriber))
    }

    fn begin(
        self,
        outlet: Outlet<T>,
        marks: mpsc::UnboundedReceiver<Mark>,
    ) -> Result<NatsSubscriber, BuildError> {
        let Self { options, codec, store, own, on_status, on_error, handle, .. } = self;
        options.check()?;
        let file =
            options.resume.as_ref().map(|path| Arc::new(FilePosition::new(path)) as Arc<dyn PositionStore>);
        let store = store.or(file);
        let saved = match store.as_ref().map(|store| catch_unwind(AssertUnwindSafe(|| store.load()))) {
            None => None,
            Some(Ok(loaded)) => loaded.map_err(BuildError::Position)?,
            Some(Err(_)) => return Err(BuildError::Position(std::io::Error::other("the store panicked"))),
        };
        let status = StatusCell::new(&format!("subscriber of {}", options.connection), on_status);
        let shared = Shared { stats: Arc::new(Mutex::default()), status, ready: Signal::default() };
        let (stop, stopped) = watch::channel(None);
        let task_shared = shared.clone();
        let connection = options.connection.clone();
        // The capacity is twice the maximum number of requested messages, plus space for the
        // server's status messages.
        let capacity = options.max_messages * 2 + 64;
        let within = options.require_connection.then_some(CONNECT);
        let parts = Parts { options, codec, store, saved, own, on_error };
        let finished = connect_and_run(handle, &connection, capacity, within, move |connection| {
            let guard = task_shared.status.guard();
            let reader = Reader::new(parts, outlet, task_shared, connection, (stopped, marks));
            async move {
                let _guard = guard;
                reader.run().await;
            }
        })?;
        Ok(NatsSubscriber::new(shared, finished, stop))
    }
}

impl<T> fmt::Debug for NatsSubscriberBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsSubscriberBuilder")
            .field("options", &self.options)
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Connection;
    use crate::status::CLIENT_ENDED;
    use eventcast::stats::RemoteState;

    /// The reader is not stopped, and no server responds.
    #[test]
    fn the_end_of_the_client_ends_the_reader_with_the_reason() {
        let status = StatusCell::new("", None);
        let shared = Shared { stats: Arc::default(), status, ready: Signal::default() };
        let (_stop, stopped) = watch::channel(None);
        let (_marks, marked) = mpsc::unbounded_channel();
        let (sender, mut chunks) = mpsc::channel(CHUNKS);
        let (options, own) = (SubscriberOptions::default(), HashSet::new());
        let parts = Parts { options, codec: Box::new(Json), store: None, saved: None, own, on_error: None };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let connection = Connection::that_has_ended().await;
            let outlet = Outlet::<u64>::watcher(sender);
            let reader = Reader::new(parts, outlet, shared.clone(), connection, (stopped, marked));
            tokio::time::timeout(Duration::from_secs(60), reader.run()).await.unwrap();
        });
        let status = shared.status.get();
        assert_eq!((status.state, status.failure()), (RemoteState::Ended, Some(CLIENT_ENDED)));
        assert!(chunks.blocking_recv().is_none());
    }
}
