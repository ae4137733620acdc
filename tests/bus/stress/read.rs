//! Readers and handlers of a round.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use eventcast::{Broadcaster, Delivery, Watcher};
use test_support::Rng;

use super::event::{Ident, Item, Payload};
#[cfg(feature = "select")]
use super::met::{self, Met};
use super::plan::{Handled, Made, Read, random_watcher};
use super::running::Running;
use super::tasks;

pub(crate) fn item(delivery: Delivery<&Payload>) -> Item {
    match delivery {
        Delivery::Event(event) => Item::Event(event.ident),
        Delivery::Lagged(count) => Item::Lagged(count),
    }
}

/// Notes the event whose `Clone` panicked in a receive, because it counts as delivered. Returns
/// whether there is more.
pub(crate) fn received(result: thread::Result<bool>, log: &mut Vec<Item>) -> bool {
    match result {
        Ok(more) => more,
        Err(payload) => match payload.downcast::<Ident>() {
            Ok(ident) => {
                log.push(Item::Event(*ident));
                true
            }
            Err(payload) => resume_unwind(payload),
        },
    }
}

/// Receives once, in a random form. Returns `false` at the end.
pub(crate) fn receive(watcher: &mut Watcher<Payload>, rng: &mut Rng, log: &mut Vec<Item>) -> bool {
    let form = rng.below(8);
    let result = catch_unwind(AssertUnwindSafe(|| match form {
        0 => watcher.recv().map(|d| log.push(item(d.as_ref()))).is_ok(),
        1 => match watcher.try_recv() {
            Ok(d) => {
                log.push(item(d.as_ref()));
                true
            }
            Err(error) => {
                thread::yield_now();
                error == eventcast::error::TryRecvError::Empty
            }
        },
        2 => match watcher.recv_timeout(Duration::from_micros(20)) {
            Ok(d) => {
                log.push(item(d.as_ref()));
                true
            }
            Err(error) => error == eventcast::error::RecvTimeoutError::Timeout,
        },
        3 => watcher.recv_ref().map(|d| log.push(item(d))).is_ok(),
        4 => {
            let mut own = rng.fork();
            tasks::block_on(rng, tasks::receive(watcher, &mut own, log))
        }
        #[cfg(feature = "select")]
        5 => select(watcher, rng, log),
        _ => watcher
            .recv_batch()
            .map(|batch| {
                if batch.lagged > 0 {
                    log.push(Item::Lagged(batch.lagged));
                }
                log.extend(batch.iter().map(|event| Item::Event(event.ident)));
            })
            .is_ok(),
    }));
    received(result, log)
}

/// Waits beside another channel, and takes everything that is there.
#[cfg(feature = "select")]
fn select(watcher: &mut Watcher<Payload>, rng: &mut Rng, log: &mut Vec<Item>) -> bool {
    let never = crossbeam_channel::never::<()>();
    let mut select = crossbeam_channel::Select::new();
    select.recv(&never);
    let index = watcher.add_to(&mut select);
    let ready = if rng.once_in(2) {
        Ok(select.ready())
    } else {
        select.ready_timeout(Duration::from_micros(rng.below(100)))
    };
    assert!(ready.is_err() || ready == Ok(index));
    met::add(Met::Selects, u64::from(ready.is_ok()));
    loop {
        match watcher.try_recv() {
            Ok(delivery) => log.push(item(delivery.as_ref())),
            Err(error) => return error == eventcast::error::TryRecvError::Empty,
        }
    }
}

/// Drops the watcher of a reader that wants no more, if `panics` by a panic.
pub(crate) fn leave(watcher: Watcher<Payload>, panics: bool) {
    if !panics {
        return drop(watcher);
    }
    let gone = catch_unwind(AssertUnwindSafe(move || {
        let _watcher = watcher;
        panic_any(Ident { publisher: 0, number: 0 });
    }));
    assert!(gone.is_err());
}

/// Returns the number of deliveries after which a reader leaves.
pub(crate) fn patience(rng: &mut Rng, stays: bool) -> u64 {
    if stays || rng.once_in(2) { u64::MAX } else { rng.below(40) }
}

fn read(mut watcher: Watcher<Payload>, made: Made, mut rng: Rng, stays: bool) -> Read {
    let leaves_after = patience(&mut rng, stays);
    let mut log = Vec::new();
    let mut more = true;
    while more && (log.len() as u64) < leaves_after {
        more = receive(&mut watcher, &mut rng, &mut log);
        if rng.once_in(8) {
            thread::yield_now();
        }
    }
    if more {
        if rng.once_in(3) {
            watcher.stop();
            while receive(&mut watcher, &mut rng, &mut log) {}
        }
        leave(watcher, rng.once_in(2));
        return Read { made, log, kept: None };
    }
    assert!(watcher.recv().is_err(), "the end is for ever");
    let kept = (!made.ends_itself).then_some(watcher);
    Read { made, log, kept }
}

/// Starts a thread or a task that reads a watcher to its end, or leaves before.
pub(crate) fn spawn_reader(
    watcher: Watcher<Payload>,
    made: Made,
    mut rng: Rng,
    stays: bool,
) -> Running<Read> {
    if rng.once_in(3) {
        let own = rng.fork();
        return Running::task(&mut rng, tasks::read(watcher, made, own, stays));
    }
    let own = rng.fork();
    Running::thread(move || read(watcher, made, own, stays))
}

pub(crate) fn spawn_handler(bus: &Broadcaster<Payload>, rng: &mut Rng) -> Handled {
    let (builder, made) = random_watcher(bus, rng, None, false);
    let log = Arc::new(Mutex::new(Vec::new()));
    let position = Arc::new(AtomicU64::new(0));
    let thrown = Arc::new(AtomicU64::new(0));
    let panics = if rng.once_in(2) { Some(rng.pick(&[1, 3, 10])) } else { None };
    let (to_log, to_position, to_thrown) = (log.clone(), position.clone(), thrown.clone());
    let handler = move |delivery: Delivery<&Payload>| {
        let ident = match delivery {
            Delivery::Event(event) => {
                event.noise(4);
                to_log.lock().unwrap().push(Item::Event(event.ident));
                to_position.fetch_add(1, Ordering::SeqCst);
                event.ident
            }
            Delivery::Lagged(count) => {
                to_log.lock().unwrap().push(Item::Lagged(count));
                to_position.fetch_add(count, Ordering::SeqCst);
                Ident { publisher: 0, number: count as u32 }
            }
        };
        if panics.is_some_and(|n| ident.number % n == 0) {
            to_thrown.fetch_add(1, Ordering::SeqCst);
            panic_any(ident);
        }
    };
    if rng.once_in(3) {
        let runner = builder.runner(handler).unwrap();
        let handle = runner.handle();
        tasks::spawn(rng, runner);
        return Handled { made, handle, log, position, thrown, was_stopped: false };
    }
    let handle = builder.spawn(handler).unwrap();
    Handled { made, handle, log, position, thrown, was_stopped: false }
}
