//! Output to stdout and stderr.

use std::error::Error;
use std::io::{self, Write as _};

/// Writes to stdout. It is not a failure if the reader has closed the pipe, as in `| head`.
pub(crate) fn say(text: &str) -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to stdout: {error}").into())
        }
        _ => Ok(()),
    }
}

/// Writes a line to stderr and ignores errors.
pub(crate) fn complain(text: &str) {
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}
