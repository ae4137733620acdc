//! The signals that end a command which would otherwise run forever.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Returns a flag that the first signal to end the program sets. A second signal ends the program
/// immediately, because a write to a reader that does not read never returns.
pub(crate) fn flag_of_signals() -> io::Result<Arc<AtomicBool>> {
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The order counts: the first signal must find the flag unset here.
        flag::register_conditional_default(signal, is_over.clone())?;
        flag::register(signal, is_over.clone())?;
    }
    Ok(is_over)
}
