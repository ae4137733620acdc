//! Prints events as lines on stdout.

use std::error::Error;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use eventcast::Delivery;
use eventcast::error::RecvTimeoutError;
use eventcast::stats::RemoteState;
use eventcast_nats::{NatsSubscriberBuilder, Start, SubscriberOptions};

use super::args::WatchArgs;
use super::lines::Raw;
use super::server::{connection, refusal, show};
use crate::support::output::{complain, say};
use crate::support::signals::flag_of_signals;
use crate::support::text::{harmless_json, plain};

/// The maximum time between two checks of the signal flag.
const NAP: Duration = Duration::from_millis(50);
/// The maximum time that the subscriber may take on exit to save its position.
const END: Duration = Duration::from_secs(5);

/// Prints events until the requested number of events has been printed or a signal arrives.
pub(crate) fn watch(args: &WatchArgs) -> Result<bool, Box<dyn Error>> {
    let is_over = flag_of_signals().map_err(|error| format!("cannot wait for signals: {error}"))?;
    let mut options = SubscriberOptions::default();
    options.connection = connection(&args.server)?;
    args.stream.clone_into(&mut options.stream);
    options.filter.clone_from(&args.filter);
    options.resume.clone_from(&args.resume);
    options.start = if args.all { Start::All } else { Start::New };
    let builder = NatsSubscriberBuilder::with_codec(options, Raw);
    // A persistent fault is reported only once.
    let last = Mutex::new(String::new());
    let told = builder.on_status(show).on_error(move |text| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if *text != **last {
            text.clone_into(&mut last);
            complain(&format!("eventcast: {}", plain(text)));
        }
    });
    let mut watcher = told.watch().map_err(refusal)?;
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 && !is_over.load(Ordering::Relaxed) {
        match watcher.recv_timeout(NAP) {
            Ok(Delivery::Event(remote)) => {
                say(&format!("{}\n", harmless_json(&remote.event)))?;
                left -= 1;
            }
            Ok(Delivery::Lagged(missing)) => {
                complain(&format!("eventcast: {missing} events are missing here"));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Ended) => break,
        }
    }
    let has_failed = watcher.subscriber().status().state == RemoteState::Ended;
    watcher.close(END);
    Ok(!has_failed)
}
