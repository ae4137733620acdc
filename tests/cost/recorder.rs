//! The cost of recording: the number of allocations for one recorded event, on each thread that the
//! event passes through.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use eventcast::EventType::Warning;
use eventcast::correlator::SpamFilter;
use eventcast::sink::WriteOrder;
use eventcast::testing::FakeClock;
use eventcast::{
    BusOptions, CorrelatorOptions, Event, EventBroadcaster, EventSink, MemorySink, ObjectReference,
    OverflowPolicy, Recorded, Recorder, RetryPolicy, SinkError, Text,
};
use test_support::in_own_process;

use crate::bus::SLICES_AT_A_TIME;
use crate::counting::{Followed, allocations_here, so_far};
use crate::direct::{MOST, settle};

/// A timeout that is reached only if a test hangs.
const LONG: Duration = Duration::from_secs(60);

/// Returns a broadcaster with a clock that does not advance.
fn broadcaster(options: BusOptions) -> EventBroadcaster {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    EventBroadcaster::builder().clock(clock.clock()).bus(options).build().unwrap()
}

/// Returns an object whose strings are too long to be stored inline.
fn pod() -> ObjectReference {
    let mut pod = ObjectReference::new("Pod", "controller-manager-6d4cf56db6-xk2lp".to_owned());
    pod = pod.in_namespace("a-namespace-with-a-long-name".to_owned());
    pod.uid = "a93e8ff4-70df-47f1-81fa-8a4f0815cafe".into();
    pod
}

const LITERAL: &str = "Back-off restarting failed container manager";

#[test]
fn recording_allocates_only_a_message_that_is_made() {
    let events = broadcaster(BusOptions::default().direct_delivery(false));
    let mut watcher = events.watch_builder().watch().unwrap();
    let (recorder, pod) = (events.recorder("kubelet"), pod());
    recorder.event(&pod, Warning, "BackOff", LITERAL);
    for number in 0..100 {
        let cost = |record: &dyn Fn() -> Recorded| {
            let (allocations, recorded) = allocations_here(record);
            assert_eq!(recorded, Recorded::Accepted);
            allocations
        };
        assert_eq!(cost(&|| recorder.event(&pod, Warning, "BackOff", LITERAL)), 1, "a copy");
        let literal = || recorder.event(&pod, Warning, "BackOff", Text::from_static(LITERAL));
        assert_eq!(cost(&literal), 0);
        let short = || recorder.event(&pod, Warning, "BackOff", format_args!("restart {number}"));
        assert_eq!(cost(&short), 0, "the message must be stored in the event");
        let long = || recorder.event(&pod, Warning, "BackOff", format_args!("{LITERAL}: {number}"));
        assert_eq!(cost(&long), 3, "the message, which is written into a buffer that grows once");
        let bound = recorder.for_object(&pod);
        let literal = || bound.event(Warning, "BackOff", Text::from_static(LITERAL));
        assert_eq!(cost(&literal), 0);
        events.flush(LONG).unwrap();
        while watcher.try_recv_batch().is_ok() {}
    }
}

/// Records an event, and returns the number of allocations on this thread.
fn recorded_here(recorder: &Recorder, pod: &ObjectReference) -> u64 {
    settle();
    let record = || recorder.event(pod, Warning, "BackOff", Text::from_static(LITERAL));
    let (allocated, recorded) = allocations_here(record);
    assert_eq!(recorded, Recorded::Accepted);
    allocated
}

/// The thread that records a lone event delivers it, which takes the allocation of the name in
/// addition to the allocations of any publisher.
#[test]
fn the_caller_delivers_a_lone_event_to_the_only_sleeping_reader() {
    let events = broadcaster(BusOptions::default());
    let (tx, handled) = mpsc::channel();
    let handle = events.watch_builder().spawn(move |_| tx.send(()).unwrap()).unwrap();
    let (recorder, pod, end) = (events.recorder("kubelet"), pod(), Instant::now() + LONG);
    let mut delivered = 0;
    while delivered < 40 {
        let allocated = recorded_here(&recorder, &pod);
        assert!(allocated <= 1 + MOST, "{allocated} allocations");
        delivered += u64::from(allocated > 0);
        handled.recv_timeout(LONG).unwrap();
        assert!(Instant::now() < end, "the caller delivered only {delivered} events");
    }
    // With another watcher, the dispatcher delivers.
    let mut other = events.watch_builder().watch().unwrap();
    events.flush(LONG).unwrap();
    for _ in 0..10 {
        assert_eq!(recorded_here(&recorder, &pod), 0);
        other.recv().unwrap();
        handled.recv_timeout(LONG).unwrap();
    }
    drop((other, handle));
}

