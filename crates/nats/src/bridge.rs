//! Combines both sides of a bridge without creating loops. An event received from another process
//! is not sent out again.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::remote_status::RemoteStatus;
use eventcast::Broadcaster;
use eventcast::stats::RemoteState;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec::{Codec, CodecError, Framing, Json};
use crate::error::BuildError;
use crate::incoming::{NatsSubscriber, NatsSubscriberBuilder};
use crate::options::{PublisherOptions, StreamOptions, SubscriberOptions};
use crate::outgoing::{NatsPublisher, NatsPublisherBuilder, NatsReport};
use crate::status::OnStatus;
use crate::subject::Subject;

/// An event on a bus that is shared with other processes. A `Routed` value dereferences to the
/// inner event.
///
/// # Examples
///
/// ```
/// use eventcast_nats::Routed;
///
/// let event = Routed::local("started".to_owned());
/// assert_eq!((event.len(), event.origin.is_none()), (7, true));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Routed<T> {
    /// The event.
    pub event: T,
    /// The identity of the publisher if the event was received from another process, or `None` if
    /// this process published the event.
    pub origin: Option<Arc<str>>,
}

impl<T> Routed<T> {
    /// Wraps an event that this process publishes.
    pub fn local(event: T) -> Self {
        Self { event, origin: None }
    }
}

impl<T> Deref for Routed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.event
    }
}

/// Encodes and decodes only the inner event. Every decoded event counts as an event of this process
/// until the reader sets the event's origin.
struct Inner<T>(Arc<dyn Codec<T>>);

impl<T: 'static> Codec<Routed<T>> for Inner<T> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn framing(&self) -> Framing {
        self.0.framing()
    }

    fn encode(&self, event: &Routed<T>, to: &mut Vec<u8>) -> Result<(), CodecError> {
        self.0.encode(&event.event, to)
    }

    fn decode(&self, bytes: &[u8]) -> Result<Routed<T>, CodecError> {
        self.0.decode(bytes).map(Routed::local)
    }
}

/// Both sides of a bridge. All processes whose bridges use the same stream share the events on
/// their buses.
///
/// The bridge sends this process's events to the stream, and publishes other processes' events on
/// the bus. The bridge does not send out events that it received from other processes, and does not
/// receive the events that it sent out itself. Each process therefore sees each event once.
///
/// # Examples
///
/// ```no_run
/// use eventcast::Broadcaster;
/// use eventcast_nats::{NatsBridge, Routed, StreamOptions};
///
/// let bus = Broadcaster::new()?;
/// let bridge = NatsBridge::builder("nats://127.0.0.1:4222", "EVENTS", StreamOptions::default()).attach(&bus)?;
/// bus.publisher().publish(Routed::local("hello".to_owned()))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the bridge stops when it is dropped"]
pub struct NatsBridge {
    out: NatsPublisher,
    reader: NatsSubscriber,
}

impl NatsBridge {
    /// Returns a builder for a bridge to this stream on this server. Events are encoded as JSON.
    /// The stream is created if it does not exist. The stream's subjects begin with `events`.
    pub fn builder<T>(server: &str, stream: &str, options: StreamOptions) -> NatsBridgeBuilder<T>
    where
        T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
    {
        let mut builder = NatsBridgeBuilder {
            out: PublisherOptions::default(),
            reader: SubscriberOptions::default(),
            codec: Arc::new(Json),
            subject: None,
            on_status: None,
        };
        builder.out.connection.servers = vec![server.to_owned()];
        builder.reader.connection.servers = vec![server.to_owned()];
        builder.out.ensure_stream = Some(options);
        stream.clone_into(&mut builder.out.stream);
        stream.clone_into(&mut builder.reader.stream);
        builder
    }

    /// Returns the outgoing side.
    pub fn out(&self) -> &NatsPublisher {
        &self.out
    }

    /// Returns the incoming side.
    pub fn reader(&self) -> &NatsSubscriber {
        &self.reader
    }

    /// Returns the status of the side with the more severe state. For the status of each side, see
    /// [`out`](Self::out) and [`reader`](Self::reader).
    pub fn status(&self) -> RemoteStatus {
        let (out, reader) = (self.out.status(), self.reader.status());
        if severity(reader.state) > severity(out.state) { reader } else { out }
    }

