//! Tests the messages, repeats, refusals and shutdown of the outgoing side.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::stream::Config;
use eventcast::stats::RemoteState;
use eventcast::{Broadcaster, Delivery, OverflowPolicy};
use eventcast_nats::{BuildError, Discard, NatsPublisher, OnFull, Start, StreamOptions, Subject};
use test_support::LONG;

use crate::admin::Admin;
use crate::reading::{Remote, by_three, eventually, lossless, out, publish, reader, settle};
use crate::server::Server;

pub(crate) fn ten_thousand_events_of_three_subjects_reach_two_readers() {
    let server = Server::start("");
    let bus = lossless();
    let out = out(&server.url()).subject(by_three).attach(&bus).unwrap();
    let mut readers = [(); 2].map(|()| Remote::new(reader(&server.url())));
    publish(&bus, &out, 0..10_000);
    for reader in &mut readers {
        reader.receive_exactly(0..10_000);
    }
    let report = out.shutdown_timeout(LONG);
    assert!(report.complete, "{report}");
    assert_eq!(report.stats.acknowledged, 10_000);
    for reader in readers {
        let stats = reader.ends_here();
        assert_eq!((stats.events, stats.gaps, stats.repeated), (10_000, 0, 0));
    }
}

pub(crate) fn messages_hold_many_events_with_headers_that_place_them() {
    let server = Server::start("");
    let admin = Admin::new(&server.url());
    let bus = lossless();
    let out = out(&server.url()).configure(|options| options.source = Some("here".to_owned()));
    let out = out.attach(&bus).unwrap();
    publish(&bus, &out, 0..1000);
    let origin = out.origin().to_owned();
    assert!(out.shutdown_timeout(LONG).complete);
    let messages = admin.messages("EVENTS");
    assert!(messages.len() < 100, "{} messages", messages.len());
    let header =
        |at: usize, name: &str| messages[at].headers.get(name).map(|value| value.as_str().to_owned());
    assert_eq!(header(0, "Eventcast-Origin"), Some(origin.clone()));
    assert_eq!(header(0, "Nats-Msg-Id"), Some(format!("{origin}.0")));
    assert_eq!(header(0, "Eventcast-Source").as_deref(), Some("here"));
    assert!(messages[0].payload.starts_with(b"0\n1\n"));
    let last = messages.len() - 1;
    assert_eq!(header(last, "Eventcast-End").as_deref(), Some("1"));
    assert_eq!(header(last, "Eventcast-First").as_deref(), Some("1000"));
}

pub(crate) fn the_server_recognises_a_repeat() {
    let server = Server::start("");
    let admin = Admin::new(&server.url());
    let bus = lossless();
    let out = out(&server.url()).attach(&bus).unwrap();
    publish(&bus, &out, 0..3);
    let first = admin.messages("EVENTS").remove(0);
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", first.headers.get("Nats-Msg-Id").unwrap().clone());
    assert_eq!(admin.put("events", headers, b"0"), 1);
    assert_eq!(admin.state("EVENTS").messages, 1);
}

/// Without a duplicate window, the stream contains each message twice, and the reader still
/// receives each event once.
pub(crate) fn a_repeat_outside_the_duplicate_window_is_skipped() {
    let server = Server::start("");
    let admin = Admin::new(&server.url());
    let mut remote = {
        let bus = lossless();
        let out = out(&server.url()).attach(&bus).unwrap();
        publish(&bus, &out, 0..500);
        Remote::new(reader(&server.url()))
    };
    remote.receive_exactly(0..500);
    for message in admin.messages("EVENTS") {
        let mut headers = HeaderMap::new();
        for (name, values) in message.headers.iter().filter(|(name, _)| name.to_string() != "Nats-Msg-Id") {
            headers.insert(name.clone(), values[0].clone());
        }
        admin.put("events", headers, &message.payload);
    }
    eventually(|| remote.subscriber.stats().repeated == 500);
    remote.ends_here();
}

pub(crate) fn an_outage_loses_only_events_beyond_the_queue() {
    let mut server = Server::start("");
    let url = server.url();
    let bus = lossless();
    let out = out(&url).configure(|options| {
        options.overflow = OverflowPolicy::DropIncoming;
        options.queue_capacity = 1000;
    });
    let out = out.attach(&bus).unwrap();
    let mut remote = Remote::new(reader(&url));
    publish(&bus, &out, 0..100);
    server.kill();
    for event in 100..20_000 {
        bus.publisher().publish(event).unwrap();
    }
    bus.flush(LONG).unwrap();
    server.restart();
    bus.publisher().publish(20_000).unwrap();
    let stats = settle(&bus, &out);
    assert!(stats.dropped >= 20_001 - 1000 - 100 - 4096, "{stats}");
    let deliveries = remote.receive(20_001);
    let missing: u64 =
        deliveries.iter().filter_map(|d| if let Delivery::Lagged(n) = d { Some(n) } else { None }).sum();
    assert_eq!((missing, stats.acknowledged), (stats.dropped, 20_001 - stats.dropped));
    in_place(&deliveries);
    remote.ends_here();
}

