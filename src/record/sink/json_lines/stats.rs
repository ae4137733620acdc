//! The sink's statistics.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::escape::escape;

/// The statistics of a [`JsonLinesSink`](crate::sink::JsonLinesSink) since its creation.
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
    /// The number of times that the sink started a new file because the last one was full.
    pub rotations: u64,
    /// The number of failed attempts to start a new file or to reopen the path. While these
    /// attempts fail, the sink keeps writing to the old file, which grows beyond its limit or stays
    /// where another program has moved it.
    pub failed_rotations: u64,
    /// The reason for the last such failure, escaped. The field stays set even if a later attempt
    /// succeeds.
    pub last_rotation_failure: Option<String>,
    /// The number of times that the sink reopened its path, either because its file was no longer
    /// there or because of a call to [`reopen`](crate::sink::JsonLinesSink::reopen).
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
            // The statistics may have been deserialized, so the text may not be escaped yet.
            Some(text) => write!(f, ", last rotation failure: {}", escape(text)),
            None => Ok(()),
        }
    }
}
