//! Tests a server that is killed and started again. Until the restarted server has read its roles,
//! it refuses service accounts that it allows later.

use std::collections::HashMap;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use eventcast::EventType::Normal;
use eventcast::sink::SinkErrorKind;
use eventcast::{EventBroadcaster, EventSink, ObjectReference, RetryPolicy};
use test_support::LONG;

use super::cluster::Cluster;

#[test]
fn a_server_that_starts_refuses_the_users_that_it_allows_later() {
    let cluster = Cluster::fake();
    let server = cluster.server();
    let create = |name: &str| cluster.sink().create(&cluster.event(name));
    create("web-0.1").unwrap();
    server.kill();
    assert_eq!(create("web-0.2").unwrap_err().kind(), SinkErrorKind::Unavailable);
    server.start_again(LONG);
    let refusals: Vec<String> = (0..3).map(|_| create("web-0.2").unwrap_err().to_string()).collect();
    for words in [
        "in the namespace \"eventcast-test-",
        ": RBAC: clusterrole.rbac.authorization.k8s.io \"recorder\" not found",
        "events is forbidden: not yet ready to handle request",
    ] {
        assert!(refusals.iter().any(|refusal| refusal.contains(words)), "{words}: {refusals:?}");
    }
    assert!(refusals.iter().all(|refusal| refusal.contains("403 Forbidden: events ")), "{refusals:?}");
    // An administrator is never refused, and the stored event still exists.
    assert!(cluster.stored("web-0.1").is_some());
    server.kill();
    server.start_again(Duration::ZERO);
    create("web-0.2").unwrap();
    assert_eq!(server.events().len(), 2);
}

/// The number of recordings, and the number of events in each recording.
const RECORDINGS: usize = 10;
const EVENTS: usize = 255;
/// The time during which the events are recorded, and the times of the restarts.
const TIME: Duration = Duration::from_secs(5);
const RESTARTS: [Duration; 2] = [Duration::from_secs(1), Duration::from_millis(3200)];
/// How long the server is down, and how long the restarted server refuses every account.
const DOWN: Duration = Duration::from_millis(200);
const REFUSING: Duration = Duration::from_millis(1500);

#[test]
fn recordings_lose_nothing_while_the_server_restarts_twice() {
    let cluster = Cluster::fake();
    let (sender, losses) = mpsc::channel();
    let recordings: Vec<_> = (0..RECORDINGS)
        .map(|_| {
            let sender = sender.clone();
            let events = EventBroadcaster::builder()
                // Shorter pauses than the default of 10 s, to keep the test short.
                .retry(RetryPolicy::default().delay(Duration::from_millis(250)))
                .drop_timeout(Duration::ZERO)
                .on_loss(move |loss| drop(sender.send((loss.count, loss.to_string()))))
                .build()
                .unwrap();
            let recording = events.record_to(cluster.sink()).unwrap();
            (events, recording)
        })
        .collect();
    let start = Instant::now();
    let wait_until = |time: Duration| thread::sleep((start + time).saturating_duration_since(Instant::now()));
    thread::scope(|scope| {
        for (number, (events, _)) in recordings.iter().enumerate() {
            let (recorder, namespace) = (events.recorder("tester"), cluster.namespace.clone());
            scope.spawn(move || {
                for event in 0..EVENTS {
                    wait_until(TIME * event as u32 / EVENTS as u32);
                    let pod = ObjectReference::new("Pod", format!("web-{number}-{event}"));
                    let pod = pod.in_namespace(namespace.clone());
                    assert!(recorder.event(pod, Normal, "Started", "message").is_accepted());
                }
            });
        }
        for restart in RESTARTS {
            wait_until(restart);
            cluster.server().kill();
            wait_until(restart + DOWN);
            cluster.server().start_again(REFUSING);
        }
    });
    for (events, _) in &recordings {
        events.flush(LONG).unwrap();
    }
    let lost: Vec<(u64, String)> = losses.try_iter().collect();
    let count: u64 = lost.iter().map(|(count, _)| count).sum();
    let mut stored: HashMap<String, u32> = HashMap::new();
    for event in cluster.server().stored() {
        *stored.entry(event.object).or_default() += 1;
    }
    println!("stored {} of {}, lost {count}", stored.len(), RECORDINGS * EVENTS);
    assert_eq!(count, 0, "lost, the first of them: {:?}", lost.first());
    assert_eq!(stored.len(), RECORDINGS * EVENTS);
    assert!(stored.values().all(|times| *times == 1), "an event was stored twice");
    for (_, recording) in &recordings {
        assert_eq!((recording.stats().created, recording.stats().lost()), (EVENTS as u64, 0));
    }
}
