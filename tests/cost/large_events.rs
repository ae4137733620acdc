//! Events of the largest size: the memory that futures take, and the stack that calls take, as
//! multiples of the event's size. The section "Large events" of `Broadcaster` has the same numbers.

use std::sync::mpsc;
use std::thread;

use eventcast::{Broadcaster, BusOptions, OverflowPolicy, Watcher};
use futures::executor::block_on;
use test_support::{LONG, in_own_process};

/// The largest size of an event, in bytes.
const SIZE: usize = 16 * 1024;

type Large = [u8; SIZE];

/// The number of bytes that a future may take in addition to its event.
const FUTURE: usize = 1024;

/// The number of bytes of stack that a thread and a call may take in addition to events.
const BASE: usize = 64 * 1024;

#[test]
fn a_future_holds_its_event_once_and_a_control_future_holds_none() {
    let bus = Broadcaster::<Large>::new().unwrap();
    let publisher = bus.publisher();
    let publish = size_of_val(&publisher.publish_async([0; SIZE]));
    assert!((SIZE..SIZE + FUTURE).contains(&publish), "publish_async: {publish} bytes");
    let mut watcher = bus.watch().unwrap();
    let recv = size_of_val(&watcher.recv_async());
    let recv_batch = size_of_val(&watcher.recv_batch_async());
    let without_event = [
        ("ready", size_of_val(&publisher.ready())),
        ("flush_async", size_of_val(&bus.flush_async(LONG))),
        ("shutdown_async", size_of_val(&bus.shutdown_async(LONG))),
        ("recv_async", recv),
        ("recv_batch_async", recv_batch),
    ];
    for (call, size) in without_event {
        assert!(size < FUTURE, "{call}: {size} bytes");
    }
}

type Bus = Broadcaster<Large>;
type Call = fn(&Bus, &mut Watcher<Large>);

/// The calls that push an event. Each call is a separate function, so its stack frame holds nothing
/// else.
const PUBLISHING: [(&str, Call); 5] = [
    ("try_publish", |bus, _| bus.publisher().try_publish([1; SIZE]).unwrap()),
    ("publish", |bus, _| bus.publisher().publish([1; SIZE]).unwrap()),
    ("publish_timeout", |bus, _| bus.publisher().publish_timeout([1; SIZE], LONG).unwrap()),
    ("publish_batch", |bus, _| bus.publisher().publish_batch(vec![[1; SIZE]]).unwrap()),
    ("publish_async", |bus, _| block_on(bus.publisher().publish_async([1; SIZE])).unwrap()),
];

/// The calls that add a control entry.
const CONTROL: [(&str, Call); 4] = [
    ("publish_gap", |bus, _| bus.publisher().publish_gap(1).unwrap()),
    ("watch", |bus, _| drop(bus.watch().unwrap())),
    ("flush", |bus, _| bus.flush(LONG).unwrap()),
    ("flush_async", |bus, _| block_on(bus.flush_async(LONG)).unwrap()),
];

/// The calls that receive an event.
const RECEIVING: [(&str, Call); 3] = [
    ("try_recv", |_, watcher| assert!(watcher.try_recv().is_ok())),
    ("recv", |_, watcher| assert!(watcher.recv().is_ok())),
    ("recv_async", |_, watcher| assert!(block_on(watcher.recv_async()).is_ok())),
];

/// Makes a call on a thread whose stack can hold this number of events. A call that needs more
/// stack terminates the process with a message that names the thread.
fn call_on_stack_of(events: usize, (name, call): (&str, Call), options: BusOptions) {
    let options = options.incoming_capacity(2).queue_capacity(4);
    let (tx, parts) = mpsc::channel();
    let prepare = move || {
        let bus = Bus::with_options(options).unwrap();
        let watcher = bus.watch_builder().overflow(OverflowPolicy::Wait).watch().unwrap();
        bus.publisher().publish([0; SIZE]).unwrap();
        // The flush ensures that the dispatcher has offered the event, so there is an event to
        // receive.
        bus.flush(LONG).unwrap();
        tx.send((bus, watcher)).unwrap();
    };
    let on_thread = |size, run: Box<dyn FnOnce() + Send>| {
        let thread = thread::Builder::new().name(name.to_owned()).stack_size(size);
        thread.spawn(run).unwrap().join().unwrap();
    };
    on_thread(8 << 20, Box::new(prepare));
    let (bus, mut watcher) = parts.recv().unwrap();
    on_thread(events * SIZE + BASE, Box::new(move || call(&bus, &mut watcher)));
}

#[test]
fn a_call_needs_a_bounded_multiple_of_the_event_as_stack() {
    in_own_process!();
    let [publishing, receiving] = if cfg!(debug_assertions) { [48, 12] } else { [12, 4] };
    let options = BusOptions::default();
    // On an inline bus, a call with a control entry may offer events that user code has added.
    let (queued, inline) = (options.clone().direct_delivery(false), options.clone().inline(true));
    for (options, control) in [(options, 0), (queued, 0), (inline, publishing)] {
        let check = |calls: &[(&str, Call)], events| {
            for &call in calls {
                call_on_stack_of(events, call, options.clone());
            }
        };
        check(&PUBLISHING, publishing);
        check(&CONTROL, control);
        check(&RECEIVING, receiving);
    }
}
