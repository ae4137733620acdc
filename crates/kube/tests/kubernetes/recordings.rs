//! Tests recordings to a cluster, checking the stored events and the requests that stored them.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::EventType::{Normal, Warning};
use eventcast::record::{LossReason, RecordingHandle};
use eventcast::testing::FakeClock;
use eventcast::{CorrelatorOptions, Event, EventBroadcaster, ObjectReference, Recorder, RetryPolicy};
use serde_json::{Value, json};
use test_support::{LONG, until};

use super::api_server::{Fault, Seen};
use super::cluster::{Cluster, Role};

fn at_once() -> RetryPolicy {
    RetryPolicy::default().delay(Duration::ZERO)
}

/// A broadcaster that records to a cluster, and the losses that were reported, each with its reason
/// and text.
struct Running {
    cluster: Cluster,
    events: EventBroadcaster,
    recording: RecordingHandle,
    recorder: Recorder,
    losses: mpsc::Receiver<(LossReason, String)>,
}

impl Running {
    fn start(role: Role) -> Self {
        let cluster = Cluster::fake();
        let (tell, losses) = mpsc::channel();
        let events = EventBroadcaster::builder()
            .retry(at_once())
            .correlator(CorrelatorOptions::default().spam_filter(None))
            .on_loss(move |loss| drop(tell.send((loss.reason, loss.to_string()))))
            .build()
            .unwrap();
        let recording = events.record_to(cluster.sink_as(role)).unwrap();
        let recorder = events.recorder("tester");
        cluster.server().take_seen();
        Self { cluster, events, recording, recorder, losses }
    }

    fn pod(&self) -> ObjectReference {
        ObjectReference::new("Pod", "web-0").in_namespace(self.cluster.namespace.clone())
    }

    /// Records an event, and waits until it has been handled.
    fn record(&self, reason: &'static str) {
        assert!(self.recorder.event(self.pod(), Warning, reason, "restarts").is_accepted());
        self.events.flush(LONG).unwrap();
    }

    fn stored(&self) -> Vec<Event> {
        let read = |value: &Value| Event::from_json(&value.to_string()).unwrap();
        self.cluster.server().events().iter().map(read).collect()
    }

    /// Returns the methods of the requests since the last call, such as `POST` or `PATCH`.
    fn methods(&self) -> Vec<String> {
        self.cluster.server().take_seen().iter().map(|seen| seen.method.to_string()).collect()
    }

    fn lost(&self) -> Vec<(LossReason, String)> {
        self.losses.try_iter().collect()
    }
}

#[test]
fn repeats_are_counted_on_the_stored_event() {
    let run = Running::start(Role::Recorder);
    for _ in 0..3 {
        run.record("BackOff");
    }
    run.record("Started");
    let seen = run.cluster.server().take_seen();
    let stored = run.stored();
    let name = |event: &Event| event.metadata.name.to_string();
    let namespace = &run.cluster.namespace;
    let shown: Vec<String> = seen.iter().map(Seen::short).collect();
    let patch = format!("PATCH {namespace}/{}", name(&stored[0]));
    assert_eq!(shown, [format!("POST {namespace}"), patch.clone(), patch, format!("POST {namespace}")]);
    let patches: Vec<Value> =
        seen[1..3].iter().map(|seen| serde_json::from_slice(&seen.body).unwrap()).collect();
    assert_eq!([&patches[0]["count"], &patches[1]["count"]], [2, 3]);
    assert_eq!(stored.iter().map(|event| event.count).collect::<Vec<_>>(), [3, 1]);
    assert!(name(&stored[0]).starts_with("web-0."), "{}", name(&stored[0]));
    assert_eq!(stored[0].source.component, "tester");
    let stats = run.recording.stats();
    assert_eq!((stats.created, stats.updated, stats.retried), (2, 2, 0), "{stats}");
}

