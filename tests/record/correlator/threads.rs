//! Threads that share a correlator whose caches are full.
//!
//! The order of uses is exact only while one thread uses a correlator. Each test provokes an order
//! in which all entries look younger than the decision that has to evict one of them. The tests run
//! in processes of their own, because that order depends on the numbers of the process's threads.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use eventcast::CorrelatorOptions;
use test_support::{LONG, in_own_process};

use super::limits::about;
use super::{Rig, decision};

/// The number of threads after which two threads share a stripe of the caches.
const STRIPES: usize = 32;

/// A thread that decides about one object at a time, when it is asked to.
struct Worker {
    objects: Sender<u64>,
    answers: Receiver<i32>,
}

impl Worker {
    fn start(rig: &Arc<Rig>) -> Self {
        let (objects, asked) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let rig = rig.clone();
        // A worker that hangs is not joined. The test fails by its deadline and ends the process.
        thread::spawn(move || {
            for object in asked {
                let _ = answer.send(decision(rig.correlator.correlate(&about(object))).0.count);
            }
        });
        Self { objects, answers }
    }

    /// Returns the count that the decision about this object has.
    #[track_caller]
    fn count(&self, object: u64) -> i32 {
        self.objects.send(object).unwrap();
        self.answers.recv_timeout(LONG).expect("a decision returns")
    }
}

fn rig(capacity: usize) -> Arc<Rig> {
    Arc::new(Rig::new(CorrelatorOptions::off().lru_cache_size(capacity)))
}

/// The cache is full, with `capacity` entries, and evicts exactly one for each one added.
#[track_caller]
fn keeps_the_books(rig: &Rig, capacity: usize) {
    let stats = rig.correlator.stats();
    assert_eq!(stats.evicted, stats.created - capacity as u64, "{stats:?}");
}

#[test]
fn threads_of_one_stripe_that_take_turns_evict_from_a_full_cache() {
    in_own_process!();
    for capacity in [1, 2, 3, 5, 8, 16, 32] {
        let rig = rig(capacity);
        // Each worker gets its number at its first decision, so the numbers of the first and the
        // last one are `STRIPES` apart.
        let workers: Vec<Worker> = (0..=STRIPES).map(|_| Worker::start(&rig)).collect();
        for (object, worker) in (0..).zip(&workers) {
            assert_eq!(worker.count(object), 1);
        }
        let (first, last) = (&workers[0], &workers[STRIPES]);
        for object in 0..200 {
            let worker = if object % 2 == 0 { first } else { last };
            assert_eq!(worker.count(1000 + object), 1, "{object} of {capacity}");
        }
        keeps_the_books(&rig, capacity);
    }
}

#[test]
fn a_thread_evicts_although_another_one_has_used_all_entries_later() {
    in_own_process!();
    for capacity in [1, 2, 3, 5] {
        let rig = rig(capacity);
        let (first, second) = (Worker::start(&rig), Worker::start(&rig));
        let in_cache = capacity as u64;
        // The first worker adds all entries, and the second one uses them. Its numbers are higher,
        // so the entries that the first worker spares then look younger than its next decisions.
        for object in 0..in_cache {
            assert_eq!(first.count(object), 1);
        }
        for object in 0..in_cache {
            assert_eq!(second.count(object), 2);
        }
        for object in in_cache..100 {
            assert_eq!(first.count(object), 1, "{object} of {capacity}");
        }
        keeps_the_books(&rig, capacity);
    }
}
