//! A web service that sends messages to all its clients as server-sent events. A client that
//! reconnects sends the id of the last message it saw. It then receives the later messages, and the
//! number of any that the bus has discarded. Here, the program is its own client, so it terminates.
//!
//! ```sh
//! cargo run -p more-examples --bin sse
//! ```
//!
//! Each client has a watcher, whose queue is read by the task that writes to the connection, so a
//! client does not need a thread. A slow client is evicted, and reconnects with the id of its last
//! message. The bus keeps recent messages. The dispatcher, not a request, wakes the clients.

use std::convert::Infallible;
use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::{get, post};
use eventcast::bus::Start;
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy};
use futures::{Stream, stream};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

type Text = Arc<str>;

struct Service {
    bus: Broadcaster<Text>,
    /// Identifies this run of the program. In another run, a position refers to another message.
    run: u128,
}

impl Service {
    /// Starts a bus that keeps three messages for reconnecting clients. A real service keeps more.
    fn new() -> Result<Self, Box<dyn Error>> {
        let options = BusOptions::default().history(3).queue_capacity(100).overflow(OverflowPolicy::Evict);
        let run = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos();
        Ok(Self { bus: Broadcaster::with_options(options)?, run })
    }

    /// Returns where a client with the given id starts. An id is a message's run and position. With
    /// an id from an earlier run or an invalid id, a client receives all retained messages.
    fn start(&self, id: &str) -> Start {
        let position = id.split_once('/').filter(|(run, _)| run.parse() == Ok(self.run));
        position.and_then(|(_, position)| position.parse().ok()).map_or(Start::Oldest, Start::After)
    }
}

async fn publish(State(service): State<Arc<Service>>, text: String) -> Result<(), StatusCode> {
    let published = service.bus.publisher().publish_async(text.into()).await;
    published.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)
}

async fn events(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, StatusCode> {
    // A browser sends this header when it reconnects.
    let (id, run) = (headers.get("last-event-id").and_then(|id| id.to_str().ok()), service.run);
    let start = id.map_or(Start::Next, |id| service.start(id));
    let watcher = service.bus.watch_builder().start(start).watch();
    let watcher = watcher.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    let events = stream::unfold(watcher, move |mut watcher| async move {
        let event = match watcher.recv_async().await.ok()? {
            Delivery::Event(text) => Event::default().data(text),
            Delivery::Lagged(missing) => Event::default().event("gap").data(format!("{missing} missing")),
        };
        Some((Ok(event.id(format!("{run}/{}", watcher.position().unwrap_or(0)))), watcher))
    });
    // Periodic comments make it possible to detect silently broken connections.
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let service = Arc::new(Service::new()?);
    let app = axum::Router::new().route("/events", get(events)).route("/publish", post(publish));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(axum::serve(listener, app.with_state(service.clone())).into_future());

    let say = async |text: &str| publish(State(service.clone()), text.to_owned()).await;
    say("one").await.and(say("two").await).and(say("three").await).map_err(|status| status.to_string())?;
    let id = |position| format!("{}/{position}", service.run);
    let (before, last) = receive(address, &id(0), 2).await?;
    assert_eq!(last, id(2));
    // The client disconnected after two of three messages. Two messages follow before it returns.
    say("four").await.and(say("five").await).map_err(|status| status.to_string())?;
    let (after, _) = receive(address, &last, 3).await?;
    assert_eq!([&before[..], &after].concat(), ["one", "two", "three", "four", "five"]);
    // A client that returns after messages have been discarded learns how many messages it missed.
    let (late, _) = receive(address, &id(0), 4).await?;
    assert_eq!(late, ["2 missing", "three", "four", "five"]);
    // The bus ends first, which ends all clients' streams and leaves the server idle.
    assert!(service.bus.shutdown_async(Duration::from_secs(5)).await.complete);
    server.abort();
    match writeln!(io::stdout(), "first: {before:?}, then after 2: {after:?}, and much later: {late:?}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()), // the reader may stop early, as in `| head -1`
    }
}

/// Connects as a client that has seen the given id. Returns the next messages and the last id.
async fn receive(address: SocketAddr, seen: &str, count: usize) -> io::Result<(Vec<String>, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /events HTTP/1.1\r\nHost: {address}\r\nLast-Event-ID: {seen}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let (mut lines, mut texts, mut last) = (BufReader::new(stream).lines(), Vec::new(), String::new());
    while texts.len() < count || last.is_empty() {
        let Some(line) = lines.next_line().await? else { break };
        texts.extend(line.strip_prefix("data: ").map(str::to_owned));
        last = line.strip_prefix("id: ").filter(|_| texts.len() == count).unwrap_or(&last).to_owned();
    }
    Ok((texts, last))
}
