//! Defines the statistics of a sink that writes lines.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::escape::escape;

/// Statistics that a [`JsonLinesSink`](crate::sink::JsonLinesSink) has collected since its
/// creation.
///
/// # Examples
///
/// ```
/// use eventcast::stats::JsonLinesStats;
///
/// let stats = JsonLinesStats::default();
/// assert_eq!(stats.to_string(), "lines 0, bytes 0, rotations 0, failed rotations 0");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct JsonLinesStats {
    /// The number of complete lines written.
    pub lines: u64,
    /// The number of bytes written, including the bytes of truncated lines.
    pub bytes: u64,
    /// The number of times the sink started a new file because the previous file was full.
    pub rotations: u64,
    /// The number of failed attempts to start a new file or to reopen the path. As long as such
    /// attempts fail, the sink continues to write to the old file. The old file then grows beyond
    /// its limit, or stays where another program has moved it.
    pub failed_rotations: u64,
    /// The reason for the last failed attempt to start a new file or to reopen the path, with
    /// control characters escaped. The field remains set even if a later attempt succeeds.
    pub last_rotation_failure: Option<String>,
    /// The number of times the sink reopened its path, either because its file was no longer at the
    /// path or because of a call to [`reopen`](crate::sink::JsonLinesSink::reopen).
    pub reopens: u64,
}

impl fmt::Display for JsonLinesStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lines, bytes, rotations, failed_rotations, last_rotation_failure, reopens } = self;
        write!(
            f,
            "lines {lines}, bytes {bytes}, rotations {rotations}, failed rotations {failed_rotations}"
        )?;
        if *reopens > 0 {
            write!(f, ", reopens {reopens}")?;
        }
        match last_rotation_failure {
            // The text may not be escaped yet, because the statistics may have been deserialised.
            Some(text) => write!(f, ", last rotation failure: {}", escape(text)),
            None => Ok(()),
        }
    }
}
