//! The readers and handlers of a round.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use eventcast::{Broadcaster, Delivery, Watcher};
use test_support::Rng;

use super::event::{Ident, Item, Payload};
use super::executors::{rest, spawn};
use super::plan::{Handled, Made, Read, random_watcher};
use super::receive::{receive, receive_async};
use super::running::Running;

/// Drops the watcher of a reader that stops reading, during a panic if `panics` is set.
fn leave(watcher: Watcher<Payload>, panics: bool) {
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
fn patience(rng: &mut Rng, stays: bool) -> u64 {
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
    assert!(watcher.recv().is_err(), "a watcher that has ended must stay ended");
    let kept = (!made.ends_itself).then_some(watcher);
    Read { made, log, kept }
}

async fn read_async(mut watcher: Watcher<Payload>, made: Made, mut rng: Rng, stays: bool) -> Read {
    let leaves_after = patience(&mut rng, stays);
    let mut log = Vec::new();
    let mut more = true;
    while more && (log.len() as u64) < leaves_after {
        more = receive_async(&mut watcher, &mut rng, &mut log).await;
        if rng.once_in(8) {
            rest().await;
        }
    }
    if more {
        if rng.once_in(3) {
            watcher.stop();
            while receive_async(&mut watcher, &mut rng, &mut log).await {}
        }
        leave(watcher, rng.once_in(2));
        return Read { made, log, kept: None };
    }
    assert!(watcher.recv_async().await.is_err(), "a watcher that has ended must stay ended");
    let kept = (!made.ends_itself).then_some(watcher);
    Read { made, log, kept }
}

/// Starts a thread or a task that reads a watcher to its end, or leaves before that.
pub(crate) fn spawn_reader(
    watcher: Watcher<Payload>,
    made: Made,
    mut rng: Rng,
    stays: bool,
) -> Running<Read> {
    if rng.once_in(3) {
        let own = rng.fork();
        return Running::task(&mut rng, read_async(watcher, made, own, stays));
    }
    let own = rng.fork();
    Running::thread(move || read(watcher, made, own, stays))
}

pub(crate) fn spawn_handler(bus: &Broadcaster<Payload>, rng: &mut Rng) -> Handled {
    // The check of the departed watchers finds handlers by their names.
    static HANDLERS: AtomicU64 = AtomicU64::new(0);
    let (builder, made) = random_watcher(bus, rng, None, false);
    let builder = builder.name(&format!("handler-{}", HANDLERS.fetch_add(1, Ordering::Relaxed)));
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
        spawn(rng, runner);
        return Handled { made, handle, log, position, thrown, was_stopped: false };
    }
    let handle = builder.spawn(handler).unwrap();
    Handled { made, handle, log, position, thrown, was_stopped: false }
}
