//! Arguments that do not belong together.

use std::error::Error;
use std::fmt;

/// An error in the arguments that the parser does not detect. The exit status is then 2.
#[derive(Debug)]
pub(crate) struct BadUsage(pub(crate) String);

impl fmt::Display for BadUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for BadUsage {}