    /// Stops the incoming side, and then stops the outgoing side with
    /// [`NatsPublisher::shutdown_timeout`].
    ///
    /// # Blocking
    ///
    /// Waits for at most twice `timeout`, plus a small margin.
    pub fn shutdown_timeout(&self, timeout: Duration) -> NatsReport {
        self.reader.shutdown_timeout(timeout);
        self.out.shutdown_timeout(timeout)
    }
}

/// Returns the severity of a state for a bridge that is supposed to be running.
fn severity(state: RemoteState) -> u8 {
    match state {
        RemoteState::Ready => 0,
        RemoteState::Connecting => 1,
        RemoteState::Refused => 3,
        RemoteState::Ended => 4,
        _ => 2,
    }
}

/// A user-supplied function that chooses the subject of an event.
type SubjectOf<T> = Box<dyn Fn(&T) -> Subject + Send + Sync>;

/// Builds a [`NatsBridge`].
#[must_use = "a builder does nothing until it is attached"]
pub struct NatsBridgeBuilder<T> {
    out: PublisherOptions,
    reader: SubscriberOptions,
    codec: Arc<dyn Codec<T>>,
    subject: Option<SubjectOf<T>>,
    on_status: Option<Arc<OnStatus>>,
}

impl<T: Clone + Send + Sync + 'static> NatsBridgeBuilder<T> {
    /// Changes the options of both sides.
    pub fn configure(mut self, change: impl FnOnce(&mut PublisherOptions, &mut SubscriberOptions)) -> Self {
        change(&mut self.out, &mut self.reader);
        self
    }

    /// Sets the codec. Defaults to [`Json`].
    pub fn codec(mut self, codec: impl Codec<T>) -> Self {
        self.codec = Arc::new(codec);
        self
    }

    /// Sets a function that chooses the subject of each event. By default, the subject of all
    /// events is the prefix.
    pub fn subject(mut self, subject: impl Fn(&T) -> Subject + Send + Sync + 'static) -> Self {
        self.subject = Some(Box::new(subject));
        self
    }

    /// Sets a function that each side calls with its own status whenever the state or the failure
    /// changes. The function runs on the threads of the two sides, so it must not block. If the
    /// function panics, the panic is caught.
    pub fn on_status(mut self, on_status: impl Fn(&RemoteStatus) + Send + Sync + 'static) -> Self {
        self.on_status = Some(Arc::new(Box::new(on_status)));
        self
    }

    /// Attaches both sides to a bus.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`NatsPublisherBuilder::attach`] and
    /// [`NatsSubscriberBuilder::attach`].
    ///
    /// # Blocking
    ///
    /// Blocks under the same conditions as [`NatsPublisherBuilder::attach`] and
    /// [`NatsSubscriberBuilder::attach`].
    pub fn attach(self, bus: &Broadcaster<Routed<T>>) -> Result<NatsBridge, BuildError> {
        let Self { out, reader, codec, subject, on_status } = self;
        let mut out = NatsPublisherBuilder::with_codec(out, Inner(codec.clone()))
            .filter(|event: &Routed<T>| event.origin.is_none());
        if let Some(subject) = subject {
            out = out.subject(move |event| subject(&event.event));
        }
        if let Some(on_status) = on_status.clone() {
            out = out.on_status(move |status| on_status(status));
        }
        let out = out.attach(bus)?;
        let mut reader = NatsSubscriberBuilder::with_codec(reader, Inner(codec)).skip(&out);
        if let Some(on_status) = on_status {
            reader = reader.on_status(move |status| on_status(status));
        }
        let note = |remote: crate::incoming::Remote<Routed<T>>| Routed {
            origin: Some(remote.origin),
            ..remote.event
        };
        let reader = reader.map(note).attach(&bus.publisher())?;
        Ok(NatsBridge { out, reader })
    }
}

impl<T> fmt::Debug for NatsBridgeBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsBridgeBuilder")
            .field("out", &self.out)
            .field("reader", &self.reader)
            .finish_non_exhaustive()
    }
}
