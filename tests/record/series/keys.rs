//! Which events are considered equal and therefore belong to one series.

use eventcast::EventType::{Normal, Warning};
use eventcast::record::SeriesOptions;
use eventcast::{EventSource, ObjectReference};

use crate::support::{LONG, pod};

use super::line;

#[test]
fn messages_can_belong_to_the_key() {
    let calls = |options: SeriesOptions| {
        let mut line = line(options);
        for (version, message) in [("1", "one"), ("2", "one"), ("2", "two")] {
            let mut object = pod("a");
            object.resource_version = version.into();
            line.record_about(0, 1, object, message);
        }
        let messages: Vec<_> = line.sink.store.events().into_iter().map(|event| event.message).collect();
        let created = line.end().iter().filter(|call| call.contains("create")).count();
        assert_eq!(messages[0], "one", "the first message is kept");
        (messages.len(), created)
    };
    assert_eq!(calls(SeriesOptions::default()), (1, 1));
    assert_eq!(calls(SeriesOptions::default().message_in_key(true)), (2, 2));
}

/// Each field in client-go's key distinguishes series, and no other field distinguishes them.
#[test]
fn a_series_has_the_key_of_client_go() {
    let mut line = line(SeriesOptions::default());
    let object = || ObjectReference::new("Pod", "a").in_namespace("shop");
    let changed: Vec<_> = [
        |object: &mut ObjectReference| object.kind = "Node".into(),
        |object: &mut ObjectReference| object.namespace = "other".into(),
        |object: &mut ObjectReference| object.name = "b".into(),
        |object: &mut ObjectReference| object.uid = "u".into(),
        |object: &mut ObjectReference| object.api_version = "v2".into(),
        |object: &mut ObjectReference| object.field_path = "spec".into(),
    ]
    .into_iter()
    .map(|change| {
        let mut other = object();
        change(&mut other);
        other
    })
    .collect();
    let recorder = &line.recorder;
    let other = |controller, instance| line.events.recorder(EventSource::from(controller).on_host(instance));
    let (controller, instance) = (other("other", "web-7"), other("web", "web-8"));
    let mut drafts = vec![
        recorder.draft(object(), Normal, "R"),
        recorder.draft(object(), Warning, "R"),
        recorder.draft(object(), Normal, "S"),
        recorder.draft(object(), Normal, "R").action("A"),
        recorder.draft(object(), Normal, "R").related(object()),
        controller.draft(object(), Normal, "R"),
        instance.draft(object(), Normal, "R"),
    ];
    for other in changed {
        drafts.push(recorder.draft(other.clone(), Normal, "R"));
        drafts.push(recorder.draft(object(), Normal, "R").related(other));
    }
    let series = drafts.len();
    // These events belong to the first series.
    drafts.push(recorder.draft(object(), Normal, "R").label("a", "b").annotation("c", "d").message("other"));
    line.recorded = drafts.len() as u64;
    assert!(drafts.into_iter().all(|draft| draft.record().is_accepted()));
    line.events.flush(LONG).unwrap();
    assert_eq!((series, line.sink.store.len()), (19, 19));
    line.end();
}
