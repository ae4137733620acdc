//! client-go: `tools/events/event_recorder_test.go`.

use std::time::{Duration, UNIX_EPOCH};

use eventcast::EventType::{Normal, Warning};
use eventcast::event::EventSource;
use eventcast::testing::FakeClock;
use eventcast::{Event, EventBroadcaster, EventType, ObjectReference, OverflowPolicy};

use crate::event::is_subdomain;

fn reference(kind: &'static str, name: &str, api_version: &str, uid: &str) -> ObjectReference {
    let mut object = ObjectReference::new(kind, name.to_owned());
    object.api_version = api_version.into();
    object.uid = uid.into();
    object
}

/// A call of Go's `Eventf`.
struct Call {
    object: ObjectReference,
    related: Option<ObjectReference>,
    type_: EventType,
    reason: &'static str,
    action: &'static str,
    note: &'static str,
}

impl Call {
    /// Records the event at noon of 1 January 2023 (UTC), and returns it.
    fn record(&self) -> Event {
        // Each call has another clock, because no two names of one clock are equal.
        let clock = FakeClock::new(UNIX_EPOCH + Duration::from_secs(1_672_574_400));
        let events = EventBroadcaster::builder().clock(clock.clock()).event_time(true).build().unwrap();
        let mut watcher = events.watch_builder().overflow(OverflowPolicy::Wait).watch().unwrap();
        let recorder = events.recorder(EventSource::from("c1").on_host("i1"));
        let draft = recorder.draft(&self.object, self.type_, self.reason).action(self.action);
        let draft = draft.message(self.note);
        let recorded = match &self.related {
            Some(related) => draft.related(related).record(),
            None => draft.record(),
        };
        assert!(recorded.is_accepted());
        watcher.recv().unwrap().event().unwrap()
    }

    /// Records the event, and checks everything but its name.
    #[track_caller]
    fn check(&self, namespace: &str) -> Event {
        let event = self.record();
        assert_eq!(event.metadata.namespace, namespace);
        assert_eq!(event.involved_object, self.object);
        assert_eq!(event.related(), self.related.as_ref());
        assert_eq!((&*event.type_, &*event.reason), (self.type_.as_str(), self.reason));
        assert_eq!((event.action().as_str(), &*event.message), (self.action, self.note));
        assert_eq!(event.event_time().unwrap().as_secs(), 1_672_574_400);
        assert_eq!(event.reporting_controller, "c1");
        assert!(event.series().is_none() && event.count == 0);
        event
    }
}

fn started(name: &str) -> Call {
    Call {
        object: reference("Pod", name, "v1", "12345").in_namespace("ns1"),
        related: None,
        type_: Normal,
        reason: "Started",
        action: "starting",
        note: "Pod started",
    }
}

/// `TestEventf`: an event, and one with a related object.
#[test]
fn an_event_has_the_parts_that_the_newer_form_demands() {
    let scheduled = Call {
        related: Some(reference("Node", "node1", "v1", "67890")),
        type_: Warning,
        reason: "FailedScheduling",
        action: "scheduling",
        note: "Pod failed to schedule on node1: not enough resources",
        ..started("pod1")
    };
    for call in [started("pod1"), scheduled] {
        let event = call.check("ns1");
        assert_eq!(event.metadata.name, *format!("pod1.{:x}", 1_672_574_400_000_000_000_u64));
    }
}

/// `TestEventf`: objects whose names an event cannot have.
#[test]
fn an_event_of_an_address_or_a_long_name_has_a_valid_name() {
    let address = Call {
        object: reference("IPAddress", "2001:db8::123", "networking.k8s.io/v1", "12345"),
        type_: Warning,
        reason: "IPAddressNotAllocated",
        action: "IPAddressAllocation",
        note: "Service default/test appears to have leaked",
        ..started("")
    };
    let long = started(&"x".repeat(253 * 4));
    for (call, namespace) in [(address, "default"), (long, "ns1")] {
        let name = call.check(namespace).metadata.name;
        assert!(is_subdomain(&name), "{name}");
    }
}
