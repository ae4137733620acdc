//! Tests the bridge with three servers that form a cluster on this machine.

use std::time::Duration;

use eventcast_nats::{NatsPublisher, NatsSubscriber, Start, StreamOptions};
use test_support::LONG;

use crate::admin::Admin;
use crate::reading::{Remote, eventually, lossless, settle};
use crate::server::{Server, scale};

/// Three servers that are connected to each other.
struct Cluster {
    servers: Vec<Server>,
}

impl Cluster {
    fn start() -> Self {
        // The listeners keep the ports reserved until all three ports are known.
        let held: Vec<_> = (0..3).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> = held.iter().map(|held| held.local_addr().unwrap().port()).collect();
        drop(held);
        let routes: Vec<_> = ports.iter().map(|port| format!("nats-route://127.0.0.1:{port}")).collect();
        let settings = |n: usize| {
            format!(
                "server_name: n{n}\ncluster {{ name: c, listen: \"127.0.0.1:{}\", routes: [{}] }}\n",
                ports[n],
                routes.join(", ")
            )
        };
        Self { servers: (0..3).map(|n| Server::start(&settings(n))).collect() }
    }

    fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Server::url).collect()
    }
}

/// The leader of a stream with three copies is repeatedly killed and restarted.
pub(crate) fn a_cluster_continues_without_its_leader() {
    let mut cluster = Cluster::start();
    let total = 30_000 * scale();
    let mut stream = StreamOptions::default();
    stream.replicas = 3;
    let bus = lossless();
    let urls = cluster.urls();
    let out = NatsPublisher::builder(&urls[0]).ensure_stream("EVENTS", stream).configure(|options| {
        options.connection.servers.clone_from(&urls);
        options.overflow = eventcast::OverflowPolicy::Wait;
        options.ack_timeout = Duration::from_secs(2);
        options.retry.max = Duration::from_millis(500);
    });
    let out = out.attach(&bus).unwrap();
    let reader = NatsSubscriber::builder(&urls[0]).start(Start::All).configure(|options| {
        options.connection.servers.clone_from(&urls);
        options.heartbeat = Duration::from_millis(500);
    });
    let mut remote = Remote::new(reader);
    bus.publisher().publish(0).unwrap();
    settle(&bus, &out);
    let admin = Admin::new(&urls.join(","));
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| remote.receive_exactly(0..total));
        let mut next = 1;
        for kill in 1..4 {
            let (begin, end, publisher) = (next, total * kill / 3, bus.publisher());
            next = end;
            scope.spawn(move || {
                for event in begin..end {
                    publisher.publish(event).unwrap();
                }
            });
            eventually(|| out.stats().acknowledged > begin);
            let server = &mut cluster.servers[admin.leader("EVENTS")];
            server.kill();
            server.restart();
            // If a second server were lost now, there would be no majority.
            eventually(|| admin.is_whole("EVENTS"));
            eventually(|| out.stats().acknowledged == end);
        }
        reading.join().unwrap();
    });
    let stats = settle(&bus, &out);
    assert_eq!(stats.acknowledged, total, "{stats}");
    assert!(out.shutdown_timeout(LONG).complete);
    assert_eq!(remote.ends_here().gaps, 0);
}
