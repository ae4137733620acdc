//! Sinks made of sinks: two sinks as one, where neither fails because of the other, and a sink that
//! passes on only a part.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use eventcast::EventType::{Normal, Warning};
use eventcast::sink::{Filter, JsonLinesSink, MemorySinkOptions, SinkErrorKind, SinkOp, Stored, Tee};
use eventcast::stats::TeeStats;
use eventcast::testing::FakeClock;
use eventcast::{Event, EventBroadcaster, EventSink, MemorySink, ObjectReference, SinkError};

use crate::support::{Scripted, at_once, clock, pod};

fn event(name: &str) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.to_owned().into();
    event.involved_object = ObjectReference::new("Pod", "web-0");
    event.type_ = "Normal".into();
    event.reason = "Started".into();
    event.message = "started".into();
    event.count = 1;
    event
}

/// Returns the event with this count.
fn patched(event: &Event, count: i32) -> Event {
    let mut event = event.clone();
    event.count = count;
    event
}

/// The events that a second sink lost, in words.
#[derive(Clone, Default)]
struct Lost(Arc<Mutex<Vec<String>>>);

impl Lost {
    fn hook(&self) -> impl Fn(&Event, &SinkError) + Send + Sync + 'static {
        let lost = self.0.clone();
        move |event, error| lost.lock().unwrap().push(format!("{}: {error}", event.metadata.name))
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Creates a sink that can be switched off. While it is off, each call fails with an error that may
/// be tried again.
fn switched(clock: &FakeClock) -> (Scripted, Arc<AtomicBool>) {
    let is_down = Arc::new(AtomicBool::new(false));
    let asked = is_down.clone();
    let (sink, _) = Scripted::new(clock, move |_, _| {
        if asked.load(Ordering::SeqCst) { Err(SinkError::retry("down")) } else { Ok(()) }
    });
    (sink, is_down)
}

fn counts(store: &MemorySink) -> Vec<(String, i32)> {
    store.events().iter().map(|event| (event.metadata.name.to_string(), event.count)).collect()
}

fn stats(written: u64, failed: u64) -> TeeStats {
    let mut stats = TeeStats::default();
    (stats.written, stats.failed) = (written, failed);
    stats
}

#[test]
fn both_get_the_same_and_the_first_answers() {
    let clock = clock();
    let (first, second) = (Scripted::obedient(&clock), Scripted::obedient(&clock));
    // One more event in the second store, so that the versions and uids differ.
    second.store.create(&event("earlier")).unwrap();
    let tee = Tee::new(first.clone(), second.clone());
    let stored = tee.create(&event("a")).unwrap();
    assert_eq!(first.store.events(), std::slice::from_ref(&stored));
    let again = patched(&stored, 2);
    assert_eq!(tee.patch(&again).unwrap(), first.store.get("default", "a").unwrap());
    assert_eq!(counts(&second.store), [("earlier".to_owned(), 1), ("a".to_owned(), 2)]);
    // The second store would refuse the first store's version as an old one.
    let mut replaced = first.store.get("default", "a").unwrap();
    replaced.reason = "Stopped".into();
    tee.update(&replaced).unwrap();
    assert_eq!(second.store.get("default", "a").unwrap().reason, "Stopped");
    assert_eq!(tee.stats(), stats(3, 0));
    assert_eq!(tee.stats().to_string(), "written 3, failed 0");
}

#[test]
fn what_the_first_must_try_again_is_in_the_second_once() {
    let clock = clock();
    let (first, is_down) = switched(&clock);
    let second = Scripted::obedient(&clock);
    let lost = Lost::default();
    let tee = Tee::new(first.clone(), second.clone()).on_failure(lost.hook());
    is_down.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        assert_eq!(tee.create(&event("a")).unwrap_err().kind(), SinkErrorKind::Retry);
    }
    assert_eq!((first.store.len(), second.store.len()), (0, 1));
    is_down.store(false, Ordering::SeqCst);
    tee.create(&event("a")).unwrap();
    assert_eq!((first.store.len(), second.store.len()), (1, 1));
    assert_eq!((lost.take(), tee.stats()), (vec![], stats(4, 0)));
}

