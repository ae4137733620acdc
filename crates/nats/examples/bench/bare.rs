//! Measures the client alone.

use std::collections::VecDeque;
use std::future::IntoFuture;
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::{self, Context};
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

/// Reads the stream of the bridge's events, without decoding the events. Returns the number of
/// events per second.
pub(crate) fn read(url: &str, events: u64) -> f64 {
    runtime().block_on(async {
        let context = jetstream::new(async_nats::connect(url).await.unwrap());
        let stream = context.get_stream("EVENTS").await.unwrap();
        let begin = Instant::now();
        let consumer = stream.create_consumer(OrderedConfig::default()).await.unwrap();
        let mut messages = consumer.messages().await.unwrap();
        let mut seen = 0;
        while seen < events {
            let message = messages.next().await.unwrap().unwrap();
            seen += message.payload.split(|byte| *byte == b'\n').count() as u64;
        }
        events as f64 / begin.elapsed().as_secs_f64()
    })
}

pub(crate) fn latency(url: &str, rounds: u64) -> Vec<Duration> {
    runtime().block_on(async {
        let context = context(url, "LONE", "memory").await;
        let stream = context.get_stream("LONE").await.unwrap();
        let consumer = stream.create_consumer(OrderedConfig::default()).await.unwrap();
        let mut messages = consumer.messages().await.unwrap();
        let mut times = Vec::new();
        for _ in 0..rounds {
            let begin = Instant::now();
            let sent = context.publish("lone", event(62).into()).await.unwrap();
            messages.next().await.unwrap().unwrap();
            times.push(begin.elapsed());
            sent.await.unwrap();
        }
        times
    })
}
