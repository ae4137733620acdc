//! Tests the positions, gaps and filters of the incoming side, and messages from other programs.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::stream::Config;
use eventcast::stats::RemoteState;
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy, Watcher};
use eventcast_nats::{FilePosition, MemoryPosition, NatsSubscriber, Overflow, Start, StreamOptions};
use futures::executor::block_on;
use test_support::LONG;

use crate::admin::Admin;
use crate::outgoing::in_place;
use crate::reading::{Remote, by_tens, by_three, ended, eventually, lossless, out, publish, reader};
use crate::server::Server;

fn by_hand(url: &str) -> Admin {
    let admin = Admin::new(url);
    admin.create(Config {
        name: "EVENTS".to_owned(),
        subjects: vec!["events".to_owned(), "events.>".to_owned()],
        ..Default::default()
    });
    admin
}

pub(crate) fn a_new_reader_receives_events_once_it_is_ready() {
    let server = Server::start("");
    let bus = lossless();
    let out = out(&server.url()).attach(&bus).unwrap();
    publish(&bus, &out, 0..100);
    let mut remote = Remote::new(reader(&server.url()).start(Start::New));
    assert!(remote.subscriber.ready(LONG));
    publish(&bus, &out, 100..200);
    remote.receive_exactly(100..200);
    remote.ends_here();
}

pub(crate) fn a_reader_without_a_bus_gets_events_with_their_places() {
    let server = Server::start("");
    let bus = lossless();
    let out = out(&server.url()).attach(&bus).unwrap();
    publish(&bus, &out, 0..300);
    bus.publisher().publish_gap(5).unwrap();
    publish(&bus, &out, 305..310);
    let mut watcher = reader(&server.url()).watch().unwrap();
    let mut next = 0;
    while next < 310 {
        match block_on(watcher.recv_async()).unwrap() {
            Delivery::Event(remote) => {
                assert_eq!((remote.event, remote.position, &*remote.origin), (next, next, out.origin()));
                assert!(remote.stream_sequence > 0 && remote.at.elapsed().is_ok());
                next += 1;
            }
            Delivery::Lagged(missing) => next += missing,
        }
    }
    assert!(watcher.try_recv().is_none());
    eventually(|| (watcher.subscriber().stats().events, watcher.subscriber().stats().gaps) == (305, 5));
}

pub(crate) fn a_filter_sees_its_own_gaps_exactly() {
    let server = Server::start("");
    let admin = Admin::new(&server.url());
    let bus = lossless();
    let out = out(&server.url()).subject(by_three).attach(&bus).unwrap();
    let mut remote = Remote::new(reader(&server.url()).filter("events.b"));
    publish(&bus, &out, 0..300);
    let seen = remote.receive(100);
    assert!(seen.iter().zip(0..).all(|(delivery, n)| *delivery == Delivery::Event(n * 3 + 1)));
    // A full bus makes the reader wait, and the stream loses its messages in the meantime.
    let (_here, subscriber, mut watcher) = stuck(&server.url(), Some("events.b"));
    eventually(|| watcher.len() == 10);
    admin.purge("EVENTS");
    publish(&bus, &out, 300..330);
    let deliveries = receive(&mut watcher, 110);
    let numbered = deliveries.into_iter().map(|delivery| match delivery {
        Delivery::Event(event) => Delivery::Event((event - 1) / 3),
        gap @ Delivery::Lagged(_) => gap,
    });
    in_place(&numbered.collect::<Vec<_>>());
    let stats = ended(&subscriber);
    assert!(stats.gaps > 50 && stats.events + stats.gaps == 110, "{stats}");
}

pub(crate) fn a_restored_filter_reports_the_losses_of_its_subjects() {
    let server = Server::start("");
    let admin = Admin::new(&server.url());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("position.json");
    let bus = lossless();
    let out = out(&server.url()).subject(by_tens).attach(&bus).unwrap();
    let again = || Remote::new(reader(&server.url()).filter("events.b").resume(FilePosition::new(&file)));
    publish(&bus, &out, 0..300);
    let mut remote = again();
    remote.receive(100);
    remote.ends_here();
    for round in 1..=3 {
        // Of each 30 events, ten are for this reader. The stream loses the first 30 events.
        let first = 300 * round;
        publish(&bus, &out, first..first + 30);
        admin.purge("EVENTS");
        publish(&bus, &out, first + 30..first + 60);
        let mut remote = again();
        assert_eq!(remote.receive(20)[0], Delivery::Lagged(10), "round {round}");
        publish(&bus, &out, first + 60..first + 300);
        remote.receive(80);
        remote.ends_here();
    }
}

