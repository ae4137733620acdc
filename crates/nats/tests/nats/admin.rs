//! Performs an operator's actions, which are inspecting and changing streams, and storing messages
//! by hand.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::{Context, context::ContextBuilder, stream};
use futures::StreamExt;
use tokio::runtime::{Builder, Runtime};

/// A client of a server, for use outside of async tasks.
pub(crate) struct Admin {
    runtime: Runtime,
    context: Context,
}

impl Admin {
    /// Connects to the servers with these addresses, which are separated by commas.
    pub(crate) fn new(url: &str) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let context = runtime.block_on(async {
            let options = async_nats::ConnectOptions::new().retry_on_initial_connect();
            let servers = url.split(',').map(|url| url.parse::<async_nats::ServerAddr>().unwrap());
            let client = options.connect(servers.collect::<Vec<_>>()).await.unwrap();
            ContextBuilder::new().timeout(Duration::from_secs(20)).build(client)
        });
        Self { runtime, context }
    }

    pub(crate) fn create(&self, config: stream::Config) {
        self.runtime.block_on(self.context.create_stream(config)).unwrap();
    }

    pub(crate) fn delete(&self, stream: &str) {
        self.runtime.block_on(self.context.delete_stream(stream)).unwrap();
    }

    /// Returns the state of a stream.
    pub(crate) fn state(&self, stream: &str) -> stream::State {
        self.runtime.block_on(async {
            let mut stream = self.context.get_stream(stream).await.unwrap();
            stream.info().await.unwrap().state.clone()
        })
    }

    pub(crate) fn purge(&self, stream: &str) {
        self.runtime.block_on(async {
            self.context.get_stream(stream).await.unwrap().purge().await.unwrap();
        });
    }

    pub(crate) fn delete_consumers(&self, stream: &str) {
        self.runtime.block_on(async {
            let stream = self.context.get_stream(stream).await.unwrap();
            let names: Vec<_> = stream.consumer_names().collect().await;
            for name in names {
                stream.delete_consumer(&name.unwrap()).await.unwrap();
            }
        });
    }

    /// Returns the number of the server that leads a stream. The servers are `n0` to `n2`.
    pub(crate) fn leader(&self, stream: &str) -> usize {
        loop {
            let cluster = self.cluster(stream).and_then(|cluster| cluster.leader);
            if let Some(n) = cluster.and_then(|name| name.strip_prefix('n')?.parse().ok()) {
                return n;
            }
        }
    }

    /// Returns whether all copies of a stream are up to date with the leader.
    pub(crate) fn is_whole(&self, stream: &str) -> bool {
        let cluster = self.cluster(stream).filter(|cluster| cluster.leader.is_some());
        cluster.is_some_and(|cluster| {
            cluster.replicas.len() == 2 && cluster.replicas.iter().all(|copy| copy.current && !copy.offline)
        })
    }

    fn cluster(&self, stream: &str) -> Option<stream::ClusterInfo> {
        self.runtime.block_on(async {
            // A cluster without a leader does not respond.
            let asked = tokio::time::timeout(Duration::from_millis(500), self.context.get_stream(stream));
            asked.await.ok()?.ok()?.cached_info().cluster.clone()
        })
    }

    /// Stores a message by hand, and returns the message's number.
    pub(crate) fn put(&self, subject: &str, headers: HeaderMap, payload: &[u8]) -> u64 {
        let (subject, payload) = (subject.to_owned(), payload.to_vec());
        self.runtime.block_on(async {
            let sent = self.context.publish_with_headers(subject, headers, payload.into()).await.unwrap();
            sent.await.unwrap().sequence
        })
    }

    /// Stores an event in the same way as another process would.
    pub(crate) fn put_event(
        &self,
        subject: &str,
        first: u64,
        events: &[&str],
        more: &[(&'static str, &str)],
    ) -> u64 {
        let mut headers = HeaderMap::new();
        headers.insert("Eventcast-Origin", "byHand");
        headers.insert("Eventcast-First", first.to_string());
        headers.insert("Eventcast-Count", events.len().to_string());
        headers.insert("Eventcast-Codec", "json-lines/1");
        for (name, value) in more {
            headers.insert(*name, *value);
        }
        self.put(subject, headers, events.join("\n").as_bytes())
    }

    /// Returns all messages in a stream.
    pub(crate) fn messages(&self, stream: &str) -> Vec<StreamMessage> {
        let state = self.state(stream);
        self.runtime.block_on(async {
            let stream = self.context.get_stream(stream).await.unwrap();
            let mut messages = Vec::new();
            for sequence in state.first_sequence..=state.last_sequence {
                if let Ok(message) = stream.get_raw_message(sequence).await {
                    messages.push(message);
                }
            }
            messages
        })
    }
}
