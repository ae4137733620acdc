//! The event broadcaster: logs, watchers, hooks, shutdown, and the behaviour when user-supplied
//! code calls back into the library or panics.

mod builder;
mod end;
mod inline;
mod logging;
mod losses;
mod shutdown;
mod user_code;
mod watchers;

use std::sync::{Arc, Mutex};

use eventcast::Event;

type Shared<T> = Arc<Mutex<Vec<T>>>;

/// Returns a list, and a handler that appends each event's message to the list.
fn collect() -> (Shared<String>, impl FnMut(&Event) + Send) {
    let seen = Shared::default();
    let into = seen.clone();
    (seen, move |event: &Event| into.lock().unwrap().push(event.message.to_string()))
}