#[test]
fn an_event_that_has_expired_is_created_again_with_its_count_and_name() {
    let run = Running::start(Role::Recorder);
    run.record("BackOff");
    run.record("BackOff");
    let before = run.stored().remove(0);
    run.cluster.server().expire(&run.cluster.namespace, &before.metadata.name);
    run.cluster.server().take_seen();
    run.record("BackOff");
    assert_eq!(run.methods(), ["PATCH", "POST"]);
    let after = run.stored().remove(0);
    assert_eq!((after.metadata.name, after.count), (before.metadata.name, 3));
    assert_eq!(after.first_timestamp, before.first_timestamp);
    run.record("BackOff");
    assert_eq!(run.methods(), ["PATCH"]);
    let stats = run.recording.stats();
    assert_eq!((stats.created, stats.recreated, stats.updated), (2, 1, 2), "{stats}");
}

#[test]
fn a_busy_server_is_left_alone_for_as_long_as_it_asks() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_763_700_000));
    let cluster = Cluster::fake();
    let events = EventBroadcaster::builder().clock(clock.clock()).build().unwrap();
    let recording = events.record_to(cluster.sink()).unwrap();
    let server = cluster.server();
    server.fail([Fault::too_many_requests(vec![("retry-after", "7".to_owned())])]);
    events.recorder("tester").event(&cluster.event("").involved_object, Warning, "BackOff", "restarts");
    until(|| server.seen_count() == 1);
    // Wait until the recording has received the response and is waiting for the clock. The test
    // then advances the clock.
    until(|| recording.stats().last_failure.is_some());
    clock.wait_for_waiters(1);
    clock.advance(Duration::from_millis(6_999));
    assert_eq!(server.seen_count(), 1);
    clock.advance(Duration::from_millis(1));
    events.flush(LONG).unwrap();
    assert_eq!(server.seen_count(), 2);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.retried), (1, 1), "{stats}");
}

#[test]
fn what_may_work_later_is_tried_until_it_does() {
    let run = Running::start(Role::Recorder);
    let status = |code: u16| Fault::status(code, &json!({}));
    let faults =
        [status(401), Fault::too_many_requests(vec![]), status(500), status(503), Fault::HangUpBefore];
    run.cluster.server().fail(faults);
    run.record("BackOff");
    assert_eq!(run.methods(), ["POST"; 6]);
    let stats = run.recording.stats();
    assert_eq!((stats.created, stats.retried), (1, 5), "{stats}");
    assert_eq!(run.lost(), []);
}

#[test]
fn a_refusal_is_reported_in_the_servers_words_and_blocks_no_event() {
    let run = Running::start(Role::Creator);
    run.record("BackOff");
    // The role does not permit patches.
    run.record("BackOff");
    let mut elsewhere = run.pod();
    elsewhere.namespace = "eventcast-no-such-namespace".into();
    run.recorder.event(elsewhere, Normal, "Started", "message");
    run.record("Started");
    let lost = run.lost();
    assert_eq!(
        lost.iter().map(|(reason, _)| *reason).collect::<Vec<_>>(),
        [LossReason::Rejected; 2],
        "{lost:?}"
    );
    assert!(lost[0].1.contains("needs a role with create, patch and update on events"), "{lost:?}");
    assert!(lost[1].1.contains("namespaces \"eventcast-no-such-namespace\" not found"), "{lost:?}");
    let stats = run.recording.stats();
    assert_eq!((stats.created, stats.rejected), (2, 2), "{stats}");
}

#[test]
fn a_flood_from_several_threads_arrives_complete_while_the_server_stumbles() {
    const OBJECTS: usize = 40; // 200 events in total
    const REPEATS: i32 = 5;
    let run = Running::start(Role::Recorder);
    // Some requests fail, regardless of the operation that they request.
    run.cluster.server().fail((0..100).map(|number| match number % 5 {
        0 => Fault::too_many_requests(vec![("retry-after", "0".to_owned())]),
        1 => Fault::HangUpBefore,
        _ => Fault::Hold(std::sync::Arc::new(tokio::sync::Semaphore::new(1))),
    }));
    thread::scope(|scope| {
        for thread in 0..4 {
            let (recorder, pod) = (&run.recorder, run.pod());
            scope.spawn(move || {
                for number in (0..REPEATS).flat_map(|_| 0..OBJECTS / 4) {
                    let mut pod = pod.clone();
                    pod.name = format!("web-{thread}-{number}").into();
                    assert!(recorder.event(pod, Normal, "Started", "message").is_accepted());
                }
            });
        }
    });
    run.events.flush(LONG).unwrap();
    let stored = run.stored();
    assert_eq!(stored.len(), OBJECTS);
    assert!(stored.iter().all(|event| event.count == REPEATS), "{stored:#?}");
    assert_eq!(run.lost(), []);
    let stats = run.recording.stats();
    assert_eq!((stats.created, stats.handled()), (OBJECTS as u64, 200), "{stats}");
}

