//! Signals that stop commands that would otherwise run indefinitely.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Returns a flag that is set by the first SIGINT or SIGTERM. A second signal terminates the
/// program immediately, because the program may be blocked in a write whose reader is not reading.
pub(crate) fn flag_of_signals() -> io::Result<Arc<AtomicBool>> {
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The order matters, because the first of these two handlers must find the flag unset when
        // the first signal arrives.
        flag::register_conditional_default(signal, is_over.clone())?;
        flag::register(signal, is_over.clone())?;
    }
    Ok(is_over)
}
