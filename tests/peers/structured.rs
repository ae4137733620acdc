//! client-go: `TestEventf` of `tools/record/event_test.go`, the structured lines.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};

use eventcast::{EventBroadcaster, EventType};
use test_support::in_own_process;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};

use crate::event::rows;
use crate::support::LONG;

type Line = BTreeMap<&'static str, String>;

#[derive(Default)]
struct Fields(Line);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

/// A subscriber that sends each event to the test.
struct Capture(Mutex<Sender<(Level, &'static str, Line)>>);

impl Subscriber for Capture {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        self.0.lock().unwrap().send((*metadata.level(), metadata.name(), fields.0)).unwrap();
    }
}

#[test]
fn a_structured_line_has_the_keys_and_values_of_client_go() {
    in_own_process!();
    let (line, lines) = mpsc::channel();
    tracing::subscriber::set_global_default(Capture(Mutex::new(line))).unwrap();
    let events = EventBroadcaster::new().unwrap();
    events.start_structured_logging(Level::INFO).unwrap();
    let recorder = events.new_recorder("eventTest");
    for row in rows() {
        let message = format_args!("{}", row.message);
        assert!(recorder.event(&row.object, EventType::Normal, row.reason, message).is_accepted());
        let (level, name, fields) = lines.recv_timeout(LONG).unwrap();
        assert_eq!((level, name), (Level::INFO, "Event occurred"));
        let expected = [
            ("object", "baz/foo"),
            ("fieldPath", &row.object.field_path),
            ("kind", "Pod"),
            ("apiVersion", "v1"),
            ("type", "Normal"),
            ("reason", row.reason),
            ("message", row.message),
        ];
        assert_eq!(fields, expected.map(|(key, value)| (key, value.to_owned())).into());
    }
}
