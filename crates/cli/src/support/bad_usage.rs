//! The error for invalid arguments that the parser does not detect.

use std::error::Error;
use std::fmt;

/// An error in the arguments that the parser does not detect, which results in exit status 2.
#[derive(Debug)]
pub(crate) struct BadUsage(pub(crate) String);

impl fmt::Display for BadUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for BadUsage {}
