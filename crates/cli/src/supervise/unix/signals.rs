//! Ctrl-C, Ctrl-\, a closed terminal, SIGTERM and the end of a child, as messages.

use std::io;
use std::sync::mpsc::Sender;
use std::thread;

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::supervisor::Message;

/// Sends these signals to `outbox` from now on. They no longer end the program.
pub(crate) fn forward(outbox: Sender<Message>) -> io::Result<()> {
    let mut signals = Signals::new([SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            let message = if signal == SIGCHLD { Message::Child } else { Message::Stop };
            if outbox.send(message).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

/// Returns the name of a signal, such as `SIGSEGV` for 11, or the number if it has no name.
pub(crate) fn name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}
