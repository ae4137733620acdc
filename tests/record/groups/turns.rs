//! The moments at which a place becomes free, and who gets it.

use std::time::Duration;

use eventcast::SinkError;
use eventcast::sink::SinkErrorKind;

use super::{PAUSE, Setup, setup};
use crate::support::{LONG, gate, until};

fn no_answer() -> SinkError {
    SinkError::new(SinkErrorKind::GroupUnavailable, "no answer within 30s")
}

fn pause(setup: &Setup) {
    setup.clock.wait_for_waiters(1);
    setup.clock.advance(PAUSE);
}

/// A group that may use every place if no other one has anything to send.
#[test]
fn a_healthy_group_is_not_held_down_by_what_waits_of_a_closed_one() {
    let setup = setup(16, |builder| builder);
    setup.store("good/0");
    setup.store("bad/0");
    for number in 1..=3 {
        setup.record(&format!("bad/{number}"));
    }
    setup.sink.wait_for(&["bad/1 Run", "bad/2 Run", "bad/3 Run"]);
    for number in 1..=3 {
        setup.fail(&format!("bad/{number} Run"), no_answer());
    }
    setup.outages.recv_timeout(LONG).unwrap();
    // One that waits in the lane.
    setup.record("bad/4");
    setup.wait_until_offered(6);
    for number in 1..=20 {
        setup.record(&format!("good/{number}"));
    }
    setup.wait_until_offered(26);
    until(|| setup.sink.of("good") == 12);
}

/// The hook moves the clock after the driver has looked for work and before it sleeps.
#[test]
fn a_probe_that_becomes_due_just_before_the_driver_sleeps_is_not_missed() {
    let setup = setup_with_hook();
    for name in ["good/0", "bad/0", "slow/0"] {
        setup.store(name);
    }
    setup.record("bad/1");
    setup.sink.wait_for(&["bad/1 Run"]);
    setup.fail("bad/1 Run", SinkError::retry("busy"));
    until(|| setup.recording.stats().last_failure.is_some());
    pause(&setup);
    setup.sink.wait_for(&["bad/1 Run"]);
    // Its second failure: it waits for 20 s, and the group for 10 s.
    setup.fail("bad/1 Run", no_answer());
    assert!(setup.outages.recv_timeout(LONG).unwrap().starts_with("bad"));
    setup.record("bad/2");
    setup.record("slow/1");
    setup.sink.wait_for(&["slow/1 Run"]);
    setup.clock.wait_for_waiters(1);
    setup.clock.advance(Duration::from_millis(250));
    assert!(setup.outages.recv_timeout(LONG).unwrap().starts_with("slow"));
    // The hook has advanced the clock by ten seconds, so that the probe is due.
    setup.sink.wait_for(&["bad/2 Run", "slow/1 Run"]);
}

fn setup_with_hook() -> Setup {
    use eventcast::record::Outage;
    use eventcast::{EventBroadcaster, RetryPolicy};
    use std::sync::mpsc;
    let clock = crate::support::clock();
    let (_, losses) = mpsc::channel();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .retry(RetryPolicy::default().factor(2).jitter(eventcast::record::Jitter::Never))
        .build()
        .unwrap();
    let (tx, outages) = mpsc::channel();
    let hooks = clock.clone();
    let on_outage = move |outage: &Outage<'_>| {
        let group = outage.group.unwrap_or_default();
        if group == "slow" {
            hooks.advance(PAUSE);
        }
        tx.send(format!("{group}: {:?}", outage.cause)).unwrap();
    };
    let sink = super::Held::new(16);
    let recording = events.recording().on_outage(on_outage).start(sink.clone()).unwrap();
    Setup { clock, events, recording, sink, outages, losses }
}