/// Checks that each event has the number that follows from the events and gaps before this event.
pub(crate) fn in_place(deliveries: &[Delivery<u64>]) {
    let mut next = 0;
    for delivery in deliveries {
        match delivery {
            Delivery::Event(event) => {
                assert_eq!(*event, next);
                next += 1;
            }
            Delivery::Lagged(missing) => next += missing,
        }
    }
}

pub(crate) fn a_loss_that_nothing_follows_is_reported() {
    let server = Server::start("");
    let bus = lossless();
    let out = out(&server.url()).attach(&bus).unwrap();
    let mut remote = Remote::new(reader(&server.url()));
    publish(&bus, &out, 0..2);
    bus.publisher().publish_gap(7).unwrap();
    assert_eq!(remote.receive(9).last(), Some(&Delivery::Lagged(7)));
    publish(&bus, &out, 9..10);
    assert_eq!(remote.receive(1), [Delivery::Event(9)]);
    remote.ends_here();
}

pub(crate) fn a_stream_created_late_receives_everything() {
    let server = Server::start("");
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    let bus = lossless();
    let out = out(&server.url())
        .configure(|options| options.ensure_stream = None)
        .on_status(move |status| heard.lock().unwrap().push((status.state, status.last_failure.clone())));
    let out = out.attach(&bus).unwrap();
    bus.publisher().publish_batch(0..500).unwrap();
    let no_subject = "no stream captures the subject events";
    eventually(|| out.status().failure() == Some(no_subject));
    let mut remote = Remote::new(reader(&server.url()));
    eventually(|| remote.subscriber.status().failure() == Some("there is no stream EVENTS"));
    assert_eq!(remote.subscriber.status().state, RemoteState::Refused);
    Admin::new(&server.url()).create(Config {
        name: "EVENTS".to_owned(),
        subjects: vec!["events".to_owned()],
        ..Default::default()
    });
    let stats = settle(&bus, &out);
    assert_eq!(stats.acknowledged, 500);
    remote.receive_exactly(0..500);
    let told = told.lock().unwrap();
    let refused = (RemoteState::Refused, Some(no_subject.to_owned()));
    assert_eq!(told[told.len() - 2..], [refused.clone(), (RemoteState::Ready, refused.1)]);
}

pub(crate) fn a_stream_that_is_deleted_is_created_again() {
    let server = Server::start("");
    let admin = Admin::new(&server.url());
    let bus = lossless();
    let out = out(&server.url()).attach(&bus).unwrap();
    let mut remote = Remote::new(reader(&server.url()));
    publish(&bus, &out, 0..100);
    remote.receive_exactly(0..100);
    admin.delete("EVENTS");
    publish(&bus, &out, 100..300);
    remote.receive_exactly(100..300);
    remote.ends_here();
}

pub(crate) fn a_full_stream_refuses_until_it_has_space() {
    let server = Server::start("");
    let admin = Admin::new(&server.url());
    let mut stream = StreamOptions::default();
    (stream.max_messages, stream.discard) = (3, Discard::New);
    let bus = lossless();
    let full = out(&server.url()).ensure_stream("EVENTS", stream).configure(|options| options.max_batch = 1);
    let out = full.attach(&bus).unwrap();
    bus.publisher().publish_batch(0..5).unwrap();
    let full = "the stream is full: maximum messages exceeded (code 503, error code 10077)";
    eventually(|| out.status().failure() == Some(full));
    assert_eq!((out.status().state, out.status().waiting), (RemoteState::Refused, 2));
    assert_eq!(out.stats().acknowledged, 3);
    admin.purge("EVENTS");
    assert_eq!(settle(&bus, &out).acknowledged, 5);
}

pub(crate) fn a_full_stream_may_cost_events() {
    let server = Server::start("");
    let admin = Admin::new(&server.url());
    let mut stream = StreamOptions::default();
    (stream.max_messages, stream.discard) = (3, Discard::New);
    let bus = lossless();
    let full = out(&server.url()).ensure_stream("EVENTS", stream).configure(|options| {
        options.max_batch = 1;
        options.on_full = OnFull::Drop;
    });
    let out = full.attach(&bus).unwrap();
    let mut remote = Remote::new(reader(&server.url()));
    publish(&bus, &out, 0..10);
    assert_eq!((out.stats().acknowledged, out.stats().refused), (3, 7));
    remote.receive_exactly(0..3);
    admin.purge("EVENTS");
    publish(&bus, &out, 10..11);
    assert_eq!(remote.receive(8), [Delivery::Lagged(7), Delivery::Event(10)]);
}

