//! A load of events in many namespaces, each about a different object, recorded at a steady rate
//! while the webhook of some namespaces misbehaves.
//!
//! The server takes the measurements. For each event, the server notes the time at which it stores
//! the event. The event's latency is that time minus the time at which the event was recorded. If a
//! thread records an event late, the event's latency therefore does not increase.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use eventcast::EventType::Normal;
use eventcast::record::{Loss, RecordingHandle};
use eventcast::stats::RecordingStats;
use eventcast::{EventBroadcaster, ObjectReference, Recorder, RetryPolicy};

use crate::api_server::Webhook;
use crate::cluster::{Cluster, Role};

/// How long the server may take to store the last events of a load.
const GRACE: Duration = Duration::from_secs(1);

/// The parameters of a load. A sick namespace is a namespace that has the webhook.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) webhook: Option<Webhook>,
    pub(super) namespaces: u32,
    pub(super) sick: u32,
    /// The total number of events in all healthy namespaces per second.
    pub(super) healthy_rate: u32,
    /// The number of events in each sick namespace per second.
    pub(super) sick_rate: u32,
    pub(super) time: Duration,
    /// The time limit of a request, or `None` for the default.
    pub(super) timeout: Option<Duration>,
    /// The capacity of the recording's queue, or `None` for the default.
    pub(super) queue_capacity: Option<usize>,
    pub(super) retry: RetryPolicy,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            webhook: None,
            namespaces: 10,
            sick: 1,
            healthy_rate: 40,
            sick_rate: 2,
            time: Duration::from_secs(5),
            timeout: None,
            queue_capacity: None,
            retry: RetryPolicy::default(),
        }
    }
}

impl Load {
    /// Returns the namespace of each event and the time at which the event is due, ordered by time.
    fn schedule(&self) -> Vec<(u32, Duration)> {
        let count = |rate: u32| (self.time * rate).as_secs() as u32;
        let healthy = self.namespaces - self.sick;
        let of_healthy = (0..count(self.healthy_rate)).map(|number| {
            (self.sick + number % healthy, Duration::from_secs(number.into()) / self.healthy_rate)
        });
        let of_sick = (0..self.sick).flat_map(|namespace| {
            // The sick namespaces do not record at the same time.
            let first = Duration::from_secs(namespace.into()) / (self.sick * self.sick_rate);
            (0..count(self.sick_rate))
                .map(move |number| (namespace, first + Duration::from_secs(number.into()) / self.sick_rate))
        });
        let mut events: Vec<_> = of_healthy.chain(of_sick).collect();
        events.sort_by_key(|(_, due)| *due);
        events
    }

    fn is_sick(&self, namespace: &str) -> bool {
        let number = namespace.rsplit('-').next().and_then(|number| number.parse().ok());
        number.is_some_and(|number: u32| number < self.sick)
    }
}

/// Events that were reported as lost.
#[derive(Debug)]
pub(super) struct Lost {
    /// The namespace of each event in the report, or an empty list if the report contains no
    /// events.
    pub(super) namespaces: Vec<String>,
    pub(super) count: u64,
    pub(super) text: String,
}

impl Lost {
    fn of(loss: &Loss<'_>) -> Self {
        let namespace = |event: &eventcast::Event| event.involved_object.namespace.to_string();
        let namespaces = loss.events.iter().map(namespace).collect();
        Self { namespaces, count: loss.count, text: loss.to_string() }
    }
}

/// A load that was recorded. The recording continues to process the events that are still waiting.
pub(super) struct Recorded {
    pub(super) recording: RecordingHandle,
    pub(super) outcome: Outcome,
    losses: mpsc::Receiver<Lost>,
    // These fields are dropped last, after everything that uses them.
    _events: EventBroadcaster,
    _cluster: Cluster,
}

impl Recorded {
    /// Receives the losses that were reported since the last call, and returns all losses so far.
    pub(super) fn lost(&mut self) -> &[Lost] {
        self.outcome.lost.extend(self.losses.try_iter());
        &self.outcome.lost
    }
}

/// The outcome of a load at the end of its time.
pub(super) struct Outcome {
    load: Load,
    /// The number of events that were recorded in healthy namespaces, and in sick namespaces.
    pub(super) healthy: usize,
    pub(super) sick: usize,
    /// The latencies of the stored healthy events, in ascending order.
    latencies: Vec<Duration>,
    pub(super) sick_stored: usize,
    pub(super) lost: Vec<Lost>,
    pub(super) stats: RecordingStats,
    /// The longest delay with which the machine woke a thread.
    pub(super) delay: Duration,
}

impl Outcome {
    pub(super) fn stored(&self) -> usize {
        self.latencies.len()
    }

    fn median(&self) -> Duration {
        self.latencies.get(self.latencies.len() / 2).copied().unwrap_or_default()
    }

    pub(super) fn max(&self) -> Duration {
        self.latencies.last().copied().unwrap_or_default()
    }