/// Two workers: the second one wakes when the first one has done both operations' worth of work.
#[test]
fn a_worker_that_wakes_too_late_for_its_operation_gets_the_next_one() {
    use eventcast::{Event, EventBroadcaster, EventSink, EventType, ObjectReference};
    use std::sync::{Arc, Condvar, Mutex};

    /// `slow` ends when `next` has been written. The driver waits with the first event of a round
    /// until all three are there.
    #[derive(Clone, Default)]
    struct Pair(Arc<(Mutex<(u64, u64)>, Condvar)>);

    impl Pair {
        fn wait(&self, is_done: impl Fn(&(u64, u64)) -> bool) -> bool {
            let (state, changed) = &*self.0;
            let state = state.lock().unwrap();
            let limit = Duration::from_secs(20);
            let (state, timeout) = changed.wait_timeout_while(state, limit, |state| !is_done(state)).unwrap();
            drop(state);
            !timeout.timed_out()
        }

        fn set(&self, set: impl FnOnce(&mut (u64, u64))) {
            set(&mut self.0.0.lock().unwrap());
            self.0.1.notify_all();
        }
    }

    impl EventSink for Pair {
        fn create(&self, event: &Event) -> Result<Event, SinkError> {
            let object = &event.involved_object;
            let number: u64 = object.name.parse().unwrap();
            match &*object.namespace {
                "next" => self.set(|state| state.1 = number),
                "slow" => assert!(self.wait(|state| state.1 >= number), "the other worker has nothing to do"),
                _ => {}
            }
            Ok(event.clone())
        }

        fn patch(&self, event: &Event) -> Result<Event, SinkError> {
            self.create(event)
        }

        fn group<'e>(&self, event: &'e Event) -> &'e str {
            let number: u64 = event.involved_object.name.parse().unwrap();
            assert!(self.wait(|state| state.0 >= number));
            &event.involved_object.namespace
        }
    }

    let clock = crate::support::clock();
    let events = EventBroadcaster::builder().clock(clock.clock()).build().unwrap();
    let sink = Pair::default();
    let recording = events.recording().workers(2).start(sink.clone()).unwrap();
    let recorder = events.recorder("tester");
    for round in 1..=20_000_u64 {
        for namespace in ["quick", "slow", "next"] {
            let object = ObjectReference::new("Pod", round.to_string()).in_namespace(namespace);
            recorder.event(object, EventType::Normal, "Run", "it runs");
        }
        sink.set(|state| state.0 = round);
        until(|| recording.stats().created + recording.stats().rejected == 3 * round);
        let stats = recording.stats();
        assert_eq!(stats.rejected, 0, "round {round}: {stats}");
    }
}

/// A store that takes batches, and has two groups, gets batches that grow as with one group.
#[test]
fn batches_grow_although_there_are_groups() {
    use eventcast::sink::{SinkBatch, SinkMode, Stored};
    use eventcast::{Event, EventBroadcaster, EventSink, EventType, ObjectReference};
    use std::sync::{Arc, Mutex, mpsc};

    struct Batches(Arc<Mutex<Vec<usize>>>, Mutex<mpsc::Receiver<()>>);

    impl EventSink for Batches {
        fn create(&self, event: &Event) -> Result<Event, SinkError> {
            Ok(event.clone())
        }
        fn patch(&self, event: &Event) -> Result<Event, SinkError> {
            Ok(event.clone())
        }
        fn mode(&self) -> SinkMode {
            SinkMode::Batches
        }
        fn group<'e>(&self, event: &'e Event) -> &'e str {
            &event.involved_object.namespace
        }
        fn submit(&self, batch: SinkBatch) {
            // Until all have been recorded.
            let _ = self.1.lock().unwrap().recv();
            self.0.lock().unwrap().push(batch.ops().len());
            batch.answer_each(|op| Ok(Stored::from(op.event())));
        }
    }

    let clock = crate::support::clock();
    let events = EventBroadcaster::builder().clock(clock.clock()).build().unwrap();
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let (go, wait) = mpsc::channel();
    let sink = Batches(sizes.clone(), Mutex::new(wait));
    let recording = events
        .recording()
        .queue_len(16_384)
        .group_queue_len(16_384)
        .correlator(eventcast::CorrelatorOptions::default().spam_filter(None))
        .start(sink)
        .unwrap();
    let recorder = events.recorder("tester");
    for number in 0..4000_u64 {
        let object =
            ObjectReference::new("Pod", number.to_string()).in_namespace(["a", "b"][number as usize % 2]);
        assert!(recorder.event(object, EventType::Normal, "Run", "it runs").is_accepted());
        until(|| recording.stats().watcher.offered == number + 1);
    }
    drop(go);
    events.flush(LONG).unwrap();
    let sizes = sizes.lock().unwrap();
    assert!(sizes.len() < 100, "{} batches, the largest of {:?}", sizes.len(), sizes.iter().max());
}

