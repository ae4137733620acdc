//! Measures the client alone.

use std::collections::VecDeque;
use std::future::IntoFuture;
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::{self, Context};
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

/// Publishes events with the given number of messages in flight. Returns the number of acknowledged
/// events per second.
pub(crate) fn publish(url: &str, storage: &str, window: usize, events: u64, size: usize) -> f64 {
    runtime().block_on(async {
        let context = context(url, "BARE", storage).await;
        let payload = bytes::Bytes::from(format!("\"{}\"", event(size)));
        let begin = Instant::now();
        let mut waiting = VecDeque::new();
        for _ in 0..events {
            if waiting.len() == window {
                let oldest: jetstream::context::PublishAckFuture = waiting.pop_front().unwrap();
                oldest.into_future().await.unwrap();
            }
            waiting.push_back(context.publish("bare", payload.clone()).await.unwrap());
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
