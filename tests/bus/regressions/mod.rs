//! Regression tests: scenarios that can break a guarantee, each reduced to the smallest one that
//! shows it every time.
//!
//! No test here waits for time to pass. Threads meet at channels, timeouts run on a fake clock, and
//! a watchdog ends a test that hangs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod delivery;
mod end;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use eventcast::testing::FakeClock;

const FOREVER: Duration = Duration::MAX;

fn fake_clock() -> FakeClock {
    FakeClock::new(SystemTime::UNIX_EPOCH).drive_the_end()
}

/// An event that runs a function when its last copy is dropped.
#[derive(Clone)]
struct Loaded {
    number: u32,
    _on_drop: Option<Arc<OnDrop>>,
}

struct OnDrop(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(run) = self.0.get_mut().unwrap().take() {
            run();
        }
    }
}

impl Loaded {
    fn plain(number: u32) -> Self {
        Self { number, _on_drop: None }
    }

    fn with(number: u32, on_drop: impl FnOnce() + Send + 'static) -> Self {
        Self { number, _on_drop: Some(Arc::new(OnDrop(Mutex::new(Some(Box::new(on_drop)))))) }
    }
}

/// An event that counts how many events of its kind are alive.
struct Live {
    number: u32,
    alive: Arc<AtomicUsize>,
}

impl Live {
    fn batch(alive: &Arc<AtomicUsize>, count: u32) -> Vec<Self> {
        (0..count)
            .map(|number| {
                alive.fetch_add(1, Ordering::SeqCst);
                Self { number, alive: alive.clone() }
            })
            .collect()
    }
}

impl Clone for Live {
    fn clone(&self) -> Self {
        self.alive.fetch_add(1, Ordering::SeqCst);
        Self { number: self.number, alive: self.alive.clone() }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}
