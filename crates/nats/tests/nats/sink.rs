//! Tests the sink, which stores recorded events in a stream.

use std::time::Duration;

use eventcast::sink::{SinkBatch, SinkErrorKind, SinkOp};
use eventcast::{Event, EventBroadcaster, EventSink, EventType, ObjectReference};
use eventcast_nats::{ConnectionOptions, NatsSink, NatsSinkOptions};
use test_support::LONG;

use crate::admin::Admin;
use crate::server::Server;

fn sink(url: &str) -> NatsSink {
    let mut options = NatsSinkOptions::default();
    options.connection = ConnectionOptions::new(url);
    options.timeout = Duration::from_secs(20);
    NatsSink::new(options).unwrap()
}

fn event(name: &str) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.into();
    event.metadata.namespace = "shop".into();
    event
}

pub(crate) fn the_stream_has_the_latest_state_of_each_event() {
    let server = Server::start("");
    let sink = sink(&server.url());
    let web = event("web.0.1");
    assert_eq!(sink.create(&web).unwrap().metadata.resource_version(), "1");
    assert_eq!(sink.create(&web).unwrap_err().kind(), SinkErrorKind::AlreadyExists);
    assert_eq!(sink.create(&event("other")).unwrap().metadata.resource_version(), "2");
    let mut again = web.clone();
    again.count = 5;
    assert_eq!(sink.patch(&again).unwrap().metadata.resource_version(), "3");
    let messages = Admin::new(&server.url()).messages("RECORDS");
    let subjects: Vec<_> = messages.iter().map(|message| message.subject.to_string()).collect();
    assert_eq!(subjects, ["records.shop.other", "records.shop.web%2E0%2E1"]);
    let stored = Event::from_json(std::str::from_utf8(&messages[1].payload).unwrap()).unwrap();
    assert_eq!(stored.count, 5);
    let mut large = event("large");
    large.message = "x".repeat(2 << 20).into();
    assert_eq!(sink.create(&large).unwrap_err().kind(), SinkErrorKind::Rejected);
}

pub(crate) fn a_batch_has_one_answer_per_operation() {
    let server = Server::start("");
    let sink = sink(&server.url());
    sink.create(&event("e7")).unwrap();
    let batch = (0..200).map(|n| SinkOp::Create(event(&format!("e{n}")))).collect();
    let answers = SinkBatch::perform(batch, &sink);
    assert_eq!(answers.len(), 200);
    for (n, answer) in answers.iter().enumerate() {
        match answer {
            Ok(stored) => assert_eq!(stored.name.as_str(), format!("e{n}")),
            Err(failed) => {
                assert_eq!((n, failed.error().kind()), (7, SinkErrorKind::AlreadyExists));
                assert_eq!(failed.op(), &SinkOp::Create(event("e7")));
            }
        }
    }
    assert_eq!(Admin::new(&server.url()).state("RECORDS").messages, 200);
}

pub(crate) fn a_recording_survives_a_crash_of_the_server() {
    let mut server = Server::start("");
    let events = EventBroadcaster::new().unwrap();
    events.record_to(sink(&server.url())).unwrap();
    let recorder = events.recorder("test");
    let disk = ObjectReference::new("Disk", "sda");
    recorder.event(&disk, EventType::Normal, "Mounted", "mounted");
    events.flush(LONG).unwrap();
    server.kill();
    for n in 0..20 {
        recorder.event(&disk, EventType::Warning, "AlmostFull", "full".to_owned() + &n.to_string());
    }
    server.restart();
    let report = events.shutdown_timeout(LONG);
    assert!(report.complete, "{report}");
    let admin = Admin::new(&server.url());
    let count = |reason: &str| -> i32 {
        let events = admin.messages("RECORDS").into_iter();
        let events = events.map(|m| Event::from_json(std::str::from_utf8(&m.payload).unwrap()).unwrap());
        events.filter(|event| event.reason == reason).map(|event| event.count).sum()
    };
    assert_eq!((count("Mounted"), count("AlmostFull")), (1, 20));
}
