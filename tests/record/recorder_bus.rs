//! The recorder on a real bus, and the features that only a broadcaster gives it: scrubbing, limits
//! and reports of losses.

use std::collections::HashSet;
use std::fmt;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::EventType::{Normal, Warning};
use eventcast::record::{EventBroadcasterBuilder, LossReason};
use eventcast::testing::{FakeClock, FakeRecorder};
use eventcast::{BusOptions, Event, EventBroadcaster, ObjectReference, Recorded, Recorder, Timestamp};
use futures::StreamExt;

fn pod() -> ObjectReference {
    ObjectReference::new("Pod", "web-0")
}

/// The losses that the hook saw: the reason, the object with the event's reason, and all text that
/// the hook could read.
type Losses = Arc<Mutex<Vec<(LossReason, String, String)>>>;

fn listening() -> (EventBroadcasterBuilder, Losses) {
    let losses = Losses::default();
    let seen = losses.clone();
    let builder = EventBroadcaster::builder().on_loss(move |loss| {
        assert_eq!((loss.place, loss.count), ("test", 1));
        let event = &loss.events[0];
        let about = format!("{} {}", event.involved_object, event.reason);
        seen.lock().unwrap().push((loss.reason, about, format!("{loss} {event:?}")));
    });
    (builder, losses)
}

fn told(losses: &Losses) -> Vec<(LossReason, String)> {
    losses.lock().unwrap().iter().map(|(reason, about, _)| (*reason, about.clone())).collect()
}

#[test]
fn events_reach_the_watchers_of_the_bus() {
    let (builder, losses) = listening();
    let events = builder.build().unwrap();
    let recorder = events.recorder("test");
    let mut watcher = events.watch_builder().watch().unwrap();
    assert_eq!(recorder.event(pod(), Normal, "Started", "up"), Recorded::Accepted);
    let event = watcher.recv().unwrap().event().unwrap();
    assert_eq!((event.message.as_str(), event.reporting_controller.as_str()), ("up", "test"));
    assert!(told(&losses).is_empty());
}

struct Never;

impl fmt::Display for Never {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        unreachable!("formatted")
    }
}

#[test]
fn a_closed_broadcaster_refuses_without_formatting() {
    let (builder, losses) = listening();
    let events = builder.build().unwrap();
    let recorder = events.recorder("test");
    // A recorder does not keep the broadcaster open.
    drop(events);
    assert_eq!(recorder.event(pod(), Normal, "R", format_args!("{Never}")), Recorded::Closed);
    assert_eq!(recorder.event(pod(), Normal, "Q", "secret"), Recorded::Closed);
    let draft = recorder.draft(pod(), Normal, "P").message("secret").annotation("a", "secret");
    assert_eq!(draft.record(), Recorded::Closed);
    assert_eq!(recorder.event(pod(), Normal, "", "secret"), Recorded::EmptyReason);
    let stats = recorder.stats();
    assert_eq!((stats.closed, stats.empty_reason, stats.hook_panics), (3, 1, 0));
    let about = |reason, about: &str| (reason, about.to_owned());
    assert_eq!(
        told(&losses),
        [
            about(LossReason::Closed, "Pod/web-0 R"),
            about(LossReason::Closed, "Pod/web-0 Q"),
            about(LossReason::Closed, "Pod/web-0 P"),
            about(LossReason::EmptyReason, "Pod/web-0 "),
        ]
    );
    // These events have not been scrubbed, so the hook must not see their messages and annotations.
    assert!(losses.lock().unwrap().iter().all(|(.., shown)| !shown.contains("secret")));
}

/// Fills the queue of a bus of length 2, and then records an event "C", which is refused. Returns
/// what the watcher receives.
fn overfill(builder: EventBroadcasterBuilder) -> Vec<Event> {
    let events = builder.bus(BusOptions::default().incoming_len(2)).build().unwrap();
    let recorder = events.recorder("test");
    // A filter runs on the dispatcher. This one holds the dispatcher at the first event until the
    // test lets it go on.
    let (entered, has_entered) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let filter = move |event: &Event| {
        if event.reason == "A" {
            entered.send(()).unwrap();
            may_go_on.recv().unwrap();
        }
        true
    };
    let mut watcher = events.watch_builder().filter(filter).watch().unwrap();
    assert!(recorder.event(pod(), Normal, "A", "").is_accepted());
    has_entered.recv().unwrap();
    assert!(recorder.event(pod(), Normal, "B", "").is_accepted());
    assert!(recorder.event(pod(), Normal, "B", "").is_accepted());
    assert_eq!(recorder.event(pod(), Normal, "C", ""), Recorded::Full);
    go_on.send(()).unwrap();
    assert_eq!(events.stats().recorder.full, 1);
    events.shutdown();
    let stats = events.stats();
    assert_eq!(stats.bus.accepted + stats.recorder.refused(), 4);
    watcher.events().collect()
}

