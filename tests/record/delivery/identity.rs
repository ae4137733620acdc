//! Which stored event a pending write is about: its name and version, while answers arrive, and
//! while the correlator evicts what it knows.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use eventcast::correlator::SpamFilter;
use eventcast::sink::{MemorySinkOptions, SinkErrorKind, SinkOp, WriteOrder};
use eventcast::{CorrelatorOptions, Event, EventSink, MemorySink, SinkError};

use crate::support::{LONG, Scripted, assert_balanced, clock, event_of, record, short, until};

use super::{PAUSE, broadcaster, calls_of, turnstile, without_budget};

/// Returns the names of the events of a sink's calls.
fn names_of(sink: &Scripted) -> Vec<String> {
    sink.calls().iter().map(|op| event_of(op).metadata.name.to_string()).collect()
}

/// The correlator has evicted an event whose write waits, and has begun another one of the same
/// key, which the spam filter skipped. A repeat of the other event does not change the write that
/// waits.
#[test]
fn a_repeat_of_another_event_does_not_replace_a_write() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (sink, calls) =
        Scripted::new(&clock, |number, _| if number == 0 { Err(SinkError::retry("busy")) } else { Ok(()) });
    // A burst of two events, and one more each second.
    let budget = SpamFilter::default().burst(2).qps(1.0);
    let options = CorrelatorOptions::default().aggregation(None).spam_filter(budget).lru_cache_size(1);
    let recording = events.recording().correlator(options).start(sink.clone()).unwrap();
    record(&events, "web-0", "A");
    calls.recv_timeout(LONG).unwrap();
    clock.wait_for_waiters(1);
    record(&events, "web-0", "B");
    calls.recv_timeout(LONG).unwrap();
    record(&events, "web-0", "A");
    until(|| recording.stats().skipped == 1);
    clock.advance(Duration::from_secs(1));
    record(&events, "web-0", "A");
    for _ in 0..2 {
        calls.recv_timeout(LONG).unwrap();
    }
    clock.advance(PAUSE);
    events.flush(LONG).unwrap();
    assert_eq!(calls_of(&sink), ["create A x1", "create B x1", "patch A x2", "create A x2", "create A x1"]);
    let names = names_of(&sink);
    assert!(names[0] == names[4] && names[2] == names[3] && names[0] != names[2], "{names:?}");
    let stored = sink.store.events();
    let count = |name: &String| stored.iter().find(|event| event.metadata.name == **name).unwrap().count;
    assert_eq!((count(&names[0]), count(&names[2])), (1, 2));
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.skipped, stats.coalesced, stats.lost()), (1, 0, 0));
}

/// A store that gives each new event another name than it was sent with. It notes its operations.
struct Renames {
    store: MemorySink,
    calls: Mutex<Vec<SinkOp>>,
    created: Mutex<Vec<Event>>,
    before: Box<dyn Fn() + Send + Sync>,
}

impl EventSink for Renames {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.calls.lock().unwrap().push(SinkOp::Create(event.clone()));
        (self.before)();
        let mut event = event.clone();
        event.metadata.name = format!("stored-{}", event.metadata.name).into();
        let stored = self.store.create(&event)?;
        self.created.lock().unwrap().push(stored.clone());
        Ok(stored)
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.calls.lock().unwrap().push(SinkOp::Update(event.clone()));
        self.store.update(event)
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.calls.lock().unwrap().push(SinkOp::Patch(event.clone()));
        self.store.patch(event)
    }
}

/// A repeat that becomes pending while the store creates the event is written with the name and the
/// version of the answer.
#[test]
fn a_pending_write_has_the_name_and_version_of_the_stored_event() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (turnstile, pass) = turnstile();
    let store = MemorySink::with_clock(MemorySinkOptions::default(), clock.clock()).unwrap();
    let sink = Arc::new(Renames {
        store: store.clone(),
        calls: Mutex::default(),
        created: Mutex::default(),
        before: Box::new(pass),
    });
    let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    turnstile.wait();
    (0..2).for_each(|_| record(&events, "web-0", "Started"));
    // The event at the sink counts against the queue, and so does one event of the pending write.
    until(|| recording.stats().watcher.offered == 3 && recording.stats().watcher.lag == 2);
    drop(turnstile);
    events.flush(LONG).unwrap();
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();
    let calls = sink.calls.lock().unwrap();
    assert_eq!(
        calls.iter().map(short).collect::<Vec<_>>(),
        ["create Started x1", "patch Started x3", "patch Started x4"]
    );
    let (created, pending) = (&sink.created.lock().unwrap()[0].metadata, &event_of(&calls[1]).metadata);
    assert_eq!(pending.name, created.name);
    assert_eq!(pending.resource_version(), created.resource_version());
    assert_eq!(store.events().iter().map(|event| event.count).collect::<Vec<_>>(), [4]);
    assert_balanced(&recording.stats());
}

/// In the order of the bus, the sink gets a creation and the change after it together. If the name
/// of the creation is taken, the change goes to the new name too, and not to the event of another
/// writer.
#[test]
fn a_change_that_the_sink_has_not_reached_gets_the_new_name() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (turnstile, pass) = turnstile();
    let (sink, _calls) = Scripted::new(&clock, move |number, _| match number {
        0 => {
            pass();
            Ok(())
        }
        1 => Err(SinkError::new(SinkErrorKind::AlreadyExists, "taken")),
        _ => Ok(()),
    });
    let builder = events.recording().correlator(without_budget()).order(WriteOrder::Bus);
    let recording = builder.start(sink.clone()).unwrap();
    record(&events, "web-0", "First");
    turnstile.wait();
    for reason in ["A", "A", "B", "A"] {
        record(&events, "web-0", reason);
    }
    until(|| recording.stats().watcher.offered == 5);
    drop(turnstile);
    events.flush(LONG).unwrap();
    let expected =
        ["create First x1", "create A x1", "create A x1", "patch A x2", "create B x1", "patch A x3"];
    assert_eq!(calls_of(&sink), expected);
    let names = names_of(&sink);
    assert_ne!(names[1], names[2]);
    assert_eq!((&names[3], &names[5]), (&names[2], &names[2]));
    assert_balanced(&recording.stats());
}

/// The answer of the store about an event is a use of the correlator's entry for it. An event that
/// was decided before the answer is evicted first.
#[test]
fn an_answer_of_the_store_keeps_an_event_in_the_cache() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (turnstile, pass) = turnstile();
    let (sink, _calls) = Scripted::new(&clock, move |number, _| {
        if number < 2 {
            pass();
        }
        Ok(())
    });
    // The correlator calls the function at the end of each decision.
    let (decided_tx, decided) = mpsc::channel();
    let options = CorrelatorOptions::default().aggregation(None).lru_cache_size(2).spam_key(move |event| {
        let _ = decided_tx.send(event.reason.to_string());
        event.involved_object.name.clone()
    });
    let recording = events.recording().correlator(options).start(sink.clone()).unwrap();
    let decide = |reason: &str| {
        record(&events, "web-0", reason);
        assert_eq!(decided.recv_timeout(LONG).as_deref(), Ok(reason));
    };
    decide("A");
    turnstile.wait();
    decide("B");
    turnstile.let_one_pass();
    // The sink gets B after the recording has taken in the answer about A.
    turnstile.wait();
    decide("C");
    decide("A");
    drop(turnstile);
    events.flush(LONG).unwrap();
    assert_eq!(calls_of(&sink), ["create A x1", "create B x1", "create C x1", "patch A x2"]);
    assert_eq!(recording.stats().evicted, 1);
    assert_balanced(&recording.stats());
}