#[test]
fn the_dispatcher_delivers_recorded_events_to_a_reader_that_does_not_sleep() {
    let events = broadcaster(BusOptions::default());
    let mut watcher = events.watch_builder().watch().unwrap();
    let (recorder, pod) = (events.recorder("kubelet"), pod());
    for _ in 0..100 {
        assert_eq!(recorded_here(&recorder, &pod), 0);
        while watcher.try_recv().is_err() {
            thread::yield_now();
        }
    }
}

/// Several threads record at the same time. None of them delivers more than a single event.
#[test]
fn a_caller_delivers_at_most_one_event() {
    const THREADS: usize = 8;
    let events = broadcaster(BusOptions::default());
    let handle = events.watch_builder().overflow(OverflowPolicy::Wait).spawn(|_| ()).unwrap();
    let barrier = Barrier::new(THREADS);
    let record = || {
        let (recorder, pod) = (events.recorder("kubelet"), pod());
        let record = |_| {
            barrier.wait();
            recorded_here(&recorder, &pod)
        };
        (0..1000).map(record).max().unwrap()
    };
    let most = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(record)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap()
    });
    assert!(most <= 1 + MOST, "{most} allocations in one call");
    drop(handle);
}

/// The dispatcher creates the name of an event. A single event takes one more allocation, as
/// `bus.rs` shows.
#[test]
fn the_dispatcher_allocates_the_name() {
    const EVENTS: u64 = 10 * SLICES_AT_A_TIME;
    let events = broadcaster(BusOptions::default());
    let dispatcher = Followed::new();
    let filter = move |_: &Event| {
        dispatcher.here();
        true
    };
    let mut watcher = events.watch_builder().filter(filter).watch().unwrap();
    let (recorder, pod) = (events.recorder("kubelet"), pod());
    let mut record = |_| {
        assert!(recorder.event(&pod, Warning, "BackOff", Text::from_static(LITERAL)).is_accepted());
        watcher.recv().unwrap();
    };
    record(0);
    let allocated = dispatcher.allocations(|| (0..EVENTS).for_each(&mut record));
    let filtering = 1;
    assert_eq!(allocated, EVENTS * (1 + 1 + filtering) + 10, "the watcher's queue grows ten times");
}

#[test]
fn refused_events_allocate_nothing() {
    let events = broadcaster(BusOptions::default());
    let (recorder, pod) = (events.recorder("kubelet"), pod());
    events.shutdown();
    let long = || recorder.event(&pod, Warning, "BackOff", format_args!("{LITERAL}: {LITERAL}"));
    // The first refused call is also the first to be logged, and `tracing` then registers the
    // callsite once.
    long();
    for _ in 0..100 {
        assert_eq!(allocations_here(long), (0, Recorded::Closed));
    }
}

/// The name of an object whose events the sink does not store.
const LOST: &str = "lost";

/// A sink that answers with the event that it was given, and records the number of allocations that
/// its thread has made so far.
struct Echo(Arc<Mutex<Vec<u64>>>);

impl EventSink for Echo {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.patch(event)
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        if event.involved_object.name == LOST {
            wait_in_a_lock();
            return Err(SinkError::retry("busy"));
        }
        self.0.lock().unwrap().push(so_far());
        Ok(event.clone())
    }
}

/// Makes this thread wait with a zero timeout, as it would for a lock that another thread holds. A
/// thread allocates its wait entry the first time it waits, and it is a matter of chance whether a
/// thread of the library ever waits.
fn wait_in_a_lock() {
    let lock = parking_lot::Mutex::new(());
    parking_lot::Condvar::new().wait_for(&mut lock.lock(), Duration::ZERO);
}

/// The costs of events that are recorded sequentially.
struct Costs {
    /// The allocations of the recording's thread for each event.
    recording: Vec<u64>,
    /// The allocations of the thread that calls the sink, between consecutive calls.
    writer: Vec<u64>,
    created: u64,
    updated: u64,
    /// The number of events that the spam filter stopped.
    skipped: u64,
}

/// The kind of events that [`cost_of_each`] records.
#[derive(Clone, Copy, PartialEq)]
enum Events {
    Plain,
    /// Each event has an annotation, which is in a map, so a copy of the event takes two
    /// allocations.
    Annotated,
    /// The events also have an annotation, and another watcher, which does not read, holds them.
    Shared,
}