#[test]
fn a_full_queue_refuses_and_tells() {
    let (builder, losses) = listening();
    let received = overfill(builder);
    assert_eq!(received.into_iter().map(|e| e.reason).collect::<Vec<_>>(), ["A", "B", "B"]);
    assert_eq!(told(&losses), [(LossReason::QueueFull, "Pod/web-0 C".to_owned())]);
    assert!(losses.lock().unwrap()[0].2.contains(r#"name: "web-0."#), "the refused event has a name");
}

/// Records every kind of event, by a clock that stands still, moves on, goes back before 1970, and
/// goes beyond the last second of names.
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
                let draft = recorder.draft(pod(), Normal, "Draft").label("c", "d").action("e");
                draft.related(&object).at(past).message("long".repeat(step as usize * 100)).record();
                recorder.for_object(&object).normal("Bound", "short");
            }
        }
    }
}

/// A bus makes the name of an event later than a fake recorder does.
#[test]
fn events_of_a_bus_are_those_of_a_fake_recorder() {
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

/// The name of an event that a function has scrubbed is the name that this function left.
#[test]
fn a_scrub_function_sees_the_name_and_has_the_last_word() {
    for last_word in ["", ".mine"] {
        let (builder, losses) = listening();
        let received = overfill(builder.scrub(move |event| {
            assert!(event.metadata.name.starts_with("web-0."));
            assert_eq!(event.first_timestamp, event.last_timestamp);
            event.metadata.name = last_word.into();
            event.first_timestamp = None;
        }));
        let is_left = |event: &Event| event.metadata.name == last_word && event.first_timestamp.is_none();
        assert!(received.iter().all(is_left), "{received:?}");
        let shown = format!("metadata: ObjectMeta {{ name: {last_word:?}");
        assert!(losses.lock().unwrap()[0].2.contains(&shown));
    }
}

#[test]
fn scrubbing_comes_before_the_queue_and_before_the_cut() {
    // Cutting first would leave `password=hun`, which is not found.
    let builder = EventBroadcaster::builder().max_message_len(18).scrub(|event| {
        event.message = event.message.replace("password=hunter2", "password=*").into();
        event.metadata.labels_mut().insert("scrubbed".into(), "yes".into());
    });
    let events = builder.build().unwrap();
    let recorder = events.recorder("test");
    let mut watcher = events.watch_builder().watch().unwrap();
    recorder.event(pod(), Normal, "R", "xx password=hunter2");
    recorder.draft(pod(), Normal, "R").message("yy password=hunter2 yy").record();
    for expected in ["xx password=*", "yy password=* yy"] {
        let event = watcher.recv().unwrap().event().unwrap();
        assert_eq!(event.message, expected);
        assert_eq!(event.metadata.labels()["scrubbed"], "yes");
    }
    assert_eq!(recorder.stats().truncated, 0);
}

#[test]
fn an_event_whose_scrubbing_panics_is_shown_to_nobody() {
    let (builder, losses) = listening();
    let scrub = |event: &mut Event| assert!(!event.message.contains("secret"), "cannot scrub this");
    let events = builder.scrub(scrub).build().unwrap();
    let recorder = events.recorder("test");
    let mut watcher = events.watch_builder().watch().unwrap();
    assert_eq!(recorder.event(pod(), Normal, "R", "a secret"), Recorded::ScrubPanicked);
    assert_eq!(recorder.event(pod(), Normal, "R", "all clear"), Recorded::Accepted);
    assert_eq!(recorder.stats().scrub_panics, 1);
    events.shutdown();
    assert_eq!(watcher.events().map(|e| e.message).collect::<Vec<_>>(), ["all clear"]);
    assert_eq!(told(&losses), [(LossReason::ScrubPanicked, "Pod/web-0 R".to_owned())]);
    let losses = losses.lock().unwrap();
    assert!(!losses[0].2.contains("secret"), "{losses:?}");
}

#[test]
fn messages_are_cut_to_the_limit_whatever_it_is() {
    for (limit, message, expected) in [
        (1, "äöüäöü", "."),
        (3, "äöüäöü", "..."),
        (4, "äöüäöü", "..."),
        (5, "äöüäöü", "ä..."),
        (8, "ääääääää", "ää..."),
        (12, "äöüäöü", "äöüäöü"),
    ] {
        let events = EventBroadcaster::builder().max_message_len(limit).build().unwrap();
        let recorder = events.recorder("test");
        let mut watcher = events.watch_builder().watch().unwrap();
        assert!(recorder.event(pod(), Normal, "R", message).is_accepted());
        assert_eq!(watcher.recv().unwrap().event().unwrap().message, expected, "{limit}");
        assert_eq!(recorder.stats().truncated, u64::from(limit < 12));
    }
}

/// Events that are cut, and the others, get their names from the same source.
#[test]
fn an_event_that_is_cut_keeps_its_name() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_nanos(10));
    let events = EventBroadcaster::builder().max_message_len(4).clock(clock.clock()).build().unwrap();
    let mut watcher = events.watch_builder().watch().unwrap();
    let recorder = events.recorder("test");
    for message in ["much too long", "fits", "too long", "fits"] {
        assert!(recorder.event(pod(), Normal, "R", message).is_accepted());
    }
    events.close();
    let names: Vec<_> = watcher.events().map(|event| event.metadata.name).collect();
    assert_eq!(names, ["web-0.a", "web-0.b", "web-0.c", "web-0.d"]);
}

