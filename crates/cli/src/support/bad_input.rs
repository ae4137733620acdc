//! The error for input or settings that a command cannot use.

use std::error::Error;
use std::fmt;

/// An error in the input or in the settings, which results in exit status 2.
#[derive(Debug)]
pub(crate) struct BadInput(pub(crate) String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for BadInput {}
