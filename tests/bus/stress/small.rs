//! Small rounds: a few operations at about the same time.

use std::sync::Barrier;
use std::sync::atomic::Ordering;
use std::thread;

use eventcast::{Broadcaster, BusOptions, OverflowPolicy};
use test_support::Rng;

use super::event::{Ident, Origin};
use super::plan::Published;
use super::publish::note_one;
use super::watchdog::run_rounds;

/// Runs three operations at about the same time on a bus that is nearly idle: publishing once or
/// twice, dropping a watcher, and closing the bus. A busy round rarely reaches all possible orders
/// of these operations.
fn run_small_round(seed: u64, is_inline: bool) {
    let mut rng = Rng(seed);
    let origin = Origin::new(rng.once_in(2));
    let bus =
        Broadcaster::with_options(BusOptions::default().incoming_capacity(4).inline(is_inline)).unwrap();
    let mut witness = bus.watch_builder().queue_capacity(64).watch().unwrap();
    let policy = rng.pick(&[
        OverflowPolicy::DropIncoming,
        OverflowPolicy::DropOldest,
        OverflowPolicy::Evict,
        OverflowPolicy::Wait,
    ]);
    let queue_capacity = if policy == OverflowPolicy::Evict { 1 } else { 2 };
    let leaving = bus.watch_builder().queue_capacity(queue_capacity).overflow(policy).watch().unwrap();
    let pause = |spins: u64| (0..spins).for_each(|_| std::hint::spin_loop());
    let spins: Vec<u64> = (0..4).map(|_| rng.below(400)).collect();
    let begin = Barrier::new(3);
    let told = thread::scope(|scope| {
        let publishing = scope.spawn(|| {
            let publisher = bus.publisher();
            let mut told = Published::default();
            begin.wait();
            for number in 0..2 {
                pause(spins[number as usize]);
                let ident = Ident { publisher: 1, number };
                note_one(&mut told, ident, publisher.try_publish(origin.event(ident, false)));
            }
            told
        });
        scope.spawn(|| {
            begin.wait();
            pause(spins[2]);
            drop(leaving);
        });
        begin.wait();
        pause(spins[3]);
        bus.close();
        publishing.join().unwrap()
    });
    let mut order = Vec::new();
    while let Ok(delivery) = witness.recv_ref() {
        order.extend(delivery.event().map(|event| event.ident));
    }
    assert!(bus.shutdown().complete);
    assert_eq!(order, told.accepted, "every accepted event must have been offered");
    let stats = bus.stats();
    assert_eq!((stats.accepted, stats.rejected_closed), (order.len() as u64, told.stopped));
    let gone = &stats.departed;
    assert_eq!(gone.offered, gone.delivered + gone.dropped.total() + gone.queued, "{gone}");
    assert_eq!(gone.queued, 0);
    drop((witness, bus));
    assert_eq!(origin.alive.load(Ordering::SeqCst), 0, "events are left alive");
}

#[test]
fn three_concurrent_operations_account_for_every_event() {
    run_rounds(|seed| run_small_round(seed, false));
}

#[test]
fn three_concurrent_operations_account_for_every_event_without_a_thread() {
    run_rounds(|seed| run_small_round(seed, true));
}