/// Records events that differ only in object and message. Each event is recorded only after all
/// previous events have an outcome. Each object has `burst` events.
fn cost_of_each(kind: Events, burst: u32, order: WriteOrder, events: &[(&ObjectReference, String)]) -> Costs {
    // Uses the system's clock, because a thread that waits on a `FakeClock` allocates a wait entry
    // there.
    let broadcaster = EventBroadcaster::new().unwrap();
    let calls = Arc::new(Mutex::new(Vec::with_capacity(events.len() + burst as usize)));
    let thread = Followed::new();
    // This hook runs on the recording's thread, and changes nothing there.
    let filtered = Arc::new(AtomicU64::new(0));
    let stopped = filtered.clone();
    let options = CorrelatorOptions::default().on_skip(move |_| {
        wait_in_a_lock();
        stopped.fetch_add(1, Ordering::SeqCst);
        thread.here();
    });
    let options = options.spam_filter(SpamFilter::default().burst(burst));
    let recording = broadcaster.recording().correlator(options).order(order);
    let recording = recording.retry(RetryPolicy::default().attempts(1));
    let recording = recording.start(Echo(calls.clone())).unwrap();
    let watch = || broadcaster.watch_builder().overflow(OverflowPolicy::DropIncoming).watch().unwrap();
    let _other = (kind == Events::Shared).then(watch);
    let mut count = 0;
    let mut record = |recorder: &Recorder, object: &ObjectReference, message: &str| {
        let mut draft = recorder.draft(object, Warning, "BackOff").message(message.to_owned());
        if kind != Events::Plain {
            draft = draft.annotation("attempt", "7");
        }
        assert!(draft.record().is_accepted());
        count += 1;
        let start = Instant::now();
        // A flush is not used, because it is a matter of chance whether the recording's thread has
        // to wake the flush, which takes an allocation.
        while recording.stats().watcher.delivered < count {
            assert!(start.elapsed() < LONG, "the event was not handled");
            thread::yield_now();
        }
    };
    let (begin, recorder) = (broadcaster.recorder("begin"), broadcaster.recorder("kubelet"));
    for _ in 0..=burst {
        record(&begin, &ObjectReference::new("Pod", "web-1"), LITERAL);
    }
    // The recording keeps the messages of a failure, which must not make later events more
    // expensive.
    record(&begin, &ObjectReference::new("Pod", LOST), LITERAL);
    let before = recording.stats();
    assert_eq!(filtered.load(Ordering::SeqCst), 1, "the hook must have run");
    assert!(before.last_failure.is_some() && before.last_refusal.is_some());
    let each = |(object, message): &(&ObjectReference, String)| {
        thread.allocations(|| record(&recorder, object, message))
    };
    let each = events.iter().map(each).collect();
    let calls = calls.lock().unwrap();
    let writer = calls[burst as usize..].windows(2).map(|pair| pair[1] - pair[0]).collect();
    let stats = recording.stats();
    assert_eq!(stats.coalesced, 0, "each event must be written separately");
    assert_eq!(stats.last_failure, before.last_failure, "it stays");
    Costs {
        recording: each,
        writer,
        created: stats.created - before.created,
        updated: stats.updated - before.updated,
        skipped: filtered.load(Ordering::SeqCst) - 1,
    }
}

/// Returns the sum and the maximum of the costs from the 30th on, by which time all lists have
/// reached their capacity.
fn sum_and_most(costs: &[u64]) -> (u64, u64) {
    let costs = &costs[29..];
    (costs.iter().sum(), costs.iter().copied().max().unwrap())
}

#[test]
fn a_repeat_allocates_nothing_on_the_threads_of_the_recording() {
    let pod = pod();
    let events = vec![(&pod, LITERAL.to_owned()); 230];
    for order in [WriteOrder::PerKey, WriteOrder::Bus] {
        let costs = cost_of_each(Events::Plain, 250, order, &events);
        assert_eq!((costs.created, costs.updated), (1, 229));
        assert_eq!(sum_and_most(&costs.recording), (0, 0), "{order:?}");
        assert_eq!(sum_and_most(&costs.writer), (0, 0), "{order:?}");
    }
}