#[test]
fn what_the_first_refuses_is_in_the_second() {
    let clock = clock();
    let (first, _) = Scripted::new(&clock, |_, _| Err(SinkError::rejected("never")));
    let second = MemorySink::new();
    let tee = Tee::new(first, second.clone());
    assert_eq!(tee.create(&event("a")).unwrap_err().kind(), SinkErrorKind::Rejected);
    assert_eq!(second.len(), 1);
    let answers = tee.apply(&mut [SinkOp::Create(event("b")), SinkOp::Create(event("c"))]);
    assert!(answers.iter().all(Result::is_err));
    assert_eq!(second.len(), 3);
}

#[test]
fn a_second_that_fails_does_not_affect_the_first_and_has_an_event_from_its_next_change_on() {
    let clock = clock();
    let first = MemorySink::new();
    let (second, is_down) = switched(&clock);
    let lost = Lost::default();
    let tee = Tee::new(first.clone(), second.clone()).on_failure(lost.hook());
    is_down.store(true, Ordering::SeqCst);
    for name in ["a", "b"] {
        tee.create(&event(name)).unwrap();
    }
    assert_eq!((first.len(), second.store.len()), (2, 0));
    let failures = ["a: may be tried again: down", "b: may be tried again: down"];
    assert_eq!((lost.take(), tee.stats()), (failures.map(str::to_owned).to_vec(), stats(0, 2)));

    is_down.store(false, Ordering::SeqCst);
    tee.create(&event("c")).unwrap();
    let again = patched(&event("b"), 7);
    assert_eq!(tee.patch(&again).unwrap().count, 7);
    assert_eq!(counts(&second.store), [("c".to_owned(), 1), ("b".to_owned(), 7)]);
    assert_eq!((lost.take(), tee.stats()), (vec![], stats(2, 2)));
}

#[test]
fn one_failure_in_a_batch_leaves_the_others_alone() {
    let clock = clock();
    let (second, _) = Scripted::new(&clock, |_, op| match op.event().metadata.name.as_str() {
        "b" => Err(SinkError::retry("down")),
        _ => Ok(()),
    });
    let (first, lost) = (MemorySink::new(), Lost::default());
    let tee = Tee::new(first.clone(), second.clone()).on_failure(lost.hook());
    let mut batch: Vec<SinkOp> = ["a", "b", "c"].map(|name| SinkOp::Create(event(name))).into();
    assert!(tee.apply(&mut batch).iter().all(Result::is_ok));
    assert_eq!((first.len(), second.store.len()), (3, 2));
    assert_eq!((lost.take(), tee.stats()), (vec!["b: may be tried again: down".to_owned()], stats(2, 1)));
}

#[test]
fn a_taken_name_in_the_first_waits_for_the_new_one() {
    let (first, second) = (MemorySink::new(), MemorySink::new());
    let mut other = event("a");
    other.reason = "Other".into();
    first.create(&other).unwrap();
    let tee = Tee::new(first.clone(), second.clone());
    assert_eq!(tee.create(&event("a")).unwrap_err().kind(), SinkErrorKind::AlreadyExists);
    assert!(second.is_empty());
    tee.create(&event("a-new")).unwrap();
    assert_eq!(second.len(), 1);
    // The first store has the same event already, from an attempt whose answer was lost. The second
    // store still gets it.
    first.create(&event("b")).unwrap();
    tee.create(&event("b")).unwrap_err();
    assert_eq!(second.len(), 2);
}

#[test]
fn a_name_that_another_event_has_in_the_second_is_told() {
    let (first, second, lost) = (MemorySink::new(), MemorySink::new(), Lost::default());
    let mut other = event("a");
    other.reason = "Other".into();
    second.create(&other).unwrap();
    let tee = Tee::new(first, second).on_failure(lost.hook());
    tee.create(&event("a")).unwrap();
    assert_eq!(lost.take(), ["a: already exists: events \"a\" in namespace default"]);
    assert_eq!(tee.stats(), stats(0, 1));
}

#[test]
fn a_name_that_the_first_completes_is_the_same_in_both() {
    let (first, second) = (MemorySink::new(), MemorySink::new());
    first.create(&event("earlier")).unwrap();
    let tee = Tee::new(first, second.clone());
    let mut unnamed = event("");
    unnamed.metadata.set_generate_name("web-0.");
    let stored = tee.create(&unnamed).unwrap();
    assert_eq!(second.events()[0].metadata.name, stored.metadata.name);
    assert!(tee.create(&event("")).is_err());
    assert_eq!(second.len(), 1);
}