/// Returns a bus that is soon full, the reader that publishes on this bus, and a watcher from which
/// the caller does not receive at first.
fn stuck(url: &str, filter: Option<&str>) -> (Broadcaster<u64>, NatsSubscriber, Watcher<u64>) {
    let narrow = BusOptions::default().overflow(OverflowPolicy::Wait).incoming_capacity(1).max_batch(10);
    let here = Broadcaster::with_options(narrow).unwrap();
    let watcher = here.watch_builder().queue_capacity(10).watch().unwrap();
    let few = reader(url).configure(|options| {
        options.max_messages = 2;
        options.filter = filter.map(str::to_owned);
    });
    let subscriber = few.attach(&here.publisher()).unwrap();
    (here, subscriber, watcher)
}

/// Receives until the number of events and gaps reaches `total`.
fn receive(watcher: &mut Watcher<u64>, total: u64) -> Vec<Delivery<u64>> {
    let (mut seen, mut deliveries) = (0, Vec::new());
    while seen < total {
        let delivery = watcher.recv_timeout(LONG).unwrap();
        seen += if let Delivery::Lagged(missing) = delivery { missing } else { 1 };
        deliveries.push(delivery);
    }
    assert_eq!(seen, total);
    deliveries
}

/// The messages have one event each, so the reader puts several of them into the bus together.
pub(crate) fn a_stop_between_messages_of_a_batch_loses_and_repeats_nothing() {
    let server = Server::start("");
    let (bus, store) = (lossless(), MemoryPosition::default());
    let out = out(&server.url()).subject(by_three).attach(&bus).unwrap();
    publish(&bus, &out, 0..300);
    let narrow = BusOptions::default().overflow(OverflowPolicy::Wait).incoming_capacity(1).max_batch(10);
    let here = Broadcaster::with_options(narrow).unwrap();
    let mut watcher = here.watch_builder().queue_capacity(10).watch().unwrap();
    let subscriber = reader(&server.url()).resume(store.clone()).attach(&here.publisher()).unwrap();
    eventually(|| watcher.len() == 10);
    let stats = ended(&subscriber);
    assert!((10..300).contains(&stats.events), "{stats}");
    for event in 0..stats.events {
        assert_eq!(watcher.recv_timeout(LONG).unwrap(), Delivery::Event(event), "{stats}");
    }
    here.flush(LONG).unwrap();
    assert!(watcher.try_recv().is_err(), "{stats}");
    let mut remote = Remote::new(reader(&server.url()).resume(store));
    remote.receive_exactly(stats.events..300);
    remote.ends_here();
}

pub(crate) fn a_purge_while_reading_is_a_gap() {
    let server = Server::start("");
    let admin = Admin::new(&server.url());
    let bus = lossless();
    let out = out(&server.url()).configure(|options| options.max_batch = 10).attach(&bus).unwrap();
    let (_here, subscriber, mut watcher) = stuck(&server.url(), None);
    publish(&bus, &out, 0..1000);
    eventually(|| watcher.len() == 10);
    admin.purge("EVENTS");
    publish(&bus, &out, 1000..1010);
    in_place(&receive(&mut watcher, 1010));
    let stats = ended(&subscriber);
    assert_eq!(stats.events + stats.gaps, 1010, "{stats}");
    assert!(stats.gaps > 500 && stats.missing_messages > 50, "{stats}");
}

pub(crate) fn retention_takes_a_gap_of_the_exact_size() {
    let server = Server::start("");
    let mut stream = StreamOptions::default();
    stream.max_messages = 100;
    let bus = lossless();
    let store = MemoryPosition::default();
    let out = out(&server.url()).ensure_stream("EVENTS", stream).configure(|options| options.max_batch = 1);
    let out = out.attach(&bus).unwrap();
    publish(&bus, &out, 0..50);
    let mut remote = Remote::new(reader(&server.url()).resume(store.clone()));
    remote.receive_exactly(0..50);
    remote.ends_here();
    publish(&bus, &out, 50..300);
    let mut remote = Remote::new(reader(&server.url()).resume(store));
    let deliveries = remote.receive(250);
    assert_eq!(deliveries[..2], [Delivery::Lagged(150), Delivery::Event(200)]);
    remote.ends_here();
}

