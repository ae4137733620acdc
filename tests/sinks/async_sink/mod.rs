//! Stores with async clients, wrapped in `AsyncSink`, on several runtimes.

mod operations;
mod runtimes;

use std::future::Future;
use std::pin::Pin;

use eventcast::sink::{AsyncEventSink, AsyncSink};
use eventcast::{Event, EventSink, MemorySink, SinkError};

/// The type in which an `AsyncSink` passes a task to the function that runs it.
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An in-memory store that awaits the future returned by `request` before it responds.
struct Remote<R> {
    store: MemorySink,
    request: R,
}

impl<R, F> Remote<R>
where
    R: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send,
{
    fn new(request: R) -> (Self, MemorySink) {
        let store = MemorySink::new();
        (Self { store: store.clone(), request }, store)
    }
}

impl<R, F> AsyncEventSink for Remote<R>
where
    R: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send,
{
    async fn create(&self, event: &Event) -> Result<Event, SinkError> {
        (self.request)().await;
        self.store.create(event)
    }

    async fn update(&self, event: &Event) -> Result<Event, SinkError> {
        (self.request)().await;
        self.store.update(event)
    }

    async fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        (self.request)().await;
        self.store.patch(event)
    }
}

/// Returns a sink whose tasks run on smol's executor.
fn on_smol<S: AsyncEventSink>(sink: S) -> AsyncSink<S, fn(Task)> {
    AsyncSink::new(sink, |operation| smol::spawn(operation).detach())
}

fn event(name: &str) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.to_owned().into();
    event.reason = "Started".into();
    event
}
