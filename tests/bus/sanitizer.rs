//! Tests that `ThreadSanitizer` works. These tests run before a `.ci/tsan` run, because a run
//! without a report is trusted only if these tests succeed.
//!
//! `race` has a data race, which the sanitizer must report. `order` passes plain data between
//! threads through the standard library's mutexes, channels and joins. The sanitizer sees the order
//! that these operations establish only if the standard library is instrumented too. A report in
//! `order` means that the standard library is not instrumented.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unsafe_code, reason = "a data race cannot be had without it")]

use std::cell::UnsafeCell;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread;

/// A number that is not protected by a lock.
#[derive(Default)]
struct Plain(UnsafeCell<u64>);

// SAFETY: in `order`, any two accesses are separated by a lock, a message or a join. `race`
// violates this on purpose, and runs only under the sanitizer.
unsafe impl Sync for Plain {}

impl Plain {
    fn add(&self) -> u64 {
        // SAFETY: as above.
        unsafe {
            *self.0.get() += 1;
            *self.0.get()
        }
    }
}

#[test]
#[ignore = "it is a data race, for .ci/tsan to see"]
fn race() {
    let plain = Arc::new(Plain::default());
    let other = plain.clone();
    let thread = thread::spawn(move || other.add());
    plain.add();
    thread.join().unwrap();
}

#[test]
fn order() {
    let plain = Arc::new(Plain::default());
    let lock = Arc::new(Mutex::new(()));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (plain, lock) = (plain.clone(), lock.clone());
            thread::spawn(move || {
                for _ in 0..1000 {
                    let _held = lock.lock().unwrap();
                    plain.add();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let (there, arrived) = sync_channel(1);
    let (back, returned) = sync_channel(1);
    let other = plain.clone();
    let thread = thread::spawn(move || {
        for () in arrived {
            other.add();
            back.send(()).unwrap();
        }
    });
    for _ in 0..1000 {
        plain.add();
        there.send(()).unwrap();
        returned.recv().unwrap();
    }
    drop(there);
    thread.join().unwrap();
    assert_eq!(plain.add(), 4001);
}
