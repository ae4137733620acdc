//! Waiting for a round's progress, and ending the round.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use eventcast::Broadcaster;
use eventcast::stats::ShutdownReport;
use test_support::Rng;

use super::event::Payload;
use super::executors::{block_on, cancelled};
use super::met::{self, Met};
use super::publish::Round;

/// Waits until a number of publishes have returned, or for a limited time, because a stuck round
/// makes no progress. On a busy machine each yield may take some milliseconds, so the wait is also
/// bounded in time.
pub(crate) fn wait_for_progress(round: &Round, until: u64, rng: &mut Rng) {
    let began = Instant::now();
    for _ in 0..200 {
        if round.progress.load(Ordering::SeqCst) >= until || began.elapsed() > Duration::from_millis(2) {
            break;
        }
        if rng.once_in(4) {
            check_running(round);
        }
        thread::yield_now();
    }
}

/// Checks that, while the bus is running, only events that were offered are delivered or lost.
pub(crate) fn check_running(round: &Round) {
    let stats = round.bus.stats();
    for watcher in stats.watchers.iter().chain([&stats.departed]) {
        assert!(watcher.delivered + watcher.dropped.total() <= watcher.offered, "{watcher}");
    }
}

const LONG: Duration = Duration::from_secs(3600);

/// Ends the bus in one of several ways. Returns `None` for a cancelled shutdown, and also for a
/// close, because a close has no report.
fn shut_down(bus: &Broadcaster<Payload>, mut rng: Rng) -> Option<ShutdownReport> {
    match rng.below(7) {
        0 | 1 => Some(bus.shutdown()),
        2 => Some(bus.shutdown_timeout(LONG)),
        3 => Some(block_on(&mut rng, bus.shutdown_async(LONG))),
        4 => {
            let polls = rng.below(3);
            let report = block_on(&mut rng, cancelled(bus.shutdown_async(LONG), polls));
            met::add(Met::CancelledShutdowns, u64::from(report.is_none()));
            report
        }
        _ => {
            bus.close();
            None
        }
    }
}

pub(crate) fn end(round: &Round, rng: &mut Rng) -> ShutdownReport {
    let bus = &*round.bus;
    let millis = Duration::from_millis(rng.pick(&[0, 1, 2]));
    thread::scope(|scope| {
        let others: Vec<_> = (0..rng.pick(&[0, 0, 1, 2, 4]))
            .map(|_| {
                let rng = rng.fork();
                scope.spawn(move || shut_down(bus, rng))
            })
            .collect();
        let report = if round.is_stuck || rng.once_in(3) {
            bus.shutdown_timeout(millis)
        } else if rng.once_in(2) {
            bus.shutdown_timeout(LONG)
        } else {
            bus.shutdown()
        };
        met::add(Met::SimultaneousShutdowns, others.len() as u64);
        let last = bus.shutdown();
        assert!(last.threads_ended);
        for report in others.into_iter().filter_map(|other| other.join().unwrap()).chain([report]) {
            check_report(&report, &last);
        }
        assert_eq!(bus.shutdown(), last);
        last
    })
}

/// Checks the report of one shutdown against the last report, which belongs to a shutdown that has
/// waited for the bus to end. The checked report is either the same as the last report, or a
/// snapshot from before the end.
fn check_report(report: &ShutdownReport, last: &ShutdownReport) {
    if report.complete || report.threads_ended {
        let mut report = report.clone();
        report.threads_ended = true;
        assert_eq!(report, *last, "every shutdown must report the same end");
    } else {
        assert!(report.bus.accepted <= last.bus.accepted, "{report:#}\n{last:#}");
    }
}
