//! Arguments that do not belong together.

use std::error::Error;
use std::fmt;

/// Says what is wrong with the arguments, beyond what the parser sees. The exit status is then 2.
#[derive(Debug)]
pub(crate) struct BadUsage(pub(crate) String);

impl fmt::Display for BadUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for BadUsage {}