/// A sink that panics at a certain reason, or answers too little.
struct Wild(MemorySink, &'static str);

impl EventSink for Wild {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        assert!(event.reason != "Panic", "told to");
        self.0.create(event)
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.0.update(event)
    }

    fn apply(&self, batch: &mut [SinkOp]) -> Vec<Result<Stored, SinkError>> {
        let answers = batch.iter().map(|op| op.apply_to(self).unwrap());
        answers.take_while(|stored| stored.reason != self.1).map(|stored| Ok(stored.into())).collect()
    }
}

#[test]
fn panics_and_missing_answers_stay_on_their_side() {
    let panics = || {
        let mut event = event("a");
        event.reason = "Panic".into();
        event
    };
    let (good, lost) = (MemorySink::new(), Lost::default());
    let tee = Tee::new(good.clone(), Wild(MemorySink::new(), "Silence")).on_failure(lost.hook());
    tee.create(&panics()).unwrap();
    tee.create(&event("b")).unwrap();
    let mut silence = event("c");
    silence.reason = "Silence".into();
    tee.create(&silence).unwrap();
    assert_eq!(good.len(), 3);
    assert_eq!(
        lost.take(),
        ["a: rejected: the sink panicked: told to", "c: rejected: the sink gave no answer"]
    );
    assert_eq!(tee.stats(), stats(1, 2));

    let good = MemorySink::new();
    let tee = Tee::new(Wild(MemorySink::new(), ""), good.clone());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tee.create(&panics())));
    assert!(panicked.is_err(), "the recording must hear of it");
    assert_eq!(good.len(), 1);

    let tee =
        Tee::new(MemorySink::new(), Wild(MemorySink::new(), "")).on_failure(|_, _| panic!("the hook too"));
    tee.create(&panics()).unwrap();
    assert_eq!(tee.stats().failed, 1);
}

#[test]
fn several_threads_share_one_pair() {
    let (first, second) = (MemorySink::new(), MemorySink::new());
    let tee = Tee::new(first.clone(), second.clone());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let tee = &tee;
            scope.spawn(move || {
                for number in 0..50 {
                    let event = event(&format!("{thread}-{number}"));
                    tee.create(&event).unwrap();
                    for count in 2..4 {
                        let again = patched(&event, count);
                        tee.patch(&again).unwrap();
                    }
                }
            });
        }
    });
    drop(tee);
    let sorted = |store: &MemorySink| {
        let mut counts = counts(store);
        counts.sort();
        counts
    };
    assert_eq!(sorted(&first), sorted(&second));
    assert_eq!(first.len(), 200);
    assert!(second.events().iter().all(|event| event.count == 3));
}

#[test]
fn a_recording_keeps_warnings_in_one_place_and_all_in_another() {
    let clock = clock();
    let (all, is_down) = switched(&clock);
    let warnings = MemorySink::new();
    let only = Filter::new(|event: &Event| event.event_type() == Some(Warning), warnings.clone());
    let tee = Arc::new(Tee::new(only, all.clone()));
    let events = EventBroadcaster::builder().clock(clock.clock()).build().unwrap();
    let recording = events.recording().retry(at_once()).start(tee.clone()).unwrap();
    let recorder = events.new_recorder("tester");
    is_down.store(true, Ordering::SeqCst);
    for (type_, reason) in [(Normal, "Started"), (Warning, "BackOff"), (Warning, "BackOff")] {
        recorder.event(pod("web-0"), type_, reason, "message");
        // The repeat is a write of its own.
        events.flush(crate::support::LONG).unwrap();
    }
    let done = recording.stats();
    assert_eq!((done.created, done.updated, done.retried), (2, 1, 0), "{done:?}");
    assert_eq!(
        warnings.events().iter().map(|e| (e.reason.as_str(), e.count)).collect::<Vec<_>>(),
        [("BackOff", 2)]
    );
    assert_eq!((all.store.len(), tee.stats()), (0, stats(0, 3)));

    is_down.store(false, Ordering::SeqCst);
    recorder.event(pod("web-0"), Warning, "BackOff", "message");
    events.flush(crate::support::LONG).unwrap();
    recorder.event(pod("web-1"), Normal, "Started", "message");
    assert!(events.shutdown().complete);
    let kept: Vec<_> = all.store.events().iter().map(|e| (e.reason.to_string(), e.count)).collect();
    assert_eq!(kept, [("BackOff", 3), ("Started", 1)].map(|(r, c)| (r.to_owned(), c)));
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings.events()[0].metadata.name, all.store.events()[0].metadata.name);
}

