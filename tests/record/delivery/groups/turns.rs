//! When a place becomes free and which group gets it.

use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use eventcast::sink::{SinkBatch, SinkMode, Stored};
use eventcast::{Event, EventSink, SinkError};

use crate::delivery::PAUSE;
use crate::support::{LONG, clock, clocked, every_ten_seconds, gate, pod, until};

use super::{no_answer, setup, setup_on};

/// The healthy group may use every place if no other group has events to send.
#[test]
fn events_that_wait_in_a_closed_group_take_no_places_from_a_healthy_one() {
    let setup = setup(16, |builder| builder);
    setup.store("good/0");
    setup.store("bad/0");
    setup.record_all("bad", 1..=3);
    setup.sink.wait_for(&["bad/1 Run", "bad/2 Run", "bad/3 Run"]);
    for number in 1..=3 {
        setup.fail(&format!("bad/{number} Run"), no_answer());
    }
    setup.outage();
    // This event waits in the group's lane.
    setup.record("bad/4");
    setup.wait_until_offered(6);
    setup.record_all("good", 1..=20);
    setup.wait_until_offered(26);
    until(|| setup.sink.of("good") == 12);
}

/// The hook advances the clock after the driver has checked for work and before the driver goes to
/// sleep.
#[test]
fn a_probe_that_becomes_due_just_before_the_driver_sleeps_is_not_missed() {
    let clock = clock();
    let (hooks, (tx, outages)) = (clock.clone(), mpsc::channel());
    let builder = clocked(&clock).retry(every_ten_seconds().factor(2));
    let setup = setup_on(builder, clock, 16, |builder| {
        builder.on_outage(move |outage| {
            let group = outage.group.unwrap_or_default();
            if group == "slow" {
                hooks.advance(PAUSE);
            }
            tx.send(group.to_owned()).unwrap();
        })
    });
    setup.store_all(&["good/0", "bad/0", "slow/0"]);
    setup.record_failing("bad/1", SinkError::retry("busy"));
    setup.pass(PAUSE);
    setup.sink.wait_for(&["bad/1 Run"]);
    // After this second failure, the event waits for 20 s and the group waits for 10 s.
    setup.fail("bad/1 Run", no_answer());
    assert_eq!(outages.recv_timeout(LONG).unwrap(), "bad");
    setup.record("bad/2");
    setup.record("slow/1");
    setup.sink.wait_for(&["slow/1 Run"]);
    setup.pass(Duration::from_millis(250));
    assert_eq!(outages.recv_timeout(LONG).unwrap(), "slow");
    // The hook has advanced the clock by ten seconds, so the probe is due.
    setup.sink.wait_for(&["bad/2 Run", "slow/1 Run"]);
}

/// A sink for two workers. The write of `slow` finishes once `next` has been written. The driver
/// holds the first event of a round until all three have been recorded.
#[derive(Clone, Default)]
struct Pair(Arc<(Mutex<(u64, u64)>, Condvar)>);

impl Pair {
    fn wait(&self, is_done: impl Fn(&(u64, u64)) -> bool) -> bool {
        let (state, changed) = &*self.0;
        let limit = Duration::from_secs(20);
        let waiting = changed.wait_timeout_while(state.lock().unwrap(), limit, |state| !is_done(state));
        !waiting.unwrap().1.timed_out()
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

/// The second worker may wake up only after the first worker has begun both operations.
#[test]
fn a_worker_that_wakes_too_late_for_its_operation_gets_the_next_one() {
    let events = clocked(&clock()).build().unwrap();
    let sink = Pair::default();
    let recording = events.recording().workers(2).start(sink.clone()).unwrap();
    let recorder = events.recorder("tester");
    for round in 1..=20_000_u64 {
        for namespace in ["quick", "slow", "next"] {
            recorder.normal(pod(&round.to_string()).in_namespace(namespace), "Run", "it runs");
        }
        sink.set(|state| state.0 = round);
        until(|| recording.stats().created + recording.stats().rejected == 3 * round);
        let stats = recording.stats();
        assert_eq!(stats.rejected, 0, "round {round}: {stats}");
    }
}

/// A sink that holds whole batches until the test ends. The recording waits at the gate when it
/// requests the group of `x`.
#[derive(Clone)]
struct Whole(Arc<Mutex<Option<Vec<SinkBatch>>>>, Arc<dyn Fn() + Send + Sync>);

fn store(batch: SinkBatch) {
    batch.answer_each(|op| Ok(Stored::from(op.event())));
}

impl Whole {
    /// Waits for the next batch.
    fn next(&self) -> SinkBatch {
        let mut taken = None;
        until(|| {
            let mut kept = self.0.lock().unwrap();
            taken = kept.as_mut().and_then(|kept| kept.drain(..1.min(kept.len())).next());
            taken.is_some()
        });
        taken.unwrap()
    }
}

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
            None => store(batch),
        }
    }
}

/// The report about a slow group does not include the text of an earlier failure.
#[test]
fn a_group_that_was_closed_and_served_in_one_round_leaves_no_text() {
    let clock = clock();
    let events = clocked(&clock).build().unwrap();
    let (tx, outages) = mpsc::channel();
    let (gate, pass) = gate();
    let sink = Whole(Arc::new(Mutex::new(Some(Vec::new()))), Arc::new(pass));
    let builder = events.recording().on_outage(move |outage| tx.send(outage.to_string()).unwrap());
    let recording = builder.start(sink.clone()).unwrap();
    let record = |namespace: &'static str, name: &str| {
        let object = pod(name).in_namespace(namespace);
        assert!(events.recorder("tester").normal(object, "Run", "it runs").is_accepted());
    };
    for group in ["good", "bad"] {
        record(group, "0");
        store(sink.next());
    }
    until(|| recording.stats().created == 2);
    // Records two events in `bad` that the recording receives together.
    record("bad", "x");
    gate.wait();
    record("bad", "y");
    until(|| recording.stats().watcher.offered == 4);
    drop(gate);
    let both = sink.next();
    assert_eq!(both.ops().len(), 2);
    let stored = Stored::from(both.ops()[1].event());
    both.answer([Err(no_answer()), Ok(stored)]);
    until(|| recording.stats().last_failure.is_some());
    record("good", "1");
    store(sink.next());
    record("bad", "slow");
    let slow = sink.next();
    clock.wait_for_waiters(1);
    clock.advance(Duration::from_millis(250));
    let reported = outages.recv_timeout(LONG).unwrap();
    store(slow);
    // The advanced clock may have started another attempt.
    sink.0.lock().unwrap().take().into_iter().flatten().for_each(store);
    assert!(reported.ends_with("an operation has taken more than 250 ms"), "{reported}");
}
