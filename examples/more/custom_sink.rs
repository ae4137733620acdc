//! A custom sink built on an asynchronous client. The sink's errors determine the recording's next
//! step, and `group` could identify tenants. The broadcaster has a dispatcher to absorb bursts.
//!
//! ```sh
//! cargo run -p more-examples --bin custom_sink
//! ```

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use eventcast::EventType::{Normal, Warning};
use eventcast::sink::{AsyncEventSink, AsyncSink, SinkErrorKind};
use eventcast::{Event, EventBroadcaster, EventType, ObjectReference, RetryPolicy, SinkError};
use tokio::runtime::Handle;

/// The store's error responses, as a client library would define them.
enum Failure {
    Busy { wait: Duration },
    Disconnected,
    NotFound,
    TooLarge,
}

/// The client and a simulated store, which fails the requests that a script specifies.
struct Client {
    requests: Mutex<(u64, BTreeMap<String, Event>)>,
}

impl Client {
    async fn put(&self, event: &Event, is_new: bool) -> Result<Event, Failure> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, stored) = &mut *requests;
        *number += 1;
        let name = event.metadata.name.to_string();
        match *number {
            2 => return Err(Failure::Busy { wait: Duration::from_millis(20) }),
            5 => return Err(Failure::Disconnected),
            // The stored event has expired.
            8 => _ = stored.remove(&name),
            _ => {}
        }
        if event.message.len() > 1024 {
            return Err(Failure::TooLarge);
        }
        if !is_new && !stored.contains_key(&name) {
            return Err(Failure::NotFound);
        }
        stored.insert(name, event.clone());
        Ok(event.clone())
    }
}

/// The sink, which is a separate type because the client usually belongs to another crate.
struct StoreSink(Arc<Client>);

impl StoreSink {
    async fn send(&self, event: &Event, is_new: bool) -> Result<Event, SinkError> {
        self.0.put(event, is_new).await.map_err(|failure| match failure {
            // This event may be stored later. The recording waits for the requested time.
            Failure::Busy { wait } => SinkError::retry("the store is busy").with_retry_after(wait),
            // No other event would succeed now either, so all events wait in the queue.
            Failure::Disconnected => SinkError::new(SinkErrorKind::Unavailable, "the connection is lost"),
            // The recording creates the event again, with the total count.
            Failure::NotFound => SinkError::new(SinkErrorKind::NotFound, "the event has expired"),
            // This event will never be stored, so the recording drops it and counts the loss.
            Failure::TooLarge => SinkError::rejected("message must be at most 1024 bytes"),
        })
    }
}

impl AsyncEventSink for StoreSink {
    async fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.send(event, true).await
    }

    /// Replaces the whole event when the event repeats. The store must not create an event here.
    async fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.send(event, false).await
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Arc::new(Client { requests: Mutex::default() });
    let events = EventBroadcaster::builder()
        .retry(RetryPolicy::default().attempts(3).delay(Duration::from_millis(10)))
        .on_loss(|loss| eprintln!("lost: {loss}"))
        .build()?;
    let handle = Handle::current();
    // Spawns each operation as a task on the runtime.
    let sink = AsyncSink::new(StoreSink(client.clone()), move |operation| drop(handle.spawn(operation)));
    let recording = events.recording().name("store").start(sink)?;

    let recorder = events.recorder("custom_sink");
    let disk = ObjectReference::new("Disk", "sda");
    let full = |_| (Warning, "AlmostFull", "97 % are used".to_owned());
    let mut happened: Vec<(EventType, &str, String)> = (0..4).map(full).collect();
    happened.insert(0, (Normal, "Mounted", "mounted on /".to_owned()));
    happened.insert(4, (Warning, "Smart", "0".repeat(2000)));
    for (type_, reason, message) in happened {
        recorder.event(&disk, type_, reason, message);
        // Flush so that each request encounters the failure that the script specifies for it.
        events.flush_async(Duration::from_secs(30)).await?;
    }
    // Await the shutdown. Blocking the thread could stop the runtime that the sink needs.
    let report = events.shutdown_async(Duration::from_secs(30)).await;
    let stats = recording.stats();
    assert!(report.complete && stats.handled() == report.bus.accepted);
    let row = |e: &Event| format!("{} x {} {}: {}\n", e.count, e.involved_object, e.reason, e.message);
    let stored = client.requests.lock().unwrap_or_else(PoisonError::into_inner);
    let text = stored.1.values().map(row).collect::<String>() + &format!("{stats:#}\n");
    // It is not an error if the program that reads the output stops early, as in `| head -1`.
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