#[test]
fn a_filter_answers_for_what_it_refuses() {
    let store = MemorySink::new();
    let asked = Arc::new(AtomicU64::new(0));
    let counted = asked.clone();
    let keep = move |event: &Event| {
        counted.fetch_add(1, Ordering::SeqCst);
        assert!(event.reason != "Panic", "told to");
        event.type_ == "Warning"
    };
    let sink = Filter::new(keep, store.clone());
    let normal = event("a");
    let mut warning = event("b");
    warning.type_ = "Warning".into();
    let mut panics = event("c");
    panics.reason = "Panic".into();

    let again = patched(&normal, 2);
    assert_eq!(sink.create(&normal).unwrap(), normal);
    assert_eq!(sink.patch(&again).unwrap(), again);
    assert_eq!(sink.update(&normal).unwrap(), normal);
    assert!(store.is_empty());
    assert_eq!(
        sink.create(&panics).unwrap_err().to_string(),
        "rejected: the function of a filter panicked: told to"
    );

    let answers = sink.apply(&mut [
        SinkOp::Create(normal.clone()),
        SinkOp::Create(warning.clone()),
        SinkOp::Create(panics),
        SinkOp::Create(warning.clone()),
        SinkOp::Patch(again.clone()),
    ]);
    let answers: Vec<_> = answers.iter().map(|answer| answer.as_ref().map_err(SinkError::kind)).collect();
    assert_eq!(answers[0], Ok(&Stored::from(&normal)));
    assert_eq!(answers[1], Ok(&Stored::from(&store.events()[0])));
    assert_eq!(answers[2], Err(SinkErrorKind::Rejected));
    assert_eq!(answers[3], Err(SinkErrorKind::AlreadyExists));
    assert_eq!(answers[4], Ok(&Stored::from(&again)));
    assert_eq!(asked.load(Ordering::SeqCst), 9);

    // The filter refused this event before and lets it through now. The store does not have it, so
    // the recording creates it.
    let mut late = patched(&normal, 3);
    late.type_ = "Warning".into();
    assert_eq!(sink.patch(&late).unwrap_err().kind(), SinkErrorKind::NotFound);
    assert!(sink.apply(&mut []).is_empty());
}

#[test]
fn an_event_that_a_filter_lets_through_late_is_created_with_its_count() {
    let store = MemorySink::new();
    let sink = Filter::new(|event: &Event| event.count >= 3, store.clone());
    let events = EventBroadcaster::new().unwrap();
    let recording = events.start_recording_to_sink(sink).unwrap();
    for _ in 0..4 {
        events.new_recorder("tester").event(pod("web-0"), Warning, "BackOff", "message");
        // Each occurrence is a write of its own.
        events.flush(crate::support::LONG).unwrap();
    }
    assert!(events.shutdown().complete);
    assert_eq!(recording.stats().recreated, 1);
    assert_eq!(store.events().iter().map(|event| event.count).collect::<Vec<_>>(), [4]);
}

/// A recording asks the sink that it has, however many others are behind that one.
#[test]
fn a_sink_of_sinks_keeps_events_for_the_shorter_time() {
    let store = |seconds| {
        let options = MemorySinkOptions::default().ttl(Duration::from_secs(seconds));
        MemorySink::with_options(options).unwrap()
    };
    let log = || JsonLinesSink::new(std::io::sink());
    let ttl = |sink: Box<dyn EventSink>| Arc::new(sink).ttl().map(|time| time.as_secs());
    assert_eq!(ttl(Box::new(Tee::new(store(5), store(7)))), Some(5));
    assert_eq!(ttl(Box::new(Tee::new(store(7), store(5)))), Some(5));
    assert_eq!(ttl(Box::new(Tee::new(store(7), log()))), Some(7));
    assert_eq!(ttl(Box::new(Tee::new(log(), store(7)))), Some(7));
    assert_eq!(ttl(Box::new(Tee::new(log(), log()))), None);
    assert_eq!(ttl(Box::new(Filter::new(|_: &Event| true, store(3)))), Some(3));
    assert_eq!(ttl(Box::new(Filter::new(|_: &Event| true, log()))), None);
}