#[test]
fn a_message_for_a_terminal_is_stored_as_it_is_and_told_harmlessly() {
    let run = Running::start(Role::Recorder);
    let payload = "\u{1b}[2J\u{1b}[1;1Hroot@node:~# \r\n\u{202e}\u{9b}31m";
    run.recorder.event(run.pod(), Warning, payload.to_owned(), payload.to_owned());
    run.events.flush(LONG).unwrap();
    let stored = run.stored();
    assert_eq!((stored[0].message.as_str(), stored[0].reason.as_str()), (payload, payload));
    // The server sends the payload back in its response.
    run.cluster.server().fail([Fault::status(422, &json!({"message": payload, "reason": payload}))]);
    run.record("Started");
    let lost = run.lost();
    assert!(lost[0].1.contains("\\u{1b}[2J"), "{lost:?}");
    assert!(!lost[0].1.contains(['\u{1b}', '\r', '\n', '\u{202e}', '\u{9b}']), "{lost:?}");
}

#[test]
fn a_shutdown_does_not_wait_for_a_silent_server_beyond_its_deadline() {
    let run = Running::start(Role::Recorder);
    run.cluster.server().fail([Fault::Silence]);
    assert!(run.recorder.event(run.pod(), Warning, "BackOff", "restarts").is_accepted());
    until(|| run.cluster.server().seen_count() == 1);
    let report = run.events.shutdown_timeout(Duration::from_millis(50));
    assert!(!report.complete, "{report}");
    assert_eq!(report.recordings[0].created, 0, "{report}");
}

#[test]
fn an_event_whose_answer_was_lost_is_taken_for_stored() {
    for fault in [Fault::HangUpAfter, Fault::CutAnswer] {
        let run = Running::start(Role::Recorder);
        run.cluster.server().fail([fault]);
        run.record("BackOff");
        // The second attempt finds that the name is taken, and the third request reads the event
        // that has the name.
        assert_eq!(run.methods(), ["POST", "POST", "PATCH"]);
        run.record("BackOff");
        assert_eq!(run.methods(), ["PATCH"]);
        assert_eq!(run.lost(), []);
        let stored = run.stored();
        assert_eq!(stored.iter().map(|event| event.count).collect::<Vec<_>>(), [2]);
        let stats = run.recording.stats();
        assert_eq!((stats.created, stats.updated, stats.already_existed), (1, 1, 0), "{stats}");
    }
}

#[test]
fn a_patch_whose_answer_was_lost_is_sent_again_and_counts_once() {
    let run = Running::start(Role::Recorder);
    run.record("BackOff");
    run.cluster.server().fail([Fault::HangUpAfter]);
    run.record("BackOff");
    assert_eq!(run.methods(), ["POST", "PATCH", "PATCH"]);
    assert_eq!(run.stored()[0].count, 2);
    assert_eq!(run.lost(), []);
}

#[test]
fn a_name_that_another_event_has_is_left_to_it() {
    let run = Running::start(Role::Recorder);
    // The server reports that the name is taken, and the read returns an event from another writer.
    let mut other = run.cluster.event("web-0.1");
    other.message = "somebody else's".into();
    let taken = Fault::status(
        409,
        &json!({"reason": "AlreadyExists", "message": "events \"web-0.1\" already exists"}),
    );
    run.cluster.server().fail([taken, Fault::Answer(200, vec![], other.to_json())]);
    run.record("BackOff");
    assert_eq!(run.methods(), ["POST", "PATCH", "POST"]);
    assert_eq!(run.stored().len(), 1);
    assert_eq!(run.lost(), []);
    run.record("BackOff");
    assert_eq!(run.methods(), ["PATCH"]);
    let stats = run.recording.stats();
    assert_eq!((stats.created, stats.updated), (1, 1), "{stats}");
}
