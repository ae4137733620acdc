//! The recorder: the events that calls record, their names, refusals and scrubbing. Most tests read
//! the queue of a `FakeRecorder`, which requires neither threads nor waiting.

mod event_time;
mod handle;
mod names;
mod refused;
mod scrub;

use std::time::{Duration, SystemTime};

use eventcast::record::{EventBroadcasterBuilder, Loss, LossReason};
use eventcast::testing::{FakeClock, FakeRecorder};
use eventcast::{BusOptions, Event, ObjectReference, Recorded};

use crate::support::{gate, pod, with_losses};

/// Returns the object used in client-go's tests.
fn foo() -> ObjectReference {
    let mut object = pod("foo").in_namespace("baz");
    object.uid = "bar".into();
    object.api_version = "v1".into();
    object
}

/// Returns the time used in client-go's test of names.
fn moment() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(105_999_103_295_324_396)
}

fn fake() -> (FakeRecorder, FakeClock) {
    let clock = FakeClock::new(moment());
    (FakeRecorder::with_clock(100, clock.clock()), clock)
}

/// The reason for a loss, the object together with the event's reason, and all text that the hook
/// can read.
type Lost = (LossReason, String, String);

fn lost(loss: &Loss<'_>) -> Lost {
    let event = &loss.events[0];
    let about = format!("{} {}", event.involved_object, event.reason);
    (loss.reason, about, format!("{loss} {loss:?} {event:?}"))
}

/// Fills a bus's queue of length 2, and then records an event "C", which is refused. Returns the
/// events that the watcher receives and the losses.
fn overfill(builder: EventBroadcasterBuilder) -> (Vec<Event>, Vec<Lost>) {
    let (events, losses) = with_losses(builder.bus(BusOptions::default().incoming_capacity(2)), lost);
    let recorder = events.recorder("test");
    // Filters run on the dispatcher. This filter blocks the dispatcher at the first event.
    let (gate, pass) = gate();
    let filter = move |event: &Event| {
        if event.reason == "A" {
            pass();
        }
        true
    };
    let mut watcher = events.watch_builder().filter(filter).watch().unwrap();
    assert!(recorder.normal(pod("web-0"), "A", "").is_accepted());
    gate.wait();
    for expected in [Recorded::Accepted, Recorded::Accepted, Recorded::Full] {
        let reason = if expected.is_accepted() { "B" } else { "C" };
        assert_eq!(recorder.normal(pod("web-0"), reason, ""), expected);
    }
    drop(gate);
    assert_eq!(events.stats().recorder.full, 1);
    events.shutdown();
    let stats = events.stats();
    assert_eq!(stats.bus.accepted + stats.recorder.refused(), 4);
    (watcher.events().collect(), losses.try_iter().collect())
}
