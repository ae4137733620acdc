//! Measures the client alone.

use std::collections::VecDeque;
use std::future::IntoFuture;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, Context};
use bytes::Bytes;
use eventcast_nats::{Codec, Json};
use futures::StreamExt;
use tokio::runtime::{Builder, Runtime};

/// Returns the text of an event.
pub(crate) fn event(length: usize) -> String {
    "abcdefgh".chars().cycle().take(length).collect()
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

async fn context(url: &str, stream: &str, storage: &str) -> Context {
    let context = jetstream::new(async_nats::connect(url).await.unwrap());
    let _ = context.delete_stream(stream).await;
    let storage = match storage {
        "memory" => jetstream::stream::StorageType::Memory,
        _ => jetstream::stream::StorageType::File,
    };
    let config = jetstream::stream::Config {
        name: stream.to_owned(),
        subjects: vec![stream.to_lowercase()],
        storage,
        ..Default::default()
    };
    context.create_stream(config).await.unwrap();
    context
}

/// Returns the same headers that the bridge sends, with a new message identity for each number.
fn headers(number: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", format!("abcdefghijklmnopqrstuv.{number}"));
    headers.insert("Eventcast-Origin", "abcdefghijklmnopqrstuv");
    headers.insert("Eventcast-Source", "host/bench");
    headers.insert("Eventcast-First", number.to_string());
    headers.insert("Eventcast-Count", "1");
    headers.insert("Eventcast-Subject-First", number.to_string());
    headers.insert("Eventcast-Codec", "json-lines/1");
    headers
}

/// Publishes an event, with the bridge's headers if the event has a number.
async fn send(
    context: &Context,
    subject: &'static str,
    payload: Bytes,
    number: Option<u64>,
) -> PublishAckFuture {
    let publish = PublishMessage::build().payload(payload);
    let publish = match number {
        Some(number) => publish.headers(headers(number)),
        None => publish,
    };
    context.send_publish(subject, publish).await.unwrap()
}

/// Publishes events with the given number of messages in flight, and with the bridge's headers if
/// `has_headers` is true. Returns the number of acknowledged events per second.
pub(crate) fn publish(
    url: &str,
    storage: &str,
    window: usize,
    (events, size): (u64, usize),
    has_headers: bool,
) -> f64 {
    runtime().block_on(async {
        let context = context(url, "BARE", storage).await;
        let payload = Bytes::from(format!("\"{}\"", event(size)));
        let begin = Instant::now();
        let mut waiting = VecDeque::new();
        for number in 0..events {
            if waiting.len() == window {
                let oldest: PublishAckFuture = waiting.pop_front().unwrap();
                oldest.into_future().await.unwrap();
            }
            let number = has_headers.then_some(number);
            waiting.push_back(send(&context, "bare", payload.clone(), number).await);
        }
        for sent in waiting {
            sent.await.unwrap();
        }
        events as f64 / begin.elapsed().as_secs_f64()
    })
}

/// Reads the stream of the bridge's events with an ordered consumer, and decodes the events if
/// `decodes` is true. Returns the number of events per second.
pub(crate) fn read(url: &str, events: u64, decodes: bool) -> f64 {
    let begin = Instant::now();
    runtime().block_on(async {
        let context = jetstream::new(async_nats::connect(url).await.unwrap());
        let stream = context.get_stream("EVENTS").await.unwrap();
        let consumer = stream.create_consumer(OrderedConfig::default()).await.unwrap();
        let mut messages = consumer.messages().await.unwrap();
        let mut seen = 0;
        while seen < events {
            let message = messages.next().await.unwrap().unwrap();
            let lines = message.payload.split(|byte| *byte == b'\n');
            seen += if decodes {
                let decoded: Vec<_> = lines.map(|line| Json.decode(line).unwrap()).collect();
                std::hint::black_box::<Vec<String>>(decoded).len() as u64
            } else {
                lines.count() as u64
            };
        }
        events as f64 / begin.elapsed().as_secs_f64()
    })
}

/// Returns a function that publishes an event and returns the time until the event is received.
pub(crate) fn lone(url: &str) -> impl FnMut() -> Duration {
    let runtime = runtime();
    let (context, mut messages) = runtime.block_on(async {
        let context = context(url, "LONE", "memory").await;
        let stream = context.get_stream("LONE").await.unwrap();
        let consumer = stream.create_consumer(OrderedConfig::default()).await.unwrap();
        (context, consumer.messages().await.unwrap())
    });
    move || {
        runtime.block_on(async {
            let begin = Instant::now();
            let sent = context.publish("lone", event(62).into()).await.unwrap();
            messages.next().await.unwrap().unwrap();
            let took = begin.elapsed();
            sent.await.unwrap();
            took
        })
    }
}

/// Like [`lone`], but the publisher and the consumer each have a thread and a connection, the
/// messages have the bridge's headers, and channels carry the events between these threads and the
/// caller.
pub(crate) fn lone_between_threads(url: &str) -> impl FnMut() -> Duration {
    let (events, mut queued) = tokio::sync::mpsc::unbounded_channel::<String>();
    let (received, arrivals) = mpsc::channel();
    let (ready, is_ready) = mpsc::channel();
    let url = url.to_owned();
    thread::spawn(move || {
        runtime().block_on(async {
            let context = context(&url, "APART", "memory").await;
            ready.send(url).unwrap();
            let mut number = 0;
            while let Some(event) = queued.recv().await {
                send(&context, "apart", event.into(), Some(number)).await.await.unwrap();
                number += 1;
            }
        });
    });
    let url = is_ready.recv().unwrap();
    thread::spawn(move || {
        runtime().block_on(async {
            let context = jetstream::new(async_nats::connect(&url).await.unwrap());
            let stream = context.get_stream("APART").await.unwrap();
            let consumer = stream.create_consumer(OrderedConfig::default()).await.unwrap();
            let mut messages = consumer.messages().await.unwrap();
            while received.send(messages.next().await.unwrap().unwrap()).is_ok() {}
        });
    });
    move || {
        let begin = Instant::now();
        events.send(event(62)).unwrap();
        arrivals.recv().unwrap();
        begin.elapsed()
    }
}
