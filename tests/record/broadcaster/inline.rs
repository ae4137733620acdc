//! An event broadcaster without a dispatcher, where recorders offer the events themselves.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::{iter, thread};

use eventcast::EventType::Normal;
use eventcast::record::{EventBroadcasterBuilder, LossReason, RecordingBuilder};
use eventcast::stats::DropReason;
use eventcast::{
    BusOptions, CorrelatorOptions, Delivery, Event, EventBroadcaster, MemorySink, ObjectReference,
    OverflowPolicy, Recorded, Recorder,
};

use crate::support::{LONG, Scripted, assert_balanced, clock, clocked, gate, pod, record, with_losses};

fn inline() -> EventBroadcasterBuilder {
    EventBroadcaster::builder().bus(BusOptions::default().inline(true))
}

/// Records an event about the pod with the given name.
fn note(recorder: &Recorder, name: &str) -> Recorded {
    recorder.event(pod(name), Normal, "Started", "up")
}

/// Returns whether filters run on the recording thread.
fn is_inline(events: &EventBroadcaster) -> bool {
    let (tx, rx) = channel();
    let filter = move |_: &Event| tx.send(thread::current().id()).is_ok();
    let watcher = events.watch_builder().filter(filter).watch().unwrap();
    record(events, "web-0", "Started");
    let filtered_on = rx.recv_timeout(LONG).unwrap();
    drop(watcher);
    filtered_on == thread::current().id()
}

#[test]
fn the_bus_options_make_a_broadcaster_inline() {
    assert!(is_inline(&EventBroadcaster::new_inline()));
    assert!(is_inline(&inline().build().unwrap()));
    assert!(!is_inline(&EventBroadcaster::new().unwrap()));
    assert!(!is_inline(&inline().bus(BusOptions::default()).build().unwrap()));
}

/// When the recorder returns, the event and its name are in every queue, whichever thread recorded
/// the event.
#[test]
fn an_event_is_in_the_queues_when_its_call_returns() {
    let events = EventBroadcaster::new_inline();
    thread::scope(|scope| {
        for thread in 0..4 {
            let name = format!("web-{thread}");
            let own = name.clone();
            let filter = move |event: &Event| event.involved_object.name == *own;
            let mut watcher = events.watch_builder().filter(filter).watch().unwrap();
            let recorder = events.recorder("tester");
            scope.spawn(move || {
                for _ in 0..500 {
                    assert!(note(&recorder, &name).is_accepted());
                    let Ok(Delivery::Event(event)) = watcher.try_recv() else { panic!("it is not there") };
                    assert!(event.metadata.name.starts_with(&format!("{name}.")), "{event:?}");
                }
            });
        }
    });
    assert_eq!(events.stats().bus.accepted, 4 * 500);
}

/// A recording's queue has the combined capacity of the two queues that a broadcaster with a
/// dispatcher has, because there is no incoming queue to absorb a burst. Watchers use the
/// configured capacity.
#[test]
fn a_burst_as_long_as_both_queues_waits_for_a_sink_that_hangs() {
    let short = BusOptions::default().incoming_capacity(3).queue_capacity(4);
    for (bus, own, fits, watched) in
        [(BusOptions::default(), None, 2000, 1000), (short.clone(), None, 7, 4), (short, Some(2), 2, 4)]
    {
        let clock = clock();
        let builder = clocked(&clock).bus(bus.inline(true));
        let (events, losses) = with_losses(builder, |loss| (loss.reason, loss.place.to_owned(), loss.count));
        let watcher = events.watch_builder().watch().unwrap();
        let (gate, sink) = Scripted::gated(&clock, ..);
        let builder = events.recording().correlator(CorrelatorOptions::off());
        let builder = own.into_iter().fold(builder, RecordingBuilder::queue_capacity);
        let recording = builder.start(sink.clone()).unwrap();
        let recorder = events.recorder("tester");
        for number in 0..fits {
            assert!(note(&recorder, &format!("web-{number}")).is_accepted());
        }
        assert_eq!(recording.stats().watcher.dropped.total(), 0);
        assert_eq!(watcher.len(), fits.min(watched));
        losses.try_iter().for_each(drop);
        assert!(note(&recorder, "one-too-many").is_accepted());
        let lost = (LossReason::Dropped(DropReason::Incoming), "recording".to_owned(), 1);
        assert!(losses.try_iter().any(|loss| loss == lost));
        drop(gate);
        events.flush(LONG).unwrap();
        assert_eq!((sink.store.len(), recording.stats().created), (fits, fits as u64));
        assert_balanced(&recording.stats());
    }
}

#[test]
fn the_longest_queues_are_no_error_of_a_recording() {
    let longest = BusOptions::default().incoming_capacity(1 << 24).queue_capacity(1 << 24);
    let events = EventBroadcaster::builder().bus(longest.inline(true)).build().unwrap();
    assert!(events.record_to(MemorySink::new()).is_ok());
}