#[test]
fn a_hook_that_panics_or_records_harms_nobody() {
    let recorder: Arc<OnceLock<Recorder>> = Arc::default();
    let again = recorder.clone();
    let events = EventBroadcaster::builder()
        .on_loss(move |loss| {
            // A loss inside the hook is counted, but does not call the hook again.
            again.get().unwrap().event(pod(), Normal, "FromHook", "");
            assert_ne!(loss.events[0].reason, "A", "this one panics");
        })
        .build()
        .unwrap();
    events.close();
    let recorder = recorder.get_or_init(|| events.recorder("test"));
    assert_eq!(recorder.event(pod(), Normal, "A", ""), Recorded::Closed);
    assert_eq!(recorder.event(pod(), Normal, "B", ""), Recorded::Closed);
    let stats = recorder.stats();
    assert_eq!((stats.closed, stats.hook_panics), (4, 1));
    assert!(stats.to_string().ends_with("hook panics 1"), "{stats}");
}

/// client-go's test of a shutdown while recorders are at work. The broadcaster must not lose an
/// event that it has accepted.
#[test]
fn a_hundred_threads_and_a_shutdown() {
    let events = EventBroadcaster::builder().bus(BusOptions::default().queue_len(100)).build().unwrap();
    let recorder = events.recorder("test");
    let mut watcher = events.watch_builder().watch().unwrap();
    let accepted: usize = thread::scope(|scope| {
        let record = || {
            recorder.event(ObjectReference::default(), Normal, "Started", format_args!("blah")).is_accepted()
        };
        let workers: Vec<_> = (0..100).map(|_| scope.spawn(record)).collect();
        events.shutdown();
        workers.into_iter().map(|worker| usize::from(worker.join().unwrap())).sum()
    });
    assert_eq!(watcher.events().count(), accepted);
    assert_eq!(recorder.stats().closed, 100 - accepted as u64);
}

/// The dispatcher wakes the readers of a recorded event, so that recording costs its caller no
/// system call for each of them. A function that scrubs changes nothing about that.
#[test]
fn the_dispatcher_wakes_the_readers() {
    struct Reports(Mutex<Sender<thread::ThreadId>>);
    impl Wake for Reports {
        fn wake(self: Arc<Self>) {
            let _ = self.0.lock().unwrap().send(thread::current().id());
        }
    }
    for scrubs in [false, true] {
        let builder = EventBroadcaster::builder();
        let builder = if scrubs { builder.scrub(|_| ()) } else { builder };
        let events = builder.build().unwrap();
        let (recorder, mut watcher) = (events.recorder("kubelet"), events.watch_builder().watch().unwrap());
        let (tx, woken) = channel();
        let waker = Waker::from(Arc::new(Reports(Mutex::new(tx))));
        for _ in 0..100 {
            // The dispatcher has nothing to do after the flush.
            events.flush(Duration::from_secs(60)).unwrap();
            while watcher.poll_next_unpin(&mut Context::from_waker(&waker)).is_ready() {}
            recorder.event(pod(), Normal, "Run", "it runs");
            assert_ne!(woken.recv_timeout(Duration::from_secs(60)), Ok(thread::current().id()), "{scrubs}");
        }
    }
}