pub(crate) fn a_start_before_the_first_message_is_a_gap() {
    let server = Server::start("");
    let mut stream = StreamOptions::default();
    stream.max_messages = 50;
    let bus = lossless();
    let out = out(&server.url()).ensure_stream("EVENTS", stream).configure(|options| options.max_batch = 1);
    let out = out.attach(&bus).unwrap();
    publish(&bus, &out, 0..200);
    let mut remote = Remote::new(reader(&server.url()).start(Start::Sequence(51)));
    let deliveries = remote.receive(150);
    assert_eq!(deliveries[..2], [Delivery::Lagged(100), Delivery::Event(150)]);
    for (start, first) in
        [(Start::Last, 199), (Start::LastPerSubject, 199), (Start::All, 150), (Start::Since(1), 150)]
    {
        let mut remote = Remote::new(reader(&server.url()).start(start));
        assert_eq!(remote.watcher.recv_timeout(LONG).unwrap(), Delivery::Event(first), "{start:?}");
    }
}

pub(crate) fn fifty_restarts_at_random_times_lose_and_repeat_nothing() {
    let server = Server::start("");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("position.json");
    let bus = lossless();
    let out = out(&server.url()).subject(by_three).attach(&bus).unwrap();
    let total = 20_000;
    let publisher = bus.publisher();
    let writer = std::thread::spawn(move || publisher.publish_batch(0..total).unwrap());
    let mut next = 0;
    for round in 0..50 {
        let mut remote = Remote::new(reader(&server.url()).resume(FilePosition::new(&file)));
        let until = (total * (round + 1) / 50).min(total);
        while next < until {
            assert_eq!(remote.watcher.recv_timeout(LONG).unwrap(), Delivery::Event(next));
            next += 1;
        }
        assert!(remote.subscriber.shutdown_timeout(LONG));
        // Before the next reader begins, the test receives all events that the bus has accepted.
        remote.bus.close();
        for delivery in remote.watcher {
            assert_eq!(delivery, Delivery::Event(next));
            next += 1;
        }
    }
    writer.join().unwrap();
    drop(out);
    let mut remote = Remote::new(reader(&server.url()).resume(FilePosition::new(&file)));
    remote.receive_exactly(next..total);
    remote.ends_here();
}

pub(crate) fn a_slow_bus_makes_the_server_keep_the_rest() {
    let server = Server::start("");
    let bus = lossless();
    let out = out(&server.url()).attach(&bus).unwrap();
    publish(&bus, &out, 0..50_000);
    let narrow = BusOptions::default().overflow(OverflowPolicy::Wait).incoming_capacity(1).max_batch(16);
    let here = Broadcaster::with_options(narrow).unwrap();
    let mut watcher = here.watch_builder().queue_capacity(16).watch().unwrap();
    let few = reader(&server.url()).configure(|options| options.max_messages = 4);
    let subscriber = few.attach(&here.publisher()).unwrap();
    eventually(|| watcher.len() == 16);
    // The reader has requested four messages, and holds at most four messages.
    assert!(subscriber.stats().messages <= 4, "{}", subscriber.stats());
    for event in 0..50_000 {
        assert_eq!(watcher.recv_timeout(LONG).unwrap(), Delivery::Event(event));
    }
    assert_eq!(subscriber.stats().restarts, 0);
}

pub(crate) fn a_bus_that_may_lose_gets_gaps_in_their_place() {
    let server = Server::start("");
    let bus = lossless();
    let out = out(&server.url()).attach(&bus).unwrap();
    publish(&bus, &out, 0..5000);
    let narrow = BusOptions::default().overflow(OverflowPolicy::Wait).incoming_capacity(2).max_batch(16);
    let here = Broadcaster::with_options(narrow).unwrap();
    let mut watcher = here.watch_builder().queue_capacity(16).watch().unwrap();
    let drops = reader(&server.url()).configure(|options| options.overflow = Overflow::Drop);
    let subscriber = drops.attach(&here.publisher()).unwrap();
    eventually(|| subscriber.stats().events + subscriber.stats().gaps == 5000);
    in_place(&receive(&mut watcher, 5000));
    assert!(subscriber.stats().dropped > 0);
}

