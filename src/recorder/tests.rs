//! The recorder on a real bus, and with the settings that only a broadcaster gives it.

use std::fmt::Write as _;

use crate::bus::{Broadcaster, BusOptions};
use crate::event::EventType::Normal;
use crate::loss::{Loss, LossHook, LossReason};
use crate::sync::Mutex;

use super::*;

type Losses = Arc<Mutex<Vec<Loss>>>;

struct Rig {
    bus: Broadcaster<Event>,
    recorder: Recorder,
    losses: Losses,
}

/// A bus whose queue holds two entries: a registration and an event.
fn rig(max_message_len: usize, scrub: Option<Scrub>) -> Rig {
    let losses = Losses::default();
    let seen = losses.clone();
    let hook = Arc::new(LossHook::new(move |loss| seen.lock().push(loss.clone())));
    let context = RecorderContext::new(Clock::system(), max_message_len, scrub, hook);
    let bus = Broadcaster::with_options(BusOptions::default().incoming_len(2)).unwrap();
    let recorder = Recorder::new(bus.publisher(), "test".into(), Arc::new(context));
    Rig { bus, recorder, losses }
}

fn pod() -> ObjectReference {
    ObjectReference::new("Pod", "web-0")
}

#[test]
fn events_reach_the_watchers_of_the_bus() {
    let Rig { bus, recorder, losses } = rig(DEFAULT_MAX_MESSAGE_LEN, None);
    let mut watcher = bus.watch().unwrap();
    assert_eq!(recorder.event(pod(), Normal, "Started", "up"), Recorded::Accepted);
    let event = watcher.recv().unwrap().event().unwrap();
    assert_eq!((event.message.as_str(), event.reporting_controller.as_str()), ("up", "test"));
    assert!(losses.lock().is_empty());
}

#[test]
fn a_closed_bus_refuses_without_formatting() {
    let Rig { bus, recorder, losses } = rig(DEFAULT_MAX_MESSAGE_LEN, None);
    bus.shutdown();
    struct Never;
    impl fmt::Display for Never {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            unreachable!("formatted")
        }
    }
    assert_eq!(recorder.eventf(pod(), Normal, "R", format_args!("{Never}")), Recorded::Stopped);
    assert_eq!(recorder.event(pod(), Normal, "Q", "secret"), Recorded::Stopped);
    assert_eq!(recorder.draft(pod(), Normal, "P").record(), Recorded::Stopped);
    assert_eq!(recorder.event(pod(), Normal, "", "m"), Recorded::EmptyReason);
    assert_eq!(recorder.stats().stopped, 3);
    let losses = losses.lock();
    assert_eq!(losses.len(), 4);
    assert_eq!((losses[1].reason, losses[1].count, losses[1].total), (LossReason::Stopped, 1, 2));
    assert_eq!((losses[1].object.clone(), losses[1].event_reason.as_str()), (pod(), "Q"));
    assert_eq!((losses[3].reason, losses[3].total), (LossReason::EmptyReason, 1));
    assert_eq!(losses[1].to_string(), "1 lost (stopped, 2 so far), Q about Pod/web-0");
    assert!(!format!("{losses:?}").contains("secret"));
}

#[test]
fn a_full_queue_refuses_and_tells() {
    let Rig { bus, recorder, losses } = rig(DEFAULT_MAX_MESSAGE_LEN, None);
    // A filter runs on the dispatcher, and holds it until told to go on.
    let (entered, wait_entered) = std::sync::mpsc::channel();
    let (go_on, wait_go_on) = std::sync::mpsc::channel::<()>();
    let filter = move |_: &Event| {
        entered.send(()).unwrap();
        wait_go_on.recv().is_ok()
    };
    let mut watcher = bus.watch_builder().filter(filter).watch().unwrap();
    assert!(recorder.event(pod(), Normal, "A", "").is_accepted());
    wait_entered.recv().unwrap();
    assert!(recorder.event(pod(), Normal, "B", "").is_accepted());
    assert!(recorder.event(pod(), Normal, "B", "").is_accepted());
    assert_eq!(recorder.event(pod(), Normal, "C", ""), Recorded::Full);
    for _ in 0..3 {
        go_on.send(()).unwrap();
    }
    assert_eq!(recorder.stats().full, 1);
    assert_eq!(losses.lock()[0].reason, LossReason::QueueFull);
    assert_eq!(losses.lock()[0].event_reason, "C");
    bus.shutdown();
    assert_eq!(watcher.events().map(|e| e.reason).collect::<Vec<_>>(), ["A", "B", "B"]);
}

