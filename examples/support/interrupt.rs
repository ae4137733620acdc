//! Ctrl-C and SIGTERM, in programs that run on tokio.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A handle that waits for a signal to end the program. Once the handle exists, a signal ends the
/// program only through it.
pub(crate) struct Interrupt {
    #[cfg(unix)]
    int: Signal,
    #[cfg(unix)]
    term: Signal,
}

#[cfg(unix)]
impl Interrupt {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { int: signal(SignalKind::interrupt())?, term: signal(SignalKind::terminate())? })
    }

    /// Waits for the next signal.
    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.int.recv() => {}
            _ = self.term.recv() => {}
        }
    }
}

#[cfg(not(unix))]
impl Interrupt {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next signal.
    pub(crate) async fn wait(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