pub(crate) fn messages_of_others_are_passed_over_or_become_gaps() {
    let server = Server::start("");
    let admin = by_hand(&server.url());
    let mut remote = Remote::new(reader(&server.url()));
    admin.put("events", HeaderMap::new(), b"foreign");
    admin.put_event("events", 0, &["0"], &[]);
    admin.put_event("events", 1, &["1", "not a number", "3"], &[]);
    admin.put_event("events", 4, &["4"], &[("Eventcast-Codec", "other/1")]);
    admin.put_event("events", 5, &["555"], &[("Eventcast-Count", "3")]);
    for (name, value) in [
        ("Eventcast-First", "-1"),
        ("Eventcast-First", "18446744073709551615"),
        ("Eventcast-Count", "18446744073709551615"),
        ("Eventcast-Count", "2"),
        ("Eventcast-Lost", "99999"),
        ("Eventcast-Origin", "a b"),
        ("Eventcast-Origin", &"x".repeat(60_000)),
    ] {
        admin.put_event("events", 8, &["8"], &[(name, value)]);
    }
    admin.put_event("events", 8, &["8"], &[]);
    let expected = [
        Delivery::Event(0),
        Delivery::Event(1),
        Delivery::Lagged(1),
        Delivery::Event(3),
        Delivery::Lagged(4),
        Delivery::Event(8),
    ];
    assert_eq!(merged(remote.receive(9)), expected);
    let stats = remote.ends_here();
    assert_eq!((stats.foreign, stats.malformed, stats.undecodable), (1, 7, 5), "{stats}");
}

/// Merges consecutive gaps into one gap. A fast watcher receives the gaps individually.
fn merged(deliveries: Vec<Delivery<u64>>) -> Vec<Delivery<u64>> {
    let mut merged: Vec<Delivery<u64>> = Vec::new();
    for delivery in deliveries {
        match (merged.last_mut(), delivery) {
            (Some(Delivery::Lagged(before)), Delivery::Lagged(missing)) => *before += missing,
            (_, delivery) => merged.push(delivery),
        }
    }
    merged
}

/// The numbers in the messages are the largest numbers that a reader accepts, so their sum would
/// overflow any counter.
pub(crate) fn no_sum_of_hostile_numbers_overflows() {
    let server = Server::start("");
    let admin = by_hand(&server.url());
    let bus = lossless();
    let subscriber = reader(&server.url()).attach(&bus.publisher()).unwrap();
    let large = (u64::MAX / 4).to_string();
    for n in 0..8 {
        let origin = format!("hostile{n}");
        let names = ["Eventcast-First", "Eventcast-Lost", "Eventcast-Subject-First"];
        let hostile = names.map(|name| (name, large.as_str()));
        let hostile = [&hostile[..], &[("Eventcast-Origin", &origin)]].concat();
        admin.put_event("events", 0, &["0"], &hostile);
    }
    eventually(|| subscriber.stats().messages == 8);
    assert_eq!((subscriber.stats().events, subscriber.stats().gaps), (8, u64::MAX));
    // The bus itself counts gaps up to a limit, and events continue to arrive.
    bus.flush(LONG).unwrap();
    let mut watcher = bus.watch().unwrap();
    admin.put_event("events", 0, &["7"], &[]);
    assert_eq!(watcher.recv_timeout(LONG).unwrap(), Delivery::Event(7));
}

pub(crate) fn a_consumer_that_is_deleted_is_made_again() {
    let server = Server::start("");
    let bus = lossless();
    let out = out(&server.url()).attach(&bus).unwrap();
    let mut remote = Remote::new(reader(&server.url()));
    publish(&bus, &out, 0..100);
    remote.receive_exactly(0..100);
    Admin::new(&server.url()).delete_consumers("EVENTS");
    publish(&bus, &out, 100..200);
    remote.receive_exactly(100..200);
    assert!(remote.subscriber.stats().restarts > 0);
    remote.ends_here();
}

pub(crate) fn a_reader_without_permission_reports_it() {
    let server = Server::start(
        "authorization { users = [ { user: u, password: p, permissions: { publish: { deny: \"$JS.API.>\" } } } ] }\n",
    );
    let url = format!("nats://u:p@127.0.0.1:{}", server.port());
    let remote = Remote::new(reader(&url));
    eventually(|| remote.subscriber.status().state == RemoteState::Refused);
    let status = remote.subscriber.status().to_string();
    assert!(status.starts_with("refused: Permissions Violation for Publish to \"$JS.API."), "{status}");
    remote.ends_here();
}

pub(crate) fn a_reader_waits_for_a_server_that_starts_late() {
    let mut server = Server::start("");
    let url = server.url();
    server.kill();
    let mut remote = Remote::new(reader(&url));
    assert!(!remote.subscriber.ready(Duration::from_millis(50)));
    server.restart();
    let bus = lossless();
    let out = out(&url).attach(&bus).unwrap();
    publish(&bus, &out, 0..10);
    remote.receive_exactly(0..10);
}
