//! Rows in which user code runs, such as handlers, filters, and the destructors of values that
//! handlers and filters own.

use std::panic::resume_unwind;

use eventcast::bus::Runner;
use eventcast::stats::ShutdownReport;
use eventcast::testing::Payload;
use eventcast::{Delivery, OverflowPolicy, WatchHandle};

use super::row::{Bus, End, Row, settled};
use super::watching::check_departed;

fn runner(bus: &Bus, handle: impl FnMut(Delivery<&Payload>) + Send + 'static) -> Runner<Payload, Handler> {
    bus.watch_builder().stop_on_panic(true).runner(Box::new(handle) as Handler).unwrap()
}

type Handler = Box<dyn FnMut(Delivery<&Payload>) + Send>;

/// Checks that each event offered to the handler was eventually delivered or lost. Unless a
/// shutdown abandoned the bus, also checks that the handler was offered one event and handled it.
#[allow(clippy::needless_pass_by_value, reason = "as `Row::check` is called")]
fn check_handled(handle: WatchHandle, report: Option<&ShutdownReport>) {
    let stats = settled(|| handle.stats());
    assert_eq!(stats.offered, stats.delivered + stats.dropped.total(), "{stats:?}");
    if report.is_none_or(|report| report.complete) {
        assert_eq!((stats.offered, stats.delivered), (1, 1), "{stats:?}");
    }
}

pub(super) fn a_handler_at_work(end: End) {
    Row {
        incoming: 1,
        is_full: true,
        policy: OverflowPolicy::DropIncoming,
        set_up: |bus| runner(bus, |_| ()),
        act: |runner| {
            let handle = runner.handle();
            runner.run();
            handle
        },
        check: check_handled,
    }
    .against(end);
}

/// A handler is registered and an event is then published, while the bus ends. If the handler
/// abandons its queue before the dispatcher reaches the registration, the event counts as
/// abandoned.
pub(super) fn a_handler_that_is_registered(end: End) {
    Row {
        incoming: 2,
        is_full: false,
        policy: OverflowPolicy::DropIncoming,
        set_up: Clone::clone,
        act: |bus: Bus| {
            let publisher = bus.publisher();
            let registered = bus.watch_builder().runner(|_| ());
            // `bus` may be the last handle, and dropping the last handle closes the bus.
            drop(bus);
            let runner = registered.ok()?;
            let accepted = u64::from(publisher.try_publish(Payload::new(1)).is_ok());
            let handle = runner.handle();
            runner.run();
            Some((handle, accepted))
        },
        check: |registered, report| {
            let Some((handle, accepted)) = registered else { return };
            let stats = settled(|| handle.stats());
            assert_eq!(stats.offered, stats.delivered + stats.dropped.total(), "{stats:?}");
            // If there is no report, no thread has waited for the dispatcher.
            if let Some(report) = report {
                assert_eq!((stats.offered, report.bus.accepted), (accepted, accepted), "{stats:?}");
            }
        },
    }
    .against(end);
}

pub(super) fn a_handler_that_panics(end: End) {
    Row {
        incoming: 1,
        is_full: true,
        policy: OverflowPolicy::DropIncoming,
        set_up: |bus| runner(bus, |_| resume_unwind(Box::new(()))),
        act: |runner| {
            let handle = runner.handle();
            runner.run();
            handle
        },
        check: |handle, report| {
            if report.is_none_or(|report| report.complete) {
                assert_eq!(handle.stats().panics, 1);
            }
            check_handled(handle, report);
        },
    }
    .against(end);
}

/// The filter's panic ends the filter's watcher, and the bus continues until it is ended.
pub(super) fn a_filter_that_panics(end: End) {
    Row {
        incoming: 1,
        is_full: true,
        policy: OverflowPolicy::DropIncoming,
        set_up: |bus| bus.watch_builder().filter(|_| resume_unwind(Box::new(()))).watch().unwrap(),
        act: |mut watcher| {
            assert!(watcher.recv().is_err());
            watcher
        },
        check: |watcher, _| assert_eq!(watcher.stats().panics, 1),
    }
    .against(end);
}

/// A value that shuts the bus down when the dispatcher drops it.
struct ShutsDown(Bus);

impl Drop for ShutsDown {
    fn drop(&mut self) {
        assert!(!self.0.shutdown().complete, "a thread of the bus does not wait for it");
    }
}

/// The dispatcher drops the filter of a dropped watcher, and the filter's destructor shuts the bus
/// down.
pub(super) fn a_filter_whose_drop_calls_back(end: End) {
    Row {
        incoming: 1,
        is_full: true,
        policy: OverflowPolicy::DropIncoming,
        set_up: |bus| {
            let shuts_down = ShutsDown(bus.clone());
            let filter = move |_: &Payload| {
                let _ = &shuts_down;
                true
            };
            bus.watch_builder().filter(filter).watch().unwrap()
        },
        act: drop,
        check: |(), report| check_departed(report),
    }
    .against(end);
}
