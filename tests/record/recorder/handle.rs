//! The event that a recorder creates for each call.

use std::collections::{BTreeSet, HashSet};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::EventType::{Normal, Warning};
use eventcast::record::{LossReason, ObjectRecorder};
use eventcast::testing::{FakeClock, FakeRecorder};
use eventcast::{
    BusOptions, Event, EventBroadcaster, EventSource, ObjectReference, OverflowPolicy, Recorded, Recorder,
    Timestamp,
};
use futures::StreamExt;

use crate::support::{LONG, Scripted, clock, pod};

use super::{fake, foo, moment};

/// The reference is not changed, and an object that has a namespace keeps its own namespace.
#[test]
fn a_recorder_has_a_namespace_for_cluster_scoped_objects() {
    let (fake, _) = fake();
    let node = ObjectReference::new("Node", "node-1");
    let plain = fake.recorder("tester");
    let system = plain.clone().cluster_scoped_namespace("kube-system");
    let again = system.clone().cluster_scoped_namespace(String::new());
    for recorder in [&plain, &system, &again] {
        recorder.normal(&node, "Ready", "");
        recorder.draft(&node, Warning, "NotReady").record();
        recorder.for_object(&node).draft(Normal, "Ready").at(Timestamp::UNIX_EPOCH).record();
        recorder.normal(foo(), "Started", "");
    }
    let events = fake.take();
    let namespaces: Vec<_> = events.iter().map(|event| event.metadata.namespace.as_str()).collect();
    let (default, system) =
        (["default", "default", "default", "baz"], ["kube-system", "kube-system", "kube-system", "baz"]);
    assert_eq!(namespaces, [default, system, default].concat());
    assert!(events.chunks(4).all(|events| events[..3].iter().all(|event| event.involved_object == node)));
}

#[test]
fn an_event_has_all_that_client_go_gives_it() {
    let (fake, _) = fake();
    let recorder = fake.recorder(EventSource::from("eventTest").on_host("node-1"));
    assert_eq!(recorder.event(foo(), Normal, "Started", "up"), Recorded::Accepted);
    let event = fake.take().remove(0);
    assert_eq!(
        event.to_json(),
        concat!(
            r#"{"metadata":{"name":"foo.178959f726d80ec","namespace":"baz"},"#,
            r#""involvedObject":{"kind":"Pod","namespace":"baz","name":"foo","uid":"bar","apiVersion":"v1"},"#,
            r#""reason":"Started","message":"up","source":{"component":"eventTest","host":"node-1"},"#,
            r#""firstTimestamp":"1973-05-11T20:11:43Z","lastTimestamp":"1973-05-11T20:11:43Z","count":1,"#,
            r#""type":"Normal","eventTime":null,"reportingComponent":"eventTest","reportingInstance":"node-1"}"#
        )
    );
    // The time is not rounded before it is written.
    assert_eq!(event.first_timestamp, Some(Timestamp::from(moment())));
}

#[test]
fn every_way_to_record_keeps_its_arguments() {
    let (fake, _) = fake();
    let recorder = fake.recorder("tester");
    let past: Timestamp = "2001-02-03T04:05:06.789Z".parse().unwrap();
    recorder.event(foo(), Warning, "BackOff", format_args!("restart {} of 100%", 3));
    recorder.warning(foo(), "BackOff", "restart");
    recorder.normal(foo(), "Pulled", "image");
    recorder.draft(foo(), Normal, "Booted").message("long ago").at(past).record();
    let events = fake.take();
    let seen: Vec<_> = events.iter().map(|event| (event.event_type().unwrap(), &*event.message)).collect();
    let expected =
        [(Warning, "restart 3 of 100%"), (Warning, "restart"), (Normal, "image"), (Normal, "long ago")];
    assert_eq!(seen, expected);
    assert_eq!((events[3].first_timestamp, events[3].last_timestamp), (Some(past), Some(past)));
    assert!(events[3].metadata.name.starts_with("foo.178959f726d80"), "the name follows the clock");
}