/// The thread that has delivered an event may hold the event a little longer, in which case the
/// recording copies it.
#[test]
fn a_recording_without_other_watchers_moves_its_events() {
    let pod = pod();
    let costs =
        cost_of_each(Events::Annotated, 250, WriteOrder::PerKey, &vec![(&pod, LITERAL.to_owned()); 230]);
    assert_eq!((costs.created, costs.updated), (1, 229));
    let copied = sum_and_most(&costs.recording).0 / 2;
    assert!(copied < 201 / 2, "{copied} of 201 events were copied");
}

#[test]
fn folded_events_also_allocate_their_message() {
    let pod = pod();
    let events: Vec<_> = (0..230).map(|number| (&pod, format!("{LITERAL}: attempt {number}"))).collect();
    let costs = cost_of_each(Events::Plain, 250, WriteOrder::PerKey, &events);
    assert_eq!((costs.created, costs.updated), (10, 220));
    assert_eq!(sum_and_most(&costs.recording), (201, 1));
}

#[test]
fn skipped_events_allocate_nothing_on_the_recordings_thread() {
    let (pod, other) = (pod(), ObjectReference::new("Pod", "web-0"));
    let mut events = vec![(&pod, LITERAL.to_owned()); 230];
    for at in [28, 29, 229] {
        events[at].0 = &other;
    }
    let costs = cost_of_each(Events::Plain, 25, WriteOrder::PerKey, &events);
    assert_eq!((costs.created, costs.updated, costs.skipped), (2, 26, 202));
    assert_eq!(sum_and_most(&costs.recording), (0, 0), "199 skipped events and a repeat");
}

/// A held event is kept, so it is copied once. The hook for skipped events needs no other copy.
#[test]
fn a_held_event_that_another_watcher_also_has_is_copied_once() {
    let pod = pod();
    let costs = cost_of_each(Events::Shared, 25, WriteOrder::PerKey, &vec![(&pod, LITERAL.to_owned()); 230]);
    assert_eq!((costs.created, costs.updated, costs.skipped), (1, 24, 205));
    assert_eq!(sum_and_most(&costs.recording), (2 * 201, 2));
}

/// A repeat that is only counted in a series is not written, and the dispatcher has already created
/// everything that it needs.
#[test]
fn what_a_series_counts_allocates_nothing_on_the_recordings_thread() {
    const EVENTS: u64 = 230;
    let broadcaster = EventBroadcaster::builder().event_time(true).build().unwrap();
    let calls = Arc::new(Mutex::new(Vec::with_capacity(16)));
    let thread = Followed::new();
    let recording = broadcaster.recording().retry(RetryPolicy::default().attempts(1));
    // This hook runs on the recording's thread.
    let recording = recording.retry_if(move |_| {
        wait_in_a_lock();
        thread.here();
        true
    });
    let recording = recording.start(Echo(calls.clone())).unwrap();
    let (recorder, pod, mut count) = (broadcaster.recorder("kubelet"), pod(), 0);
    let mut record = |object: &ObjectReference| {
        assert!(recorder.event(object, Warning, "BackOff", LITERAL).is_accepted());
        count += 1;
        let start = Instant::now();
        while recording.stats().watcher.delivered < count {
            assert!(start.elapsed() < LONG, "the event was not counted");
            thread::yield_now();
        }
    };
    record(&ObjectReference::new("Pod", LOST));
    assert_eq!(recording.stats().exhausted, 1, "the hook must have run");
    let costs: Vec<_> = (0..EVENTS).map(|_| thread.allocations(|| record(&pod))).collect();
    assert_eq!(sum_and_most(&costs), (0, 0));
    assert!(broadcaster.shutdown().complete);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.updated, stats.coalesced), (1, EVENTS - 1, EVENTS - 3));
}

/// The only threads of an inline event broadcaster are the two threads of each recording.
#[cfg(target_os = "linux")]
#[test]
fn an_inline_broadcaster_starts_no_thread() {
    in_own_process!();
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let events: Vec<_> = (0..100).map(|_| EventBroadcaster::new_inline()).collect();
    for events in &events {
        let mut watcher = events.watch_builder().watch().unwrap();
        events.recorder("tester").normal(ObjectReference::new("Pod", "web-0"), "Started", "up");
        assert!(watcher.try_recv().is_ok());
        assert_eq!(threads(), before);
    }
    events[0].record_to(MemorySink::new()).unwrap();
    assert_eq!(threads(), before + 2);
    assert!(events.iter().all(|events| events.shutdown().complete));
    assert_eq!(threads(), before);
}
