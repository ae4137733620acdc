//! Turns Ctrl-C, Ctrl-\, a closed terminal, SIGTERM and the exit of a child into messages.

use std::io;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, signal_name};

use super::supervisor::Message;
use super::system;

/// One request to stop may arrive as several signals, because some senders signal both the guard
/// and the supervisor, and the guard also forwards its signal. Signals that arrive within this time
/// count as the same request.
pub(crate) const SAME_REQUEST: Duration = Duration::from_millis(200);

/// Registers the signals to handle. After registration, these signals no longer terminate the
/// program.
///
/// If a signal is ignored when the program starts, it remains ignored, so that `nohup` works.
/// SIGCHLD is always registered, because the system reaps ended children immediately if SIGCHLD is
/// ignored.
pub(crate) fn register() -> io::Result<Signals> {
    let ignored = system::ignored_signals();
    let is_ignored = |signal: i32| (ignored >> (signal - 1)) & 1 == 1;
    let stop = [SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter().filter(|&signal| !is_ignored(signal));
    Signals::new(stop.chain([SIGCHLD]))
}

/// Starts forwarding signals to `outbox`.
///
/// Once the receiver has been dropped, the program is printing its report or exiting. If nothing
/// reads the report, printing blocks forever. After the receiver has been dropped, a signal
/// therefore has its default effect, unless it belongs to the original request to stop.
pub(crate) fn forward(outbox: Sender<Message>) -> io::Result<()> {
    let mut signals = register()?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut requested: Option<Instant> = None;
        for signal in signals.forever() {
            let message = match signal {
                SIGCHLD => Message::Child,
                SIGINT | SIGQUIT => Message::Interrupt,
                _ => Message::Stop,
            };
            let is_sent = outbox.send(message).is_ok();
            if signal == SIGCHLD {
                continue;
            }
            if is_sent {
                requested.get_or_insert_with(Instant::now);
            } else if requested.is_none_or(|at| at.elapsed() >= SAME_REQUEST) {
                let _ = emulate_default_handler(signal);
            }
        }
    })?;
    Ok(())
}

/// Returns the name of a signal, such as `SIGSEGV` for 11. If the signal does not have a name, the
/// returned string contains the signal's number.
pub(crate) fn name(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}