#[test]
fn a_draft_takes_everything_else() {
    let (fake, _) = fake();
    let recorder = fake.recorder("tester");
    let at = Timestamp::UNIX_EPOCH;
    let recorded = recorder
        .draft(foo(), Warning, "Evicted")
        .message("low on memory")
        .annotation("a", "0")
        .annotation("a", "1")
        .label("l", "2")
        .related(ObjectReference::new("Node", "n1"))
        .action("Evict")
        .at(at)
        .record();
    assert!(recorded.is_accepted());
    let event = fake.take().remove(0);
    assert_eq!(event.message, "low on memory");
    assert_eq!(event.metadata.annotations().len(), 1);
    assert_eq!(event.metadata.annotations()["a"], "1");
    assert_eq!(event.metadata.labels()["l"], "2");
    assert_eq!(event.related().unwrap().name, "n1");
    assert_eq!(event.action(), "Evict");
    assert_eq!((event.first_timestamp, event.last_timestamp), (Some(at), Some(at)));
    assert_eq!(event.count, 1);

    let draft = recorder.draft(foo(), Warning, "Evicted").message("secret");
    assert!(!format!("{draft:?} {recorder:?} {fake:?}").contains("secret"));
    drop(draft);
    assert!(fake.take().is_empty(), "a draft alone does not record anything");
}

#[test]
fn a_recorder_of_one_object_records_the_same() {
    let run = |about: &dyn Fn(&FakeRecorder) -> ObjectRecorder| {
        let (fake, _) = fake();
        let about = about(&fake);
        about.event(Normal, "A", "a");
        about.draft(Normal, "B").annotation("k", "v").message("b").record();
        about.draft(Normal, "C").at(Timestamp::UNIX_EPOCH).record();
        assert_eq!(about.object(), &foo());
        fake.take()
    };
    let bound = run(&|fake| fake.recorder("tester").for_object(foo()));
    let (fake, _) = fake();
    let recorder = fake.recorder("tester");
    recorder.event(foo(), Normal, "A", "a");
    recorder.draft(foo(), Normal, "B").annotation("k", "v").message("b").record();
    recorder.draft(foo(), Normal, "C").at(Timestamp::UNIX_EPOCH).record();
    assert_eq!(fake.take(), bound);
}

#[test]
fn lines_match_client_gos_fake() {
    let (fake, _) = fake();
    let recorder = fake.recorder("tester");
    recorder.event(foo(), Warning, "100%done", "50% of\nit");
    recorder.draft(foo(), Normal, "R").message("m").annotation("k2", "v2").annotation("k1", "v1").record();
    assert_eq!(fake.take_lines(), ["Warning 100%done 50% of\nit", "Normal R m map[k1:v1 k2:v2]"]);
    assert!(fake.take_lines().is_empty());
}

/// Records every kind of event. The clock stands still, advances, goes back to before 1970, and
/// goes past the last second that names can represent.
fn record_all(recorder: &Recorder, clock: &FakeClock) {
    let long = "x".repeat(300);
    let past: Timestamp = "2001-02-03T04:05:06.7Z".parse().unwrap();
    let seconds = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let moments = [
        seconds(1_700_000_000) + Duration::from_nanos(5),
        SystemTime::UNIX_EPOCH - Duration::from_nanos(1),
        seconds(7_258_118_400) + Duration::from_nanos(999_999_999),
        seconds(300_000_000_000),
    ];
    for moment in moments {
        clock.set(moment);
        for name in ["web-0", "NOT VALID", &long, "web-0"] {
            let object = ObjectReference::new("Pod", name.to_owned()).in_namespace(&name[..3]);
            for step in [0, 1] {
                clock.advance(Duration::from_nanos(step));
                recorder.event(&object, Normal, "Event", "short");
                recorder.event(&object, Warning, "Formatted", format_args!("{long}"));
                let draft = recorder.draft(&object, Normal, "Annotated").annotation("a", "b");
                draft.message(format_args!("{step}")).record();
                let draft = recorder.draft(pod("web-0"), Normal, "Draft").label("c", "d").action("e");
                draft.related(&object).at(past).message("long".repeat(step as usize * 100)).record();
                recorder.for_object(&object).normal("Bound", "short");
            }
        }
    }
}

/// A bus generates an event's name later than a fake recorder does.
#[test]
fn a_bus_and_a_fake_recorder_yield_the_same_events() {
    let (one, other) = (FakeClock::new(SystemTime::UNIX_EPOCH), FakeClock::new(SystemTime::UNIX_EPOCH));
    let events = EventBroadcaster::builder().clock(one.clock()).build().unwrap();
    let mut watcher = events.watch_builder().watch().unwrap();
    record_all(&events.recorder("test"), &one);
    events.close();
    let fake = FakeRecorder::with_clock(1000, other.clock());
    record_all(&fake.recorder("test"), &other);
    let events: Vec<Event> = watcher.events().collect();
    assert_eq!(events, fake.take());
    assert_eq!(events.len(), 4 * 4 * 2 * 5);
    assert!(events.iter().all(|event| event.first_timestamp == event.last_timestamp));
    let names: HashSet<&str> = events.iter().map(|event| event.metadata.name.as_str()).collect();
    assert_eq!(names.len(), events.len());
    assert!(names.contains("web-0.17979cfe362a0005"), "the time of the first event: {names:?}");
}

