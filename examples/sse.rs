//! A web service that sends texts to all its clients, as server-sent events. A client that comes
//! back says what it saw last, and gets the rest, or learns how many texts are gone.
//!
//! ```sh
//! cargo run --example sse
//! ```
//!
//! Each client is a watcher with its own queue. The task that writes to the client's connection
//! reads this queue, so a client needs no thread and no copy of the texts. A client that reads too
//! slowly loses events, delays nobody, and sees how many are missing. The program is its own
//! client here, so that it ends.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::{get, post};
use eventcast::{Broadcaster, Delivery};
use futures::{Stream, StreamExt};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

/// The number of texts that are kept for clients that come back. A real service keeps more.
const KEPT: usize = 3;

/// A text with its number, counted from 1 without a hole.
type Text = Arc<(u64, String)>;

struct Service {
    bus: Broadcaster<Text>,
    kept: Mutex<VecDeque<Text>>,
}

/// Publishes a text and keeps it. The lock makes one step of the two. If the client disconnects
/// while the publish waits for room, the text is neither published nor kept.
async fn publish(State(service): State<Arc<Service>>, text: String) -> Result<String, StatusCode> {
    let mut kept = service.kept.lock().await;
    let id = kept.back().map_or(1, |text| text.0 + 1);
    let text = Arc::new((id, text));
    let published = service.bus.publisher().publish_async(text.clone()).await;
    published.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    kept.push_back(text);
    if kept.len() > KEPT {
        kept.pop_front();
    }
    Ok(format!("{id}\n"))
}

async fn events(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, StatusCode> {
    // A browser sends this header when it connects again.
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse::<u64>().ok());
    let seen = seen.unwrap_or(0);
    // The lock is held until the watcher is registered, so no text is missing between the two.
    let kept = service.kept.lock().await;
    let gap = kept.front().map_or(0, |oldest| oldest.0.saturating_sub(seen + 1));
    let rest: Vec<Text> = kept.iter().filter(|text| text.0 > seen).cloned().collect();
    let watcher = service.bus.watch_builder().prefix(rest).watch_async().await;
    let watcher = watcher.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    drop(kept);
    let forgotten = (gap > 0).then_some(Delivery::Lagged(gap));
    let events = futures::stream::iter(forgotten).chain(watcher).map(|delivery| {
        Ok(match delivery {
            Delivery::Event(text) => Event::default().id(text.0.to_string()).data(&text.1),
            Delivery::Lagged(missing) => Event::default().event("gap").data(format!("{missing} missing")),
        })
    });
    // A comment now and then reveals connections that have broken silently.
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let service = Arc::new(Service { bus: Broadcaster::new()?, kept: Mutex::default() });
    let app = axum::Router::new().route("/events", get(events)).route("/publish", post(publish));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(axum::serve(listener, app.with_state(service.clone())).into_future());

    let say = async |text: &str| publish(State(service.clone()), text.to_owned()).await;
    say("one").await.and(say("two").await).and(say("three").await).map_err(|status| status.to_string())?;
    let before = receive(address, 0, 2).await?;
    // The client has gone with two of three texts. Two more come while it is away.
    say("four").await.and(say("five").await).map_err(|status| status.to_string())?;
    let after = receive(address, 2, 3).await?;
    assert_eq!([&before[..], &after].concat(), ["one", "two", "three", "four", "five"]);
    // A client that was away for longer than texts are kept learns how many it has missed.
    let late = receive(address, 0, 4).await?;
    assert_eq!(late, ["2 missing", "three", "four", "five"]);
    writeln!(io::stdout(), "first: {before:?}, then after 2: {after:?}, and much later: {late:?}")?;

    // The bus ends first, so the streams of all clients end, and then the server has nothing to do.
    assert!(service.bus.shutdown_async(Duration::from_secs(5)).await.complete);
    server.abort();
    Ok(())
}

/// Connects as a client that has seen this id, and returns the next texts.
async fn receive(address: SocketAddr, seen: u64, count: usize) -> io::Result<Vec<String>> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /events HTTP/1.1\r\nHost: {address}\r\nLast-Event-ID: {seen}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let (mut lines, mut texts) = (BufReader::new(stream).lines(), Vec::new());
    while texts.len() < count {
        let Some(line) = lines.next_line().await? else { break };
        texts.extend(line.strip_prefix("data: ").map(str::to_owned));
    }
    Ok(texts)
}
