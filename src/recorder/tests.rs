//! The recorder on a real bus, and with the settings that only a broadcaster gives it.

use std::fmt::Write as _;

use crate::bus::{Broadcaster, BusOptions};
use crate::event::EventType::Normal;
use crate::loss::{Loss, LossHook, LossReason};
use crate::sync::{Mutex, Parker, park_until};

use super::*;

/// What the hook was told: why, about what, and all that could be read from it.
type Losses = Arc<Mutex<Vec<(LossReason, String, String)>>>;

struct Rig {
    bus: Broadcaster<Event>,
    recorder: Recorder,
    losses: Losses,
}

/// A bus whose queue holds two entries: a registration and an event.
fn rig(max_message_len: usize, scrub: Option<Scrub>) -> Rig {
    let losses = Losses::default();
    let seen = losses.clone();
    let hook = LossHook::new(
        Some(Box::new(move |loss| {
            assert_eq!((loss.place(), loss.count()), ("test", 1));
            let event = &loss.events()[0];
            let about = format!("{} {}", event.involved_object, event.reason);
            seen.lock().push((loss.reason(), about, format!("{loss} {event:?}")));
        })),
        &Clock::system(),
    );
    let context = RecorderContext::new(Clock::system(), max_message_len, scrub, Arc::new(hook));
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
    let draft = recorder.draft(pod(), Normal, "P").message("secret").annotation("a", "secret");
    assert_eq!(draft.record(), Recorded::Stopped);
    assert_eq!(recorder.event(pod(), Normal, "", "secret"), Recorded::EmptyReason);
    let stats = recorder.stats();
    assert_eq!((stats.stopped, stats.empty_reason, stats.hook_panics), (3, 1, 0));
    let losses = losses.lock();
    let told: Vec<_> = losses.iter().map(|(reason, about, _)| (*reason, about.as_str())).collect();
    let stopped = LossReason::Stopped;
    assert_eq!(
        told,
        [
            (stopped, "Pod/web-0 R"),
            (stopped, "Pod/web-0 Q"),
            (stopped, "Pod/web-0 P"),
            (LossReason::EmptyReason, "Pod/web-0 ")
        ]
    );
    // Nothing of it has been scrubbed.
    assert!(losses.iter().all(|(.., shown)| !shown.contains("secret")), "{losses:?}");
}

#[test]
fn a_full_queue_refuses_and_tells() {
    let Rig { bus, recorder, losses } = rig(DEFAULT_MAX_MESSAGE_LEN, None);
    // A filter runs on the dispatcher, and holds it at the first event until told to go on.
    let (entered, go_on) = (Parker::new(), Parker::new());
    let (has_entered, may_go_on) = (entered.unparker().clone(), go_on.unparker().clone());
    let filter = move |event: &Event| {
        if event.reason == "A" {
            has_entered.unpark();
            park_until(&go_on, None);
        }
        true
    };
    let mut watcher = bus.watch_builder().filter(filter).watch().unwrap();
    assert!(recorder.event(pod(), Normal, "A", "").is_accepted());
    park_until(&entered, None);
    assert!(recorder.event(pod(), Normal, "B", "").is_accepted());
    assert!(recorder.event(pod(), Normal, "B", "").is_accepted());
    assert_eq!(recorder.event(pod(), Normal, "C", ""), Recorded::Full);
    may_go_on.unpark();
    assert_eq!(recorder.stats().full, 1);
    assert_eq!(losses.lock()[0].0, LossReason::QueueFull);
    assert_eq!(losses.lock()[0].1, "Pod/web-0 C");
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
    let (reason, about, shown) = losses.lock()[0].clone();
    assert_eq!((reason, about.as_str()), (LossReason::ScrubPanicked, "Pod/web-0 R"));
    assert!(!shown.contains("secret"), "{shown}");
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
    let hook = move |loss: &Loss<'_>| {
        // A loss inside the hook is counted, but does not call it again.
        let recorder = again.lock().clone();
        recorder.unwrap().event(pod(), Normal, "FromHook", "");
        assert_ne!(loss.events()[0].reason, "A", "this one panics");
    };
    let hook = LossHook::new(Some(Box::new(hook)), &Clock::system());
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