/// If there are several readers, the dispatcher wakes them, which saves the recording thread a
/// system call per reader. The dispatcher also wakes a single reader if direct delivery is off.
#[test]
fn the_dispatcher_wakes_several_readers() {
    struct Reports(Mutex<Sender<thread::ThreadId>>);
    impl Wake for Reports {
        fn wake(self: Arc<Self>) {
            let _ = self.0.lock().unwrap().send(thread::current().id());
        }
    }
    for (scrubs, has_other) in [(false, true), (true, true), (false, false), (true, false)] {
        let bus = BusOptions::default().direct_delivery(has_other);
        let builder = EventBroadcaster::builder().bus(bus);
        let builder = if scrubs { builder.scrub(|_| ()) } else { builder };
        let events = builder.build().unwrap();
        let (recorder, mut watcher) = (events.recorder("kubelet"), events.watch_builder().watch().unwrap());
        let _other = has_other.then(|| events.watch_builder().watch().unwrap());
        let (tx, woken) = channel();
        let waker = Waker::from(Arc::new(Reports(Mutex::new(tx))));
        for _ in 0..100 {
            // The dispatcher is idle after the flush.
            events.flush(Duration::from_secs(60)).unwrap();
            while watcher.poll_next_unpin(&mut Context::from_waker(&waker)).is_ready() {}
            recorder.event(pod("web-0"), Normal, "Run", "it runs");
            assert_ne!(woken.recv_timeout(Duration::from_secs(60)), Ok(thread::current().id()), "{scrubs}");
        }
    }
}

#[test]
fn a_recorder_recognizes_the_threads_of_its_broadcaster() {
    let (tx, seen) = channel();
    let slot = Arc::new(Mutex::new(None::<Recorder>));
    let ask = {
        let slot = slot.clone();
        move |place: &'static str| {
            let recorder = slot.lock().unwrap().clone().unwrap();
            tx.send((place, recorder.is_own_thread())).unwrap();
        }
    };
    let [scrub, hook, filter, handler, sink, other] = std::array::from_fn(|_| ask.clone());
    let builder = EventBroadcaster::builder().bus(BusOptions::default().queue_capacity(1));
    let builder = builder.scrub(move |_| scrub("scrub")).on_loss(move |loss| {
        hook(if loss.reason == LossReason::EmptyReason {
            "on_loss, recorder"
        } else {
            "on_loss, dispatcher"
        });
    });
    let events = builder.build().unwrap();
    let (store, _calls) = Scripted::new(&clock(), move |_, _| {
        sink("sink");
        Ok(())
    });
    let others = EventBroadcaster::new().unwrap();
    others.spawn(move |_| other("other broadcaster")).unwrap();
    let recorder = events.recorder("tester");
    *slot.lock().unwrap() = Some(recorder.clone());
    events.record_to(store).unwrap();
    let filter = move |_: &Event| {
        filter("filter");
        true
    };
    events.watch_builder().filter(filter).spawn(move |_| handler("handler")).unwrap();
    let _full = events.watch_builder().overflow(OverflowPolicy::DropIncoming).watch().unwrap();
    for reason in ["", "A", "B"] {
        recorder.normal(foo(), reason, "");
        events.flush(LONG).unwrap();
    }
    others.recorder("tester").normal(foo(), "C", "");
    others.flush(LONG).unwrap();
    ask("caller");
    let places: BTreeSet<_> = seen.try_iter().collect();
    assert_eq!(
        places.into_iter().collect::<Vec<_>>(),
        [
            ("caller", false),
            ("filter", true),
            ("handler", true),
            ("on_loss, dispatcher", true),
            ("on_loss, recorder", false),
            ("other broadcaster", false),
            ("scrub", false),
            ("sink", true),
        ]
    );
    assert!(!Recorder::disabled().is_own_thread());
    assert!(!FakeRecorder::new(1).recorder("tester").is_own_thread());
}

#[test]
fn a_filter_of_an_inline_broadcaster_runs_on_an_own_thread() {
    let events = EventBroadcaster::new_inline();
    let recorder = events.recorder("tester");
    let (tx, seen) = channel();
    let own = recorder.clone();
    let filter = move |_: &Event| tx.send(own.is_own_thread()).is_ok();
    let _watcher = events.watch_builder().filter(filter).watch().unwrap();
    recorder.normal(foo(), "Started", "");
    assert_eq!((seen.try_recv(), recorder.is_own_thread()), (Ok(true), false));
}
