//! Handlers for which no thread can be started. This test is not among the tests of user code,
//! because those tests also run under a sanitizer, and the sanitizer cannot allocate memory either
//! under the limit set here.

use eventcast::Delivery::Event;
use eventcast::error::WatchError;
use eventcast::{Broadcaster, BusOptions};

use crate::support::{AtDrop, LONG, assert_balanced, bus, until};

/// A child process sets its memory limit to just above its current usage, so that no memory is left
/// for a thread's stack.
#[test]
fn a_handler_without_a_thread_is_an_error_and_leaves_nothing() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    test_support::in_own_process!();
    let [bus, other] = [(); 2].map(|()| bus::<u64>(100, 10));
    let mut watcher = bus.watch().unwrap();
    bus.publisher().publish(1).unwrap();
    bus.flush(LONG).unwrap();
    let own = other.clone();
    // Calls back when it is dropped. The drop runs on the thread that requested the handler, and
    // all calls that end the bus wait for it.
    let shuts_down = AtDrop(move || assert!(!own.is_closed() && !own.shutdown().complete));
    // A thread that is just starting also needs memory, and the process aborts if it cannot get
    // any.
    other.flush(LONG).unwrap();

    let before = getrlimit(Resource::As);
    let pages: u64 = {
        let sizes = std::fs::read_to_string("/proc/self/statm").unwrap();
        sizes.split(' ').next().unwrap().parse().unwrap()
    };
    let used = pages * rustix::param::page_size() as u64;
    setrlimit(Resource::As, Rlimit { current: Some(used + (1 << 20)), ..before }).unwrap();
    let handler = bus.watch_builder().name("poor").spawn(|_| ());
    let another = Broadcaster::<u64>::new();
    let large = Broadcaster::<u64>::with_options(BusOptions::default().incoming_capacity(1 << 22));
    // This call must be the last one, because ending its bus frees a thread's memory.
    let calls_back = other.watch_builder().spawn(move |_| {
        let _ = &shuts_down;
    });
    setrlimit(Resource::As, before).unwrap();

    let error = handler.unwrap_err();
    assert!(matches!(error, WatchError::Thread(_)), "{error:?}");
    assert!(error.to_string().starts_with("cannot start a thread: "), "{error}");
    assert!(std::error::Error::source(&error).is_some());
    let error = another.unwrap_err();
    assert_eq!(error.option(), "thread_name");
    assert!(error.to_string().starts_with("cannot start the thread `eventcast`: "));
    assert!(matches!(calls_back, Err(WatchError::Thread(_))), "{calls_back:?}");
    assert!(other.shutdown().complete);
    let error = large.unwrap_err().to_string();
    assert!(
        error.starts_with("incoming_capacity must be small enough to fit into memory with ")
            && error.ends_with(", got 4194304"),
        "{error}"
    );

    // The bus is unchanged, and no call waits for the handler, which never ran. The dispatcher
    // removes the handler itself.
    until(|| bus.stats().watchers.len() == 1);
    bus.publisher().publish(2).unwrap();
    bus.flush(LONG).unwrap();
    assert_eq!([watcher.recv().unwrap(), watcher.recv().unwrap()], [Event(1), Event(2)]);
    assert!(bus.watch_builder().name("rich").spawn(|_| ()).unwrap().stats().name == "rich");
    let report = bus.shutdown();
    assert!(report.complete);
    assert_eq!(report.bus.watchers.len(), 2, "{report}");
    assert_balanced(&report.bus);
}
