//! Output that does not fail if nothing reads it.

use std::error::Error;
use std::io::{self, Write};

/// Writes to stdout. A pipe that the reader has closed, as in `| head`, is not treated as a
/// failure.
pub(crate) fn say(text: &str) -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to stdout: {error}").into())
        }
        _ => Ok(()),
    }
}

/// Writes a line to stderr, and ignores any errors. The line is written with a single call, because
/// other programs may also be writing to stderr.
pub(crate) fn complain(text: &str) {
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}
