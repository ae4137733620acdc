//! The service: the requests of clients, and the answers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Query, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::routing::{get, post};
use eventcast::error::BuildError;
use eventcast::stats::BusStats;
use eventcast::{Broadcaster, BusOptions, Delivery};
use futures::{Stream, StreamExt};
use serde_json::json;
use tokio::sync::Mutex;

/// The longest text that may be published, in bytes.
const LONGEST_TEXT: usize = 64 * 1024;
/// The longest name of a topic, in bytes.
const LONGEST_TOPIC: usize = 100;
/// The number of topics that there may be. The newest text of each is kept for later clients.
const TOPICS: usize = 1000;

/// An event on the bus: a text on a topic. All clients share it.
pub(crate) struct Post {
    /// The number of the post, counted from 1 without a hole.
    id: u64,
    topic: String,
    text: String,
}

#[derive(Default)]
struct Latest {
    /// The id of the newest post, or 0 if there is none.
    id: u64,
    by_topic: BTreeMap<String, Arc<Post>>,
}

impl Latest {
    /// Returns what a client that connects now should know: the newest post of each topic, in the
    /// order of their publishing.
    fn posts(&self) -> Vec<Arc<Post>> {
        let mut posts: Vec<Arc<Post>> = self.by_topic.values().cloned().collect();
        posts.sort_by_key(|post| post.id);
        posts
    }
}

pub(crate) struct Service {
    pub(crate) bus: Broadcaster<Arc<Post>>,
    latest: Mutex<Latest>,
    /// The number of posts sent, counted here to be compared with what the bus says.
    sent: AtomicU64,
    gaps: AtomicU64,
}

impl Service {
    /// Creates a service whose clients may each be `queue_len` events behind.
    pub(crate) fn new(queue_len: usize) -> Result<Self, BuildError> {
        Ok(Self {
            bus: Broadcaster::with_options(BusOptions::default().queue_len(queue_len))?,
            latest: Mutex::default(),
            sent: AtomicU64::new(0),
            gaps: AtomicU64::new(0),
        })
    }

    pub(crate) fn routes(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/events", get(events))
            .route("/publish", post(publish))
            .route("/stats", get(stats))
            .layer(DefaultBodyLimit::max(LONGEST_TEXT))
            .with_state(self.clone())
    }

    /// Returns what became of every event, and whether it adds up. Call it after the last client
    /// has been disconnected.
    pub(crate) fn account(&self) -> (String, bool) {
        let BusStats { accepted, watchers, departed, .. } = self.bus.stats();
        // Relaxed: the runtime that counted them has ended.
        let (sent, gaps) = (self.sent.load(Ordering::Relaxed), self.gaps.load(Ordering::Relaxed));
        let published = self.latest.try_lock().map(|latest| latest.id).ok();
        let dropped = departed.dropped;
        let right = watchers.is_empty()
            && published == Some(accepted)
            && departed.offered == departed.delivered + dropped.total() + departed.queued
            && departed.queued == 0
            && departed.delivered == sent
            // A client that vanishes with a full queue has not learned of the last losses.
            && gaps <= dropped.incoming;
        let text = format!(
            "published {accepted}; offered to clients {} = sent {sent} + lost in gaps {} + not read {}",
            departed.offered,
            dropped.incoming,
            dropped.total() - dropped.incoming,
        );
        (text, right)
    }
}

type App = State<Arc<Service>>;
type Refusal = (StatusCode, String);

fn closing() -> Refusal {
    (StatusCode::SERVICE_UNAVAILABLE, "the service is closing\n".to_owned())
}

/// Sends the newest post of each topic, and then every post as it is published. A client that does
/// not keep up gets an event `gap` where events are missing, with their number. When a client
/// disconnects, its watcher is dropped with the stream.
async fn events(
    State(service): App,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Refusal> {
    let (watcher, known) = {
        // Held until the watcher is registered, so that nothing is published between the reading of
        // the posts and the registration.
        let latest = service.latest.lock().await;
        let builder = service.bus.watch_builder().name(&client.to_string()).prefix(latest.posts());
        (builder.watch_async().await.map_err(|_| closing())?, latest.id)
    };
    let stream = watcher.map(move |delivery| {
        Ok(match delivery {
            Delivery::Event(post) => {
                // Relaxed: counts. The posts of the prefix do not come through the bus.
                service.sent.fetch_add(u64::from(post.id > known), Ordering::Relaxed);
                let data = json!({"topic": post.topic, "text": post.text});
                sse::Event::default().id(post.id.to_string()).data(data.to_string())
            }
            Delivery::Lagged(lost) => {
                service.gaps.fetch_add(lost, Ordering::Relaxed);
                sse::Event::default().event("gap").data(lost.to_string())
            }
        })
    });
    // A comment now and then reveals connections that have broken silently.
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()))
}

/// Publishes the body on `?topic=`, and answers with its id. If the client disconnects before the
/// answer, either nothing was published, or the text was published and noted: never half of it.
async fn publish(
    State(service): App,
    Query(query): Query<BTreeMap<String, String>>,
    text: String,
) -> Result<impl IntoResponse, Refusal> {
    let topic = query.get("topic").map_or("default", String::as_str).to_owned();
    if topic.is_empty() || topic.len() > LONGEST_TOPIC {
        let why = format!("a topic has 1 to {LONGEST_TOPIC} bytes\n");
        return Err((StatusCode::BAD_REQUEST, why));
    }
    let mut latest = service.latest.lock().await;
    if latest.by_topic.len() >= TOPICS && !latest.by_topic.contains_key(&topic) {
        return Err((StatusCode::INSUFFICIENT_STORAGE, format!("there are {TOPICS} topics already\n")));
    }
    let post = Arc::new(Post { id: latest.id + 1, topic: topic.clone(), text });
    // If this task is dropped while it waits, nothing is published, and nothing is noted below.
    service.bus.publisher().publish_async(post.clone()).await.map_err(|_| closing())?;
    latest.id = post.id;
    latest.by_topic.insert(topic, post.clone());
    Ok((StatusCode::ACCEPTED, format!("{}\n", post.id)))
}

/// Returns what the bus has done so far, with one entry for each client that is connected.
async fn stats(State(service): App) -> Result<impl IntoResponse, Refusal> {
    let stats = service.bus.stats();
    let text = serde_json::to_string(&json!({"clients": stats.watchers.len(), "bus": stats}))
        .map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text))
}
