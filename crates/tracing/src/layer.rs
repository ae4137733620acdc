//! The layer.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use eventcast::escape::escape;
use eventcast::{EventType, ObjectReference, Recorder};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::NoSubscriber;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber, dispatcher};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::fields::Fields;

thread_local! {
    /// Whether this thread is inside a recorder call made by a layer.
    static RECORDING: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as recording until the mark is dropped.
struct Recording;

impl Recording {
    fn begin() -> Self {
        RECORDING.set(true);
        Self
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        RECORDING.set(false);
    }
}

/// A [`Layer`] that records each log event that has a value for the field `reason`. The
/// [crate's documentation](crate) lists the fields.
///
/// A clone uses the same recorder and counts in the same counter, so a program can keep a clone to
/// read the counter.
///
/// # Feedback
///
/// The layer does not record log events that result from recording another event:
///
/// - Log events from the threads of the recorder's broadcaster, which call handlers, filters and
///   sinks. A handler may therefore [log](eventcast::EventBroadcaster::spawn) each recorded event
///   with its reason.
/// - Log events from functions that the recorder calls while the layer is recording, such as
///   `scrub` and `on_loss`.
/// - Log events whose target is one of eventcast's crates.
///
/// The layer cannot recognize other threads, such as a thread or a task that reads a `Watcher`, the
/// threads of a sink's runtime, or a handler of a second broadcaster that has its own layer. If
/// such code logs with a `reason`, filter its log events by target, as [shown below](#examples).
/// Other crates may also have fields with this name. The HTTP library `h2` has such a field at the
/// level `TRACE`.
///
/// # Filters
///
/// The layer records log events of every level, so without a filter, `tracing` also processes each
/// `DEBUG` and `TRACE` event of the program and its dependencies. Give the layer a filter, such as
/// `with_filter(LevelFilter::INFO)`.
///
/// `RecorderLayer` works with [per-layer filters](tracing_subscriber::layer#per-layer-filtering).
/// A span that the layer's filter disables does not provide an object. Neither does a span that was
/// created before the layer was added by [reloading](tracing_subscriber::reload). The layer itself
/// does not disable any event or span for other layers.
///
/// # Blocking
///
/// The layer never waits for a store or for queue capacity. On an
/// [inline](eventcast::EventBroadcaster::new_inline) broadcaster, the layer and the recorder wait
/// for the broadcaster's lock.
///
/// # Panics
///
/// If a value's `Debug` or `Display` implementation panics, the panic reaches the code that is
/// logging, and nothing is recorded.
///
/// # Examples
///
/// ```
/// use eventcast::testing::FakeRecorder;
/// use eventcast_tracing::RecorderLayer;
/// use tracing::level_filters::LevelFilter;
/// use tracing_subscriber::filter::Targets;
/// use tracing_subscriber::prelude::*;
///
/// let fake = FakeRecorder::new(16);
/// let program = eventcast::ObjectReference::new("Service", "shop");
/// let layer = RecorderLayer::new(fake.recorder("shop")).default_object(program);
/// let others = Targets::new().with_default(LevelFilter::TRACE).with_target("h2", LevelFilter::OFF);
/// let log = tracing_subscriber::registry().with(layer.with_filter(others));
/// tracing::subscriber::with_default(log, || {
///     tracing::info!(reason = "Started", "the shop is open");
///     tracing::info!(target: "h2::proto", reason = "NO_ERROR", "stream reset");
/// });
/// assert_eq!(fake.take_lines(), ["Normal Started the shop is open"]);
/// ```
#[derive(Clone)]
pub struct RecorderLayer {
    recorder: Recorder,
    default_object: Option<ObjectReference>,
    without_object: Arc<WithoutObject>,
}

/// Counts the log events without an object.
#[derive(Default)]
struct WithoutObject {
    count: AtomicU64,
    is_logged: AtomicBool,
}

impl RecorderLayer {
    /// Creates a layer that records through a recorder.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeRecorder;
    /// use eventcast_tracing::RecorderLayer;
    /// use tracing_subscriber::prelude::*;
    ///
    /// let fake = FakeRecorder::new(16);
    /// let log = tracing_subscriber::registry().with(RecorderLayer::new(fake.recorder("shop")));
    /// tracing::subscriber::with_default(log, || {
    ///     tracing::error!(reason = "Full", object.kind = "Disk", object.name = "sda", "97 % are used");
    /// });
    /// assert_eq!(fake.take_lines(), ["Warning Full 97 % are used"]);
    /// ```
    pub fn new(recorder: Recorder) -> Self {
        Self { recorder, default_object: None, without_object: Arc::default() }
    }

    /// Sets the object of log events for which neither the event nor a span names an object, such
    /// as the program itself. Other clones of the layer are not affected. By default, such events
    /// are not recorded but [counted](Self::events_without_object).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::ObjectReference;
    /// use eventcast::testing::FakeRecorder;
    /// use eventcast_tracing::RecorderLayer;
    /// use tracing_subscriber::prelude::*;
    ///
    /// let fake = FakeRecorder::new(16);
    /// let program = ObjectReference::new("Service", "shop");
    /// let layer = RecorderLayer::new(fake.recorder("shop")).default_object(&program);
    /// tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
    ///     tracing::info!(reason = "Started", "the shop is open");
    /// });
    /// assert_eq!(fake.take()[0].involved_object, program);
    /// ```
    #[must_use]
    pub fn default_object(mut self, object: impl Into<ObjectReference>) -> Self {
        self.default_object = Some(object.into());
        self
    }

    /// Returns the number of log events that had a reason, but no object in their own fields, in a
    /// span or in the layer. These events are not recorded. [`Recorder::stats`] counts the events
    /// that the recorder refused.
    ///
    /// The layer logs a warning about the first such event. `tracing` discards log events from
    /// inside a layer while any thread has its own subscriber (`with_default`, `set_default`). In
    /// that case, the layer logs a warning about the next such event instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeRecorder;
    /// use eventcast_tracing::RecorderLayer;
    /// use tracing_subscriber::prelude::*;
    ///
    /// let layer = RecorderLayer::new(FakeRecorder::new(16).recorder("shop"));
    /// let log = tracing_subscriber::registry().with(layer.clone());
    /// tracing::subscriber::with_default(log, || {
    ///     tracing::info!(reason = "Started", "the shop is open");
    /// });
    /// assert_eq!(layer.events_without_object(), 1);
    /// ```
    pub fn events_without_object(&self) -> u64 {
        // Relaxed: only a count.
        self.without_object.count.load(Ordering::Relaxed)
    }
}

impl WithoutObject {
    /// Counts a log event without an object, and logs the first one that `tracing` accepts.
    fn add(&self, reason: &str) {
        // Relaxed: only a count.
        self.count.fetch_add(1, Ordering::Relaxed);
        // If `tracing` would discard the warning, it provides this subscriber.
        let is_discarded = dispatcher::get_default(Dispatch::is::<NoSubscriber>);
        // Relaxed: the flag publishes no other data.
        if is_discarded || self.is_logged.swap(true, Ordering::Relaxed) {
            return;
        }
        let reason = escape(reason);
        tracing::warn!(
            "cannot record the event {reason:.100}: it has no object. Add the fields object.kind and object.name to \
             the event or to a span, or set RecorderLayer::default_object"
        );
    }
}

/// Returns whether log events with this metadata may be recorded.
fn is_candidate(metadata: &Metadata<'_>) -> bool {
    if metadata.fields().field("reason").is_none() {
        return false;
    }
    let target = metadata.target();
    let name = target.split_once("::").map_or(target, |(name, _)| name);
    !matches!(
        name,
        "eventcast" | "eventcast_kube" | "eventcast_nats" | "eventcast_sqlite" | "eventcast_tracing"
    )
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for RecorderLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().fields().field("object.kind").is_none() {
            return;
        }
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            // Another layer of this type may already have stored the same fields.
            span.extensions_mut().replace(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if span.extensions().get::<Fields>().is_none() {
            return;
        }
        // The values are formatted before the span's lock is taken, because a value's `Debug`
        // implementation may log.
        let mut newer = Fields::default();
        values.record(&mut newer);
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            fields.update_object(newer);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if !is_candidate(event.metadata()) || RECORDING.get() || self.recorder.is_own_thread() {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Some(reason) = fields.reason.take() else { return };
        let of_spans = || {
            let mut spans = context.event_scope(event)?;
            spans.find_map(|span| span.extensions().get::<Fields>().and_then(Fields::object))
        };
        let object = fields.object().or_else(of_spans).or_else(|| self.default_object.clone());
        let Some(object) = object else { return self.without_object.add(&reason) };
        let is_warning = *event.metadata().level() <= Level::WARN;
        let type_ = if is_warning { EventType::Warning } else { EventType::Normal };
        let mut draft =
            self.recorder.draft(object, type_, reason).message(fields.message.unwrap_or_default());
        if let Some(action) = fields.action {
            draft = draft.action(action);
        }
        let _recording = Recording::begin();
        // The recorder counts the events that it refuses, and catches the panics of the functions
        // that it calls.
        let _ = draft.record();
    }
}

impl fmt::Debug for RecorderLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecorderLayer")
            .field("recorder", &self.recorder)
            .field("default_object", &self.default_object)
            .field("without_object", &self.events_without_object())
            .finish()
    }
}