/// The last loss cannot be reported, because the stream accepts no more messages.
pub(crate) fn a_full_stream_does_not_keep_the_bridge_from_its_end() {
    let server = Server::start("");
    let mut stream = StreamOptions::default();
    (stream.max_messages, stream.discard) = (2, Discard::New);
    let bus = lossless();
    let full = out(&server.url()).ensure_stream("EVENTS", stream).configure(|options| {
        options.max_batch = 1;
        options.on_full = OnFull::Drop;
    });
    let out = full.attach(&bus).unwrap();
    bus.publisher().publish_batch(0..10).unwrap();
    drop(bus);
    assert!(out.join(LONG));
    assert_eq!((out.stats().acknowledged, out.stats().refused), (2, 8));
}

pub(crate) fn what_no_message_can_hold_is_lost_in_its_place() {
    let server = Server::start("max_payload: 4096\n");
    let bus = Broadcaster::<String>::new().unwrap();
    let out = NatsPublisher::builder(&server.url())
        .ensure_stream("EVENTS", StreamOptions::default())
        .subject(|event: &String| {
            assert!(!event.starts_with("panic"), "on purpose");
            Subject::new("events")
        });
    let out = out.attach(&bus).unwrap();
    let here = Broadcaster::<String>::new().unwrap();
    let mut watcher = here.watch().unwrap();
    let reader = eventcast_nats::NatsSubscriber::builder(&server.url()).start(Start::All);
    let _reader = reader.attach(&here.publisher()).unwrap();
    eventually(|| out.status().state == RemoteState::Ready);
    let events = [
        "a".to_owned(),
        "x".repeat(10_000),
        "b".to_owned(),
        "panic".to_owned(),
        "y".repeat(3000),
        "z".repeat(3000),
    ];
    bus.publisher().publish_batch(events.clone()).unwrap();
    bus.flush(LONG).unwrap();
    assert!(out.flush(LONG));
    let stats = out.stats();
    assert_eq!((stats.acknowledged, stats.too_large, stats.encode, stats.panics), (4, 1, 1, 1), "{stats}");
    let expected = [
        Delivery::Event(events[0].clone()),
        Delivery::Lagged(1),
        Delivery::Event(events[2].clone()),
        Delivery::Lagged(1),
        Delivery::Event(events[4].clone()),
        Delivery::Event(events[5].clone()),
    ];
    for expected in expected {
        assert_eq!(watcher.recv_timeout(LONG).unwrap(), expected);
    }
}

pub(crate) fn a_message_that_has_become_too_large_is_cut() {
    let mut server = Server::start("");
    let bus = lossless();
    let out = out(&server.url()).attach(&bus).unwrap();
    publish(&bus, &out, 0..10);
    server.kill();
    bus.publisher().publish_batch(10_000..14_000).unwrap();
    bus.flush(LONG).unwrap();
    eventually(|| out.stats().in_flight > 0);
    // The message in flight has six bytes for each event.
    std::fs::write(server.path().join("nats.conf"), "max_payload: 1500\n").unwrap();
    server.restart();
    let stats = settle(&bus, &out);
    assert_eq!((stats.acknowledged, stats.too_large), (4010, 0), "{stats}");
    let mut remote = Remote::new(reader(&server.url()));
    remote.receive_exactly(0..10);
    remote.receive_exactly(10_000..14_000);
}

pub(crate) fn a_message_waits_for_more_events_if_it_may() {
    let server = Server::start("");
    let bus = lossless();
    let lingers = out(&server.url()).configure(|options| options.linger = Duration::from_secs(1));
    let out = lingers.attach(&bus).unwrap();
    for event in 0..10 {
        bus.publisher().publish(event).unwrap();
        bus.flush(LONG).unwrap();
    }
    eventually(|| out.stats().acknowledged == 10);
    assert!(out.stats().messages < 10, "{}", out.stats());
}

pub(crate) fn a_heartbeat_carries_the_position_of_the_publisher() {
    let server = Server::start("");
    let admin = Admin::new(&server.url());
    let bus = lossless();
    let beats = out(&server.url()).configure(|options| options.heartbeat = Some(Duration::from_millis(20)));
    let out = beats.attach(&bus).unwrap();
    publish(&bus, &out, 0..3);
    eventually(|| out.stats().duplicates > 2);
    let messages = admin.messages("EVENTS");
    let last = &messages.last().unwrap().headers;
    let header = |name: &str| last.get(name).map(|value| value.as_str().to_owned());
    assert_eq!((header("Eventcast-First"), header("Eventcast-Count")), (Some("3".into()), Some("0".into())));
    // The server recognises each later message as a repeat.
    assert!(messages.len() <= 4, "{} messages", messages.len());
}

