//! How a recording ends: at once, whatever it waits for, and with every loss reported.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::error::FlushError;
use eventcast::record::LossReason;
use eventcast::{CorrelatorOptions, Event, EventBroadcaster, EventSink, OverflowPolicy, SinkError};

use crate::support::{LONG, Scripted, assert_balanced, at_once, clock, event_of, gate, record, until};

#[test]
fn an_end_that_begins_while_an_event_is_taken_in_is_not_slept_through() {
    for stops in [false, true] {
        let clock = clock();
        let events =
            EventBroadcaster::builder().clock(clock.clock()).drop_timeout(Duration::ZERO).build().unwrap();
        let (sink, calls) = Scripted::new(&clock, |_, _| Err(SinkError::retry("busy")));
        // The recording is taking in the second event: it has looked whether the end has begun, and
        // has not yet slept.
        let (gate, pass) = gate();
        let seen = AtomicUsize::new(0);
        let options = CorrelatorOptions::default().spam_key(move |_| {
            if seen.fetch_add(1, Ordering::SeqCst) == 1 {
                pass();
            }
            "all".into()
        });
        // With these two events the queue is full, so the recording takes no more. The dispatcher
        // has the third event and waits for room.
        let recording = events
            .recording()
            .correlator(options)
            .queue_len(2)
            .overflow(OverflowPolicy::Wait)
            .start(sink)
            .unwrap();
        record(&events, "web-0", "Started");
        calls.recv_timeout(LONG).unwrap();
        record(&events, "web-0", "Started");
        gate.entered.recv_timeout(LONG).unwrap();
        record(&events, "web-0", "Started");
        until(|| recording.stats().watcher.offered == 3);
        if stops {
            recording.stop();
        } else {
            events.close();
        }
        drop(gate);
        // The clock stands still, so nothing except the end can cut the pause short.
        until(|| recording.join(Duration::ZERO));
        assert!(!events.shutdown().complete);
        let stats = recording.stats();
        assert_balanced(&stats);
        assert_eq!(stats.abandoned + stats.watcher.dropped.total(), 3, "{stats}");
    }
}

#[test]
fn what_waits_behind_a_write_that_hangs_is_told_by_the_deadline() {
    let clock = clock();
    let (losses_tx, losses) = mpsc::channel();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .retry(at_once())
        .drop_timeout(Duration::ZERO)
        .on_loss(move |loss| losses_tx.send((loss.reason, loss.count)).unwrap())
        .build()
        .unwrap();
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |_, op| {
        if event_of(op).reason == "Hang" {
            pass();
        }
        Ok(())
    });
    let recording = events.recording().workers(2).start(sink).unwrap();
    record(&events, "web-0", "Hang");
    gate.entered.recv_timeout(LONG).unwrap();
    // The other worker writes these events.
    for i in 0..40 {
        record(&events, &format!("web-{i}"), "Started");
    }
    // These events wait behind the one that hangs.
    for _ in 0..3 {
        record(&events, "web-0", "Hang");
    }
    until(|| recording.stats().watcher.offered == 44 && recording.stats().created == 40);
    thread::scope(|scope| {
        let ending = scope.spawn(|| events.shutdown_timeout(Duration::from_secs(5)));
        clock.wait_for_waiters(1);
        // Gives the recording time to go to sleep again, because only a sleeping recording has to
        // be woken.
        (0..1000).for_each(|_| thread::yield_now());
        clock.advance(Duration::from_secs(5));
        assert!(!ending.join().unwrap().complete);
    });
    // The sink still hangs.
    let mut told = 0;
    until(|| {
        for (reason, count) in losses.try_iter() {
            assert_eq!(reason, LossReason::Abandoned);
            told += count;
        }
        told == 3
    });
    drop(gate);
    assert!(recording.join(LONG));
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.abandoned), (41, told));
}

/// The timeout of calls that must answer at once. A call that waited this long would give another
/// answer.
const SHORT: Duration = Duration::from_secs(1);

/// A sink that calls the broadcaster back when it is dropped, and sends the answers to the test.
struct CallsBack {
    events: Arc<EventBroadcaster>,
    says: mpsc::Sender<(Result<(), FlushError>, bool)>,
}

impl EventSink for CallsBack {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        Ok(event.clone())
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        Ok(event.clone())
    }
}

impl Drop for CallsBack {
    fn drop(&mut self) {
        let _ = self.says.send((self.events.flush(SHORT), self.events.shutdown_timeout(SHORT).complete));
    }
}

/// A thread of the recording drops the sink, and every caller that waits for the end waits for this
/// thread. With several workers, the last one drops the sink.
#[test]
fn a_sink_whose_destructor_calls_back_is_not_left_waiting() {
    for workers in [1, 3] {
        let events = Arc::new(EventBroadcaster::new().unwrap());
        let (says, said) = mpsc::channel();
        let sink = CallsBack { events: events.clone(), says };
        let recording = events.recording().workers(workers).start(sink).unwrap();
        record(&events, "web-0", "Started");
        events.flush(LONG).unwrap();
        recording.stop();
        assert_eq!(said.recv_timeout(LONG), Ok((Err(FlushError::WouldDeadlock), false)), "{workers} workers");
        assert!(recording.join(LONG));
        assert!(events.shutdown().complete);
        assert_eq!(recording.stats().created, 1);
    }
}