/// A recorder does not wait even for a recording with the `Wait` policy. The recorder returns
/// `Full`, no watcher or recording receives the event, and the event is counted and reported once.
#[test]
fn a_recording_that_is_waited_for_refuses_for_all() {
    let clock = clock();
    let (events, losses) = with_losses(inline().clock(clock.clock()), |loss| {
        (loss.reason, loss.place.to_owned(), loss.events[0].involved_object.name.to_string())
    });
    let watcher = events.watch_builder().watch().unwrap();
    let (gate, sink) = Scripted::gated(&clock, ..);
    let builder = events.recording().queue_capacity(2).overflow(OverflowPolicy::Wait);
    let recording = builder.start(sink.clone()).unwrap();
    let recorder = events.recorder("tester");
    let outcomes = ["a", "b", "c"].map(|name| note(&recorder, name));
    assert_eq!(outcomes, [Recorded::Accepted, Recorded::Accepted, Recorded::Full]);
    assert_eq!(watcher.len(), 2);
    let stats = events.stats();
    assert_eq!((stats.bus.accepted, stats.bus.rejected_full, stats.recorder.full), (2, 1, 1));
    let lost: Vec<_> = losses.try_iter().collect();
    assert_eq!(lost, [(LossReason::QueueFull, "tester".to_owned(), "c".to_owned())]);
    drop(gate);
    events.flush(LONG).unwrap();
    assert!(note(&recorder, "d").is_accepted());
    assert!(events.shutdown().complete);
    assert_eq!((sink.store.len(), recording.stats().created), (3, 3));
}

/// If a filter records an event, that event is delivered after the event that the filter was called
/// for.
#[test]
fn a_filter_may_record() {
    let events = EventBroadcaster::new_inline();
    let recorder = events.recorder("filter");
    let filter = move |event: &Event| {
        if event.reason == "Started" {
            let object = event.involved_object.clone();
            assert!(recorder.event(object, Normal, "Seen", "by the filter").is_accepted());
        }
        true
    };
    let mut watcher = events.watch_builder().filter(filter).watch().unwrap();
    let store = MemorySink::new();
    events.record_to(store.clone()).unwrap();
    for _ in 0..3 {
        record(&events, "web-0", "Started");
    }
    let reasons: Vec<_> =
        iter::from_fn(|| watcher.try_recv().ok()?.event()).map(|event| event.reason).collect();
    assert_eq!(reasons, ["Started", "Seen"].repeat(3));
    assert!(events.shutdown().complete);
    let counts: Vec<_> = store.events().iter().map(|event| (event.reason.to_string(), event.count)).collect();
    assert_eq!(counts, [("Started".to_owned(), 3), ("Seen".to_owned(), 3)]);
}

/// If a hook records an event for each loss, it causes further losses. The chain of losses ends
/// within the call that started it, after as many events as `incoming_capacity` allows. Events
/// refused after that are counted.
#[test]
fn a_hook_that_records_what_is_lost_ends() {
    let recorder: Arc<OnceLock<Recorder>> = Arc::default();
    let (own, calls) = (recorder.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = calls.clone();
    let bus = BusOptions::default().queue_capacity(1).incoming_capacity(5);
    let hook = move |_: &eventcast::record::Loss<'_>| {
        counted.fetch_add(1, Ordering::SeqCst);
        let _ = note(own.get().unwrap(), "loss");
    };
    let events = EventBroadcaster::builder().bus(bus.inline(true)).on_loss(hook).build().unwrap();
    recorder.set(events.recorder("hook")).unwrap();
    let watcher = events.watch_builder().watch().unwrap();
    assert!(note(&events.recorder("tester"), "first").is_accepted());
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    assert!(note(&events.recorder("tester"), "second").is_accepted());
    // The hook was called once for the second event, and once for each event that the hook
    // recorded.
    assert_eq!(calls.load(Ordering::SeqCst), 6);
    assert_eq!((watcher.stats().dropped.incoming, events.stats().recorder.full), (6, 1));
}

/// `scrub` runs before the lock is acquired, so a filter running in another call does not delay
/// `scrub`.
#[test]
fn scrubbing_waits_for_no_filter() {
    let (scrubbed_tx, scrubbed) = channel();
    let scrub = move |event: &mut Event| scrubbed_tx.send(event.involved_object.name.to_string()).unwrap();
    let events = inline().scrub(scrub).build().unwrap();
    let (gate, pass) = gate();
    let held = Mutex::new(true);
    let filter = move |_: &Event| {
        if std::mem::take(&mut *held.lock().unwrap()) {
            pass();
        }
        true
    };
    let watcher = events.watch_builder().filter(filter).watch().unwrap();
    thread::scope(|scope| {
        let [first, second] = [(); 2].map(|()| events.recorder("tester"));
        scope.spawn(move || note(&first, "first"));
        gate.wait();
        assert_eq!(scrubbed.recv_timeout(LONG).unwrap(), "first");
        scope.spawn(move || note(&second, "second"));
        assert_eq!(scrubbed.recv_timeout(LONG).unwrap(), "second");
        assert_eq!(watcher.len(), 0, "the filter still holds the first event");
        drop(gate);
    });
    assert_eq!(watcher.len(), 2);
}

/// A full watcher's filter is called before the event is accepted. Like every filter, it receives
/// the event with its name already set.
#[test]
fn the_filter_of_a_full_watcher_sees_the_name_of_an_event() {
    let options = BusOptions::default().inline(true).queue_capacity(1).overflow(OverflowPolicy::Wait);
    let events = EventBroadcaster::builder().bus(options).build().unwrap();
    let (seen_tx, seen) = channel();
    let filter = move |event: &Event| {
        seen_tx.send(event.metadata.name.to_string()).unwrap();
        event.reason == "A"
    };
    let watcher = events.watch_builder().filter(filter).watch().unwrap();
    let recorder = events.recorder("test");
    for reason in ["A", "B"] {
        assert!(recorder.event(ObjectReference::new("Pod", "web-0"), Normal, reason, "").is_accepted());
    }
    let names: Vec<_> = seen.try_iter().collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().all(|name| name.starts_with("web-0.")), "{names:?}");
    drop(watcher);
}
