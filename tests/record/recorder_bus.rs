//! The recorder on a real bus, and the features that only a broadcaster gives it: scrubbing, limits
//! and reports of losses.

use std::fmt;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use eventcast::EventType::Normal;
use eventcast::record::{EventBroadcasterBuilder, LossReason};
use eventcast::{BusOptions, Event, EventBroadcaster, ObjectReference, Recorded, Recorder};

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
        assert_eq!((loss.place(), loss.count()), ("test", 1));
        let event = &loss.events()[0];
        let about = format!("{} {}", event.involved_object, event.reason);
        seen.lock().unwrap().push((loss.reason(), about, format!("{loss} {event:?}")));
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
    let recorder = events.new_recorder("test");
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
    let recorder = events.new_recorder("test");
    // A recorder does not keep the broadcaster open.
    drop(events);
    assert_eq!(recorder.eventf(pod(), Normal, "R", format_args!("{Never}")), Recorded::Stopped);
    assert_eq!(recorder.event(pod(), Normal, "Q", "secret"), Recorded::Stopped);
    let draft = recorder.draft(pod(), Normal, "P").message("secret").annotation("a", "secret");
    assert_eq!(draft.record(), Recorded::Stopped);
    assert_eq!(recorder.event(pod(), Normal, "", "secret"), Recorded::EmptyReason);
    let stats = recorder.stats();
    assert_eq!((stats.stopped, stats.empty_reason, stats.hook_panics), (3, 1, 0));
    let about = |reason, about: &str| (reason, about.to_owned());
    assert_eq!(
        told(&losses),
        [
            about(LossReason::Stopped, "Pod/web-0 R"),
            about(LossReason::Stopped, "Pod/web-0 Q"),
            about(LossReason::Stopped, "Pod/web-0 P"),
            about(LossReason::EmptyReason, "Pod/web-0 "),
        ]
    );
    // These events have not been scrubbed, so the hook must not see their messages and annotations.
    assert!(losses.lock().unwrap().iter().all(|(.., shown)| !shown.contains("secret")));
}

#[test]
fn a_full_queue_refuses_and_tells() {
    let (builder, losses) = listening();
    let events = builder.bus(BusOptions::default().incoming_len(2)).build().unwrap();
    let recorder = events.new_recorder("test");
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
    assert_eq!(told(&losses), [(LossReason::QueueFull, "Pod/web-0 C".to_owned())]);
    events.shutdown();
    assert_eq!(watcher.events().map(|e| e.reason).collect::<Vec<_>>(), ["A", "B", "B"]);
    let stats = events.stats();
    assert_eq!(stats.bus.accepted + stats.recorder.refused(), 4);
}

#[test]
fn scrubbing_comes_before_the_queue_and_before_the_cut() {
    // Cutting first would leave `password=hun`, which is not found.
    let builder = EventBroadcaster::builder().max_message_len(18).scrub(|event| {
        event.message = event.message.replace("password=hunter2", "password=*").into();
        event.metadata.labels_mut().insert("scrubbed".into(), "yes".into());
    });
    let events = builder.build().unwrap();
    let recorder = events.new_recorder("test");
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
    let recorder = events.new_recorder("test");
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
        let recorder = events.new_recorder("test");
        let mut watcher = events.watch_builder().watch().unwrap();
        assert!(recorder.event(pod(), Normal, "R", message).is_accepted());
        assert_eq!(watcher.recv().unwrap().event().unwrap().message, expected, "{limit}");
        assert_eq!(recorder.stats().truncated, u64::from(limit < 12));
    }
}

#[test]
fn a_hook_that_panics_or_records_harms_nobody() {
    let recorder: Arc<OnceLock<Recorder>> = Arc::default();
    let again = recorder.clone();
    let events = EventBroadcaster::builder()
        .on_loss(move |loss| {
            // A loss inside the hook is counted, but does not call the hook again.
            again.get().unwrap().event(pod(), Normal, "FromHook", "");
            assert_ne!(loss.events()[0].reason, "A", "this one panics");
        })
        .build()
        .unwrap();
    events.close();
    let recorder = recorder.get_or_init(|| events.new_recorder("test"));
    assert_eq!(recorder.event(pod(), Normal, "A", ""), Recorded::Stopped);
    assert_eq!(recorder.event(pod(), Normal, "B", ""), Recorded::Stopped);
    let stats = recorder.stats();
    assert_eq!((stats.stopped, stats.hook_panics), (4, 1));
    assert!(stats.to_string().ends_with("hook panics 1"), "{stats}");
}

/// client-go's test of a shutdown while recorders are at work. The broadcaster must not lose an
/// event that it has accepted.
#[test]
fn a_hundred_threads_and_a_shutdown() {
    let events = EventBroadcaster::builder().bus(BusOptions::default().queue_len(100)).build().unwrap();
    let recorder = events.new_recorder("test");
    let mut watcher = events.watch_builder().watch().unwrap();
    let accepted: usize = thread::scope(|scope| {
        let record = || {
            recorder.eventf(ObjectReference::default(), Normal, "Started", format_args!("blah")).is_accepted()
        };
        let workers: Vec<_> = (0..100).map(|_| scope.spawn(record)).collect();
        events.shutdown();
        workers.into_iter().map(|worker| usize::from(worker.join().unwrap())).sum()
    });
    assert_eq!(watcher.events().count(), accepted);
    assert_eq!(recorder.stats().stopped, 100 - accepted as u64);
}