pub(crate) fn both_sides_run_on_a_runtime_of_the_program() {
    let server = Server::start("");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let bus = lossless();
    let out = out(&server.url()).runtime(runtime.handle().clone());
    let out = runtime.block_on(async { out.attach(&bus) }).unwrap();
    let mut remote = Remote::new(reader(&server.url()).runtime(runtime.handle().clone()));
    publish(&bus, &out, 0..1000);
    remote.receive_exactly(0..1000);
    assert!(out.shutdown_timeout(LONG).complete);
    remote.ends_here();
}

pub(crate) fn a_refusal_is_reported_and_retried() {
    let mut server = Server::start(
        "authorization { users = [ { user: u, password: p, permissions: { publish: { deny: \"events\" } } } ] }\n",
    );
    let url = format!("nats://u:p@127.0.0.1:{}", server.port());
    let bus = lossless();
    let denied = out(&url).configure(|options| options.ack_timeout = Duration::from_millis(300));
    let out = denied.attach(&bus).unwrap();
    bus.publisher().publish(0).unwrap();
    eventually(|| out.status().state == RemoteState::Refused);
    let text = out.status().to_string();
    assert!(text.starts_with("refused: Permissions Violation for Publish to \"events\""), "{text}");
    assert!(!format!("{out:?}").contains("u:p@"));
    server.kill();
    std::fs::write(server.path().join("nats.conf"), "authorization { user: u, password: p }\n").unwrap();
    server.restart();
    assert_eq!(settle(&bus, &out).acknowledged, 1);
}

pub(crate) fn a_wrong_password_is_an_error_if_a_connection_is_required() {
    let server = Server::start("authorization { user: u, password: p }\n");
    let url = format!("nats://u:wrong@127.0.0.1:{}", server.port());
    let bus = lossless();
    let required = out(&url).configure(|options| {
        options.require_connection = true;
        options.ack_timeout = Duration::from_millis(500);
    });
    let patient = out(&url).attach(&bus).unwrap();
    eventually(|| patient.status().state == RemoteState::Refused);
    let error = required.attach(&bus).unwrap_err();
    assert!(matches!(error, BuildError::Connect { .. }));
    assert!(!error.to_string().contains("wrong"), "{error}");
}

pub(crate) fn a_shutdown_without_a_server_reports_the_abandoned_events() {
    let mut server = Server::start("");
    let bus = lossless();
    let out = out(&server.url()).attach(&bus).unwrap();
    publish(&bus, &out, 0..10);
    server.kill();
    bus.publisher().publish_batch(10..1010).unwrap();
    bus.flush(LONG).unwrap();
    let report = out.shutdown_timeout(Duration::from_millis(300));
    assert!(!report.complete);
    assert_eq!((report.stats.acknowledged, report.stats.abandoned), (10, 1000), "{report}");
    assert_eq!(report.stats.offered, report.stats.total());
    assert_eq!(out.status().state, RemoteState::Ended);
}

/// After its handle is dropped, the bridge continues for a while to send events, with pauses
/// between its attempts.
pub(crate) fn a_dropped_handle_leaves_the_rest_to_its_bridge() {
    let mut server = Server::start("");
    let admin = Admin::new(&server.url());
    let bus = lossless();
    let out = out(&server.url()).attach(&bus).unwrap();
    publish(&bus, &out, 0..10);
    server.kill();
    bus.publisher().publish_batch(10..1010).unwrap();
    bus.flush(LONG).unwrap();
    drop(out);
    server.restart();
    let last = |header: &str| {
        let messages = admin.messages("EVENTS");
        messages.last().and_then(|message| message.headers.get(header).map(|value| value.as_str().to_owned()))
    };
    eventually(|| last("Eventcast-End").is_some());
    assert_eq!(last("Eventcast-First").as_deref(), Some("1010"));
}

pub(crate) fn the_end_of_the_bus_is_the_end_of_the_bridge() {
    let server = Server::start("");
    let bus = lossless();
    let out = out(&server.url()).attach(&bus).unwrap();
    bus.publisher().publish_batch(0..5000).unwrap();
    drop(bus);
    assert!(out.join(LONG));
    assert_eq!((out.stats().acknowledged, out.stats().abandoned), (5000, 0));
}