/// The text about a slow group is not that of an earlier failure.
#[test]
fn a_group_that_was_closed_and_served_in_one_round_leaves_no_text() {
    use eventcast::sink::{SinkBatch, SinkMode, Stored};
    use eventcast::{Event, EventSink};
    use std::sync::{Arc, Mutex};

    /// Keeps whole batches, until the end. The recording waits at the gate when it asks for the
    /// group of `x`.
    #[derive(Clone)]
    struct Whole(Arc<Mutex<Option<Vec<SinkBatch>>>>, Arc<dyn Fn() + Send + Sync>);

    impl EventSink for Whole {
        fn create(&self, event: &Event) -> Result<Event, SinkError> {
            Ok(event.clone())
        }
        fn patch(&self, event: &Event) -> Result<Event, SinkError> {
            Ok(event.clone())
        }
        fn mode(&self) -> SinkMode {
            SinkMode::InFlight(16)
        }
        fn group<'e>(&self, event: &'e Event) -> &'e str {
            if &*event.involved_object.name == "x" {
                (self.1)();
            }
            &event.involved_object.namespace
        }
        fn submit(&self, batch: SinkBatch) {
            match &mut *self.0.lock().unwrap() {
                Some(kept) => kept.push(batch),
                None => batch.answer_each(|op| Ok(Stored::from(op.event()))),
            }
        }
    }

    let clock = crate::support::clock();
    let events = eventcast::EventBroadcaster::builder().clock(clock.clock()).build().unwrap();
    let (tx, outages) = std::sync::mpsc::channel();
    let (gate, pass) = gate();
    let sink = Whole(Arc::new(Mutex::new(Some(Vec::new()))), Arc::new(pass));
    let recording = events
        .recording()
        .on_outage(move |outage| tx.send(outage.to_string()).unwrap())
        .start(sink.clone())
        .unwrap();
    let record = |namespace: &'static str, name: &'static str| {
        let object = eventcast::ObjectReference::new("Pod", name).in_namespace(namespace);
        assert!(
            events
                .recorder("tester")
                .event(object, eventcast::EventType::Normal, "Run", "it runs")
                .is_accepted()
        );
    };
    let next = || {
        let take = || sink.0.lock().unwrap().as_mut().and_then(|kept| kept.drain(..1.min(kept.len())).next());
        let mut taken = None;
        until(|| {
            taken = take();
            taken.is_some()
        });
        taken.unwrap()
    };
    let store = |batch: SinkBatch| batch.answer_each(|op| Ok(Stored::from(op.event())));
    for group in ["good", "bad"] {
        record(group, "0");
        store(next());
    }
    until(|| recording.stats().created == 2);
    // Two events of `bad` that the recording takes in together.
    record("bad", "x");
    gate.entered.recv_timeout(LONG).unwrap();
    record("bad", "y");
    until(|| recording.stats().watcher.offered == 4);
    drop(gate);
    let both = next();
    assert_eq!(both.ops().len(), 2);
    let stored = Stored::from(both.ops()[1].event());
    both.answer([Err(SinkError::new(SinkErrorKind::GroupUnavailable, "no answer")), Ok(stored)]);
    until(|| recording.stats().last_failure.is_some());
    record("good", "1");
    store(next());
    record("bad", "slow");
    let slow = next();
    clock.wait_for_waiters(1);
    clock.advance(Duration::from_millis(250));
    let told = outages.recv_timeout(LONG).unwrap();
    store(slow);
    // The clock may have begun another attempt.
    sink.0.lock().unwrap().take().into_iter().flatten().for_each(store);
    assert!(told.ends_with("an operation takes more than 250 ms"), "{told}");
}