    /// Returns the loss reports that do not contain their events, or that concern at least one
    /// namespace that is not sick.
    pub(super) fn healthy_lost(&self) -> Vec<&Lost> {
        let is_sick = |name: &String| self.load.is_sick(name);
        let is_about_sick = |lost: &&Lost| !lost.namespaces.is_empty() && lost.namespaces.iter().all(is_sick);
        self.lost.iter().filter(|lost| !is_about_sick(lost)).collect()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { healthy, sick, sick_stored, delay, .. } = self;
        let lost: u64 = self.lost.iter().map(|lost| lost.count).sum();
        write!(f, "healthy stored {} of {healthy}, p50 {:.1?}, ", self.stored(), self.median())?;
        write!(f, "max {:.1?}; sick stored {sick_stored} of {sick}; lost {lost}; ", self.max())?;
        write!(f, "threads woken up to {delay:.1?} late")
    }
}

/// Records a load, and waits until the healthy events are stored or their time has run out.
pub(super) fn record(load: Load) -> Recorded {
    let cluster = Cluster::fake();
    let name = |number: u32| format!("{}-{number}", cluster.namespace);
    for number in 0..load.namespaces {
        cluster.make_namespace(&name(number));
        cluster.server().set_webhook(&name(number), load.webhook.filter(|_| number < load.sick));
    }
    let (sender, losses) = mpsc::channel();
    let events = EventBroadcaster::builder()
        .retry(load.retry)
        .drop_timeout(Duration::ZERO)
        .on_loss(move |loss| drop(sender.send(Lost::of(loss))))
        .build()
        .unwrap();
    let sink = cluster.sink_as(Role::Everywhere);
    let sink = match load.timeout {
        Some(timeout) => sink.timeout(timeout),
        None => sink,
    };
    let recording = match load.queue_capacity {
        Some(len) => events.recording().queue_capacity(len),
        None => events.recording(),
    };
    let recording = recording.start(sink).unwrap();
    let recorder = events.recorder("tester");
    let schedule = load.schedule();
    let healthy = schedule.iter().filter(|(namespace, _)| *namespace >= load.sick).count();
    let sick = schedule.len() - healthy;
    let is_over = AtomicBool::new(false);
    let (recorded, delay) = thread::scope(|scope| {
        let probe = scope.spawn(|| worst_delay(&is_over));
        let _end = End(&is_over);
        let recorded = pace(&recorder, &schedule, name);
        let end = Instant::now() + GRACE;
        while healthy_latencies(&load, &cluster, &recorded).len() < healthy && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
        is_over.store(true, Ordering::Relaxed);
        (recorded, probe.join().unwrap())
    });
    let mut latencies = healthy_latencies(&load, &cluster, &recorded);
    latencies.sort_unstable();
    let sick_stored = cluster.server().stored().iter().filter(|event| load.is_sick(&event.namespace)).count();
    let (lost, stats) = (losses.try_iter().collect(), recording.stats());
    let outcome = Outcome { load, healthy, sick, latencies, sick_stored, lost, stats, delay };
    Recorded { recording, outcome, losses, _events: events, _cluster: cluster }
}

/// Stops the probe when dropped, so that the probe also stops if the test fails.
struct End<'e>(&'e AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Records each event when it is due. Returns the time at which each event was recorded, keyed by
/// the name of the event's object.
fn pace(
    recorder: &Recorder,
    schedule: &[(u32, Duration)],
    namespace: impl Fn(u32) -> String,
) -> HashMap<String, Instant> {
    let start = Instant::now();
    let record = |(number, (group, due)): (usize, &(u32, Duration))| {
        let name = format!("web-{number}");
        let pod = ObjectReference::new("Pod", name.clone()).in_namespace(namespace(*group));
        thread::sleep((start + *due).saturating_duration_since(Instant::now()));
        let at = Instant::now();
        assert!(recorder.event(pod, Normal, "Started", "message").is_accepted(), "{name}");
        (name, at)
    };
    schedule.iter().enumerate().map(record).collect()
}

fn healthy_latencies(load: &Load, cluster: &Cluster, recorded: &HashMap<String, Instant>) -> Vec<Duration> {
    let stored = cluster.server().stored();
    let healthy = stored.iter().filter(|event| !load.is_sick(&event.namespace));
    healthy.map(|event| event.at.saturating_duration_since(recorded[&event.object])).collect()
}

/// Returns the longest delay with which this thread was woken. The thread repeatedly sleeps for a
/// millisecond. The thread does not spin, so it does not take a core away from the threads that the
/// test measures.
fn worst_delay(is_over: &AtomicBool) -> Duration {
    const PAUSE: Duration = Duration::from_millis(1);
    let mut worst = Duration::ZERO;
    while !is_over.load(Ordering::Relaxed) {
        let start = Instant::now();
        thread::sleep(PAUSE);
        worst = worst.max(start.elapsed().saturating_sub(PAUSE));
    }
    worst
}
