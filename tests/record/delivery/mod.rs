//! Delivery by state: the store gets the newest state of each event, with few writes, whatever the
//! sink does meanwhile. `tests/fuzz/delivery` tries the same with random programs.
#![allow(clippy::type_complexity, reason = "what a test notes, it notes in one place")]

mod absorbing;
mod bus_order;
mod full;
mod hanging;
mod identity;
mod outage;

use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use eventcast::record::Jitter;
use eventcast::testing::FakeClock;
use eventcast::{BusOptions, CorrelatorOptions, EventBroadcaster, RetryPolicy};

use crate::support::{LONG, Scripted, short};

/// Returns a broadcaster with ten seconds between attempts, none of them shortened.
fn broadcaster(clock: &FakeClock) -> EventBroadcaster {
    EventBroadcaster::builder()
        .clock(clock.clock())
        .bus(BusOptions::default().incoming_len(10_000))
        .retry(RetryPolicy::default().jitter(Jitter::Never))
        .build()
        .unwrap()
}

fn without_budget() -> CorrelatorOptions {
    CorrelatorOptions::default().spam_filter(None)
}

const PAUSE: Duration = Duration::from_secs(10);

/// Returns the calls of a sink in short.
fn calls_of(sink: &Scripted) -> Vec<String> {
    sink.calls().iter().map(short).collect()
}

/// A place that lets one call after the other pass, or all of them after the drop.
struct Turnstile {
    entered: Receiver<()>,
    go: Sender<()>,
}

fn turnstile() -> (Turnstile, impl Fn() + Send + Sync) {
    let (entered_tx, entered) = mpsc::channel();
    let (go, go_rx) = mpsc::channel::<()>();
    let go_rx = Mutex::new(go_rx);
    let pass = move || {
        let _ = entered_tx.send(());
        // An error means that the turnstile is gone. All calls pass then.
        let _ = go_rx.lock().unwrap().recv();
    };
    (Turnstile { entered, go }, pass)
}

impl Turnstile {
    /// Waits until a call stands before it.
    fn wait(&self) {
        self.entered.recv_timeout(LONG).unwrap();
    }

    fn let_one_pass(&self) {
        self.go.send(()).unwrap();
    }
}
