//! A round: everything at once, and its checks.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use eventcast::{Broadcaster, BusOptions, Delivery};
use test_support::Rng;

use super::check::Checked;
use super::end::{end, wait_for_progress};
use super::event::{Ident, Origin};
use super::plan::{Published, Read, random_watcher};
use super::publish::{Round, hammer, publisher};
use super::read::{receive, spawn_handler, spawn_reader};
use super::running::Running;
use super::tasks;
use super::{FOREVER, MAX_PUBLISHERS};

fn spawn_publisher(round: &Arc<Round>, number: u32, hammers: bool, rng: &mut Rng) -> Running<Published> {
    let (round, own) = (round.clone(), rng.fork());
    if !hammers && rng.once_in(2) {
        return Running::task(rng, tasks::publisher(round, number, own));
    }
    Running::thread(move || if hammers { hammer(&round, number) } else { publisher(&round, number, own) })
}

/// Runs a round on a bus with a dispatcher, or on one without a thread.
pub(crate) fn run_round(seed: u64, is_inline: bool) {
    let mut rng = Rng(seed);
    let origin = Origin::new(rng.once_in(2));
    let hammers = rng.once_in(3);
    let incoming_capacity = if hammers { rng.pick(&[16, 512]) } else { rng.pick(&[1, 1, 2, 5, 16]) };
    let options =
        BusOptions::default().incoming_capacity(incoming_capacity).max_batch(rng.pick(&[1, 2, 3, 8, 64]));
    let bus = Arc::new(Broadcaster::with_options(options.inline(is_inline)).unwrap());

    // This watcher never loses anything, because no more events are published than fit.
    let mut witness = bus.watch_builder().name("witness").queue_capacity(4096).watch().unwrap();
    let mut readers = Vec::new();
    for i in 0..rng.below(4) {
        let lossless = i == 0;
        let (builder, made) = random_watcher(&bus, &mut rng, None, lossless);
        readers.push(spawn_reader(builder.watch().unwrap(), made, rng.fork(), lossless));
    }
    let mut handlers: Vec<_> = (0..rng.below(3)).map(|_| spawn_handler(&bus, &mut rng)).collect();
    let is_stuck = rng.once_in(4);
    let stuck = is_stuck.then(|| {
        let (builder, made) = random_watcher(&bus, &mut rng, None, true);
        (builder.watch().unwrap(), made)
    });
    let round = Arc::new(Round {
        bus: bus.clone(),
        origin: origin.clone(),
        progress: AtomicU64::new(0),
        is_stuck,
        poison: rng.once_in(3),
        positions: handlers.iter().map(|handler| handler.position.clone()).collect(),
    });

    let publishers: Vec<_> = (1..=rng.below(MAX_PUBLISHERS + 1) as u32)
        .map(|number| spawn_publisher(&round, number, hammers, &mut rng))
        .collect();
    let until = rng.below(publishers.len() as u64 * if hammers { 500 } else { 20 } + 1);
    wait_for_progress(&round, until, &mut rng);
    if let Some(handler) = handlers.first_mut() {
        if rng.once_in(3) {
            handler.was_stopped = true;
            handler.handle.stop();
        }
    }
    wait_for_progress(&round, until + 10, &mut rng);
    // Either the publishers reach their own end, which requires that none of them waits for ever,
    // or the bus ends under them.
    let comes_late = !is_stuck && rng.once_in(3);
    let join = |running: Vec<Running<_>>| running.into_iter().map(Running::join).collect();
    let (mut published, publishers): (Vec<Published>, _) =
        if comes_late { (join(publishers), Vec::new()) } else { (Vec::new(), publishers) };
    let report = end(&round, &mut rng);
    published.extend::<Vec<_>>(join(publishers));
    assert!(bus.publisher().try_publish(origin.event(Ident { publisher: 9, number: 0 }, false)).is_err());
    assert!(bus.watch().is_err());

    // All watchers are read to the end.
    let mut order = Vec::new();
    while let Ok(delivery) = witness.recv_ref() {
        match delivery {
            Delivery::Event(event) => order.push(event.ident),
            Delivery::Lagged(count) => panic!("the witness lost {count}"),
        }
    }
    let mut read: Vec<Read> = Vec::new();
    if let Some((mut watcher, made)) = stuck {
        let mut log = Vec::new();
        while receive(&mut watcher, &mut rng, &mut log) {}
        read.push(Read { made, log, kept: Some(watcher) });
    }
    readers.extend(published.iter_mut().flat_map(|told| told.readers.drain(..)));
    read.extend(readers.into_iter().map(Running::join));
    for handler in &handlers {
        assert!(handler.handle.join(FOREVER));
    }
    // Nothing changes any more when the bus has freed all watchers that are gone. Handlers that
    // ended with the bus stay listed. If their counts never balance, the round hangs.
    let kept = 1 + read.iter().filter(|read| read.kept.is_some()).count();
    let handled: HashSet<String> = handlers.iter().map(|handler| handler.handle.stats().name).collect();
    let settled = || {
        let (ended, other): (Vec<_>, Vec<_>) =
            bus.stats().watchers.into_iter().partition(|watcher| handled.contains(&watcher.name));
        other.len() <= kept && ended.iter().all(|w| w.offered == w.delivered + w.dropped.total())
    };
    while !settled() {
        thread::yield_now();
    }
    assert_eq!(witness.stats().delivered, order.len() as u64);

    let result = Checked { bus: &bus, report: &report, order: &order, published: &published };
    result.check_publishers();
    result.check_readers(&read);
    result.check_handlers(&handlers);
    result.check_departed(&read, &handlers);
    result.note_what_was_met(&read);

    drop((witness, read, handlers, round));
    drop(bus);
    assert_eq!(origin.alive.load(Ordering::SeqCst), 0, "events are left alive");
}
