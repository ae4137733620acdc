//! Checks that the stand-in for crossbeam's queues behaves like the real queues in single-threaded
//! programs. The tests do not compare what several threads may observe, because the stand-in
//! deliberately guarantees less than the real queues in that case (see the top of `src/sync.rs`).
#![cfg(eventcast_loom)]

use std::sync::Arc;

#[allow(
    dead_code,
    unexpected_cfgs,
    unreachable_pub,
    unused_imports,
    reason = "the library's own file, of which the queues are wanted"
)]
#[path = "../../src/sync/model.rs"]
mod model;

/// A simple random number generator (SplitMix64). The same seed results in the same program.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// A value that counts its live clones.
#[derive(Clone, Debug, Default)]
struct Alive(Arc<()>);

impl Alive {
    fn count(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

#[test]
fn the_bounded_queue_does_what_crossbeam_does() {
    let (mut full, mut empty, mut left) = (0, 0, 0);
    for seed in 0..500 {
        let mut random = Random(seed);
        let capacity = 1 + random.below(4) as usize;
        let program: Vec<u64> = (0..80).map(|_| random.below(6)).collect();
        let wanted = {
            let alive = Alive::default();
            let ((tx, rx), mut popped) = (crossbeam_channel::bounded(capacity), 0);
            let seen: Vec<_> = (0..)
                .zip(&program)
                .map(|(i, step)| match step {
                    0 | 1 => tx.try_send((i, alive.clone())).map_err(|error| error.into_inner().0).err(),
                    2 | 3 => {
                        let number = rx.try_recv().ok().map(|(number, _)| number);
                        popped += usize::from(number.is_some());
                        number
                    }
                    4 => Some(i32::from(tx.is_full())),
                    _ => Some((popped + tx.len()) as i32),
                })
                .collect();
            let held = alive.count();
            drop((tx, rx));
            (seen, held, alive.count())
        };
        full += program.iter().zip(&wanted.0).filter(|(step, seen)| **step < 2 && seen.is_some()).count();
        empty += program
            .iter()
            .zip(&wanted.0)
            .filter(|(step, seen)| matches!(step, 2 | 3) && seen.is_none())
            .count();
        left += wanted.1;
        loom::model(move || {
            let alive = Alive::default();
            let (tx, rx) = model::bounded(capacity);
            let seen: Vec<_> = (0..)
                .zip(&program)
                .map(|(i, step)| match step {
                    0 | 1 => tx.try_send((i, alive.clone())).map_err(|value| value.0).err(),
                    2 | 3 => rx.try_recv().map(|(number, _)| number),
                    4 => Some(i32::from(tx.is_full())),
                    _ => Some(tx.pushed() as i32),
                })
                .collect();
            let held = alive.count();
            drop((tx, rx));
            assert_eq!(
                (seen, held, alive.count()),
                wanted,
                "program {seed}, capacity {capacity}: {program:?}"
            );
        });
    }
    assert!(
        full > 1000 && empty > 1000 && left > 100,
        "{full} full, {empty} empty, {left} left: the programs are dull"
    );
}

#[test]
fn the_fifo_does_what_crossbeam_does() {
    for seed in 0..500 {
        let mut random = Random(seed);
        let program: Vec<u64> = (0..80).map(|_| random.below(2)).collect();
        let wanted = {
            let alive = Alive::default();
            // The library uses `ArrayQueue` for short queues, and `SegQueue` for all other queues.
            let short = crossbeam_queue::ArrayQueue::new(program.len());
            let queue = crossbeam_queue::SegQueue::new();
            let seen: Vec<_> = (0..)
                .zip(&program)
                .map(|(i, step): (i32, _)| {
                    if *step == 0 {
                        assert!(short.push(i).is_ok());
                        queue.push((i, alive.clone()));
                        None
                    } else {
                        let number = queue.pop().map(|(number, _)| number);
                        assert_eq!(short.pop(), number);
                        number
                    }
                })
                .collect();
            let held = alive.count();
            drop(queue);
            (seen, held, alive.count())
        };
        loom::model(move || {
            let alive = Alive::default();
            let queue = model::Fifo::new(program.len());
            let seen: Vec<_> = (0..)
                .zip(&program)
                .map(|(i, step): (i32, _)| {
                    if *step == 0 {
                        queue.push((i, alive.clone()));
                        None
                    } else {
                        queue.pop().map(|(number, _)| number)
                    }
                })
                .collect();
            let held = alive.count();
            drop(queue);
            assert_eq!((seen, held, alive.count()), wanted, "program {seed}: {program:?}");
        });
    }
}