#[test]
fn scrubbing_comes_before_the_queue_and_before_the_cut() {
    let scrub: Scrub = Box::new(|event| {
        event.message = event.message.replace("password=hunter2", "password=*").into();
        event.metadata.labels_mut().insert("scrubbed".into(), "yes".into());
    });
    // Cutting first would leave `password=hun`, which is not found.
    let Rig { bus, recorder, .. } = rig(18, Some(scrub));
    let mut watcher = bus.watch().unwrap();
    for (round, expected) in ["xx password=*", "yy password=* yy"].into_iter().enumerate() {
        let recorded = if round == 0 {
            recorder.event(pod(), Normal, "R", "xx password=hunter2")
        } else {
            recorder.draft(pod(), Normal, "R").message("yy password=hunter2 yy").record()
        };
        assert!(recorded.is_accepted());
        let event = watcher.recv().unwrap().event().unwrap();
        assert_eq!(event.message, expected);
        assert_eq!(event.metadata.labels()["scrubbed"], "yes");
    }
    assert_eq!(recorder.stats().truncated, 0);
}

#[test]
fn an_event_whose_scrubbing_panics_is_shown_to_nobody() {
    let scrub: Scrub = Box::new(|event| assert!(!event.message.contains("secret"), "cannot scrub this"));
    let Rig { bus, recorder, losses } = rig(DEFAULT_MAX_MESSAGE_LEN, Some(scrub));
    let mut watcher = bus.watch().unwrap();
    assert_eq!(recorder.event(pod(), Normal, "R", "a secret"), Recorded::ScrubPanicked);
    assert_eq!(recorder.event(pod(), Normal, "R", "all clear"), Recorded::Accepted);
    assert_eq!(recorder.stats().scrub_panics, 1);
    bus.shutdown();
    assert_eq!(watcher.events().map(|e| e.message).collect::<Vec<_>>(), ["all clear"]);
    assert_eq!(losses.lock()[0].reason, LossReason::ScrubPanicked);
    assert!(!format!("{:?}", losses.lock()).contains("secret"));
}

#[test]
fn messages_are_cut_to_the_limit_whatever_it_is() {
    for (limit, expected) in
        [(0, ""), (1, "."), (3, "..."), (4, "..."), (5, "ä..."), (8, "ää..."), (12, "äöüäöü")]
    {
        let Rig { bus, recorder, .. } = rig(limit, None);
        let mut watcher = bus.watch().unwrap();
        let message = if limit == 8 { "ääääääää" } else { "äöüäöü" };
        assert!(recorder.event(pod(), Normal, "R", message).is_accepted());
        assert_eq!(watcher.recv().unwrap().event().unwrap().message, expected, "{limit}");
        assert_eq!(recorder.stats().truncated, u64::from(limit < 12));
    }
}

#[test]
fn a_hook_that_panics_or_records_harms_nobody() {
    let bus = Broadcaster::<Event>::with_options(BusOptions::default()).unwrap();
    bus.close();
    let inner: Arc<Mutex<Option<Recorder>>> = Arc::default();
    let again = inner.clone();
    let hook = LossHook::new(move |loss| {
        // A loss inside the hook is counted, but does not call it again.
        let recorder = again.lock().clone();
        recorder.unwrap().event(pod(), Normal, "FromHook", "");
        assert!(loss.total > 2, "the first ones panic");
    });
    let context = RecorderContext::new(Clock::system(), 100, None, Arc::new(hook));
    let recorder = Recorder::new(bus.publisher(), "test".into(), Arc::new(context));
    *inner.lock() = Some(recorder.clone());
    assert_eq!(recorder.event(pod(), Normal, "A", ""), Recorded::Stopped);
    assert_eq!(recorder.event(pod(), Normal, "B", ""), Recorded::Stopped);
    let stats = recorder.stats();
    assert_eq!((stats.stopped, stats.hook_panics), (4, 1));
    let mut shown = String::new();
    write!(shown, "{stats}").unwrap();
    assert!(shown.ends_with("hook panics 1"), "{shown}");
    *inner.lock() = None;
}
