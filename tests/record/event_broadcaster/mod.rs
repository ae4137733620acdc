//! The event broadcaster: logs, watchers, hooks, the end, and the behaviour when any of the user's
//! code panics.

mod end;
mod handlers;
mod hooks;
mod inline;
mod logs;
mod watchers;

use std::sync::{Arc, Mutex};

use eventcast::testing::FakeClock;
use eventcast::{Event, EventBroadcaster};

type Shared<T> = Arc<Mutex<Vec<T>>>;

fn broadcaster(clock: &FakeClock) -> EventBroadcaster {
    EventBroadcaster::builder().clock(clock.clock()).build().unwrap()
}

/// Returns a list, and a handler that adds the message of each event to it.
fn collect() -> (Shared<String>, impl FnMut(&Event) + Send) {
    let seen = Shared::default();
    let into = seen.clone();
    (seen, move |event: &Event| into.lock().unwrap().push(event.message.to_string()))
}

// ── logs ──
