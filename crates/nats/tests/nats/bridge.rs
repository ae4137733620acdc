//! Tests two processes that share the events on their buses. Two buses in one process simulate the
//! two processes.

use eventcast::{Broadcaster, Delivery};
use eventcast_nats::{NatsBridge, Routed, StreamOptions, Subject};
use test_support::LONG;

use crate::admin::Admin;
use crate::reading::eventually;
use crate::server::Server;

pub(crate) fn two_buses_share_their_events_without_a_loop() {
    let server = Server::start("");
    let buses = [(); 2].map(|()| Broadcaster::<Routed<u64>>::new().unwrap());
    let mut watchers = [0, 1].map(|n: usize| buses[n].watch_builder().queue_capacity(4096).watch().unwrap());
    let bridges = [0, 1].map(|n: usize| {
        NatsBridge::builder(&server.url(), "EVENTS", StreamOptions::default())
            .subject(|event| Subject::new("events").token(if *event < 1000 { "a" } else { "b" }))
            .attach(&buses[n])
            .unwrap()
    });
    // The stream is created by the outgoing sides.
    for bridge in &bridges {
        assert!(bridge.reader().ready(LONG));
    }
    buses[0].publisher().publish_batch((0..500).map(Routed::local)).unwrap();
    buses[1].publisher().publish_batch((1000..1500).map(Routed::local)).unwrap();
    for (n, watcher) in watchers.iter_mut().enumerate() {
        let mut seen: Vec<(u64, Option<String>)> = Vec::new();
        while seen.len() < 1000 {
            let Delivery::Event(event) = watcher.recv_timeout(LONG).unwrap() else { panic!("a gap") };
            seen.push((event.event, event.origin.as_deref().map(str::to_owned)));
        }
        let other = bridges[1 - n].out().origin().to_owned();
        for (event, origin) in &seen {
            let is_own = (*event < 1000) == (n == 0);
            assert_eq!(*origin, (!is_own).then(|| other.clone()), "{event}");
        }
        seen.sort();
        assert!(seen.iter().map(|(event, _)| *event).eq((0..500).chain(1000..1500)));
    }
    // Both readers have read everything, so nothing more can arrive.
    let stored = Admin::new(&server.url()).state("EVENTS").last_sequence;
    for (bridge, watcher) in bridges.iter().zip(&mut watchers) {
        eventually(|| bridge.reader().stats().sequence >= stored);
        assert_eq!((bridge.reader().stats().events, bridge.reader().stats().own), (500, 500));
        eventually(|| bridge.out().stats().acknowledged == 500);
        assert!(watcher.try_recv().is_err());
        assert!(bridge.shutdown_timeout(LONG).complete);
    }
}
