//! The options for a sink that writes lines to a file. The options determine when the sink starts a
//! new file and how many files it keeps.

use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::serde_object::object_only;

/// The maximum number of rotated files.
const MAX_KEEP: u32 = 1000;

/// Options for a [`JsonLinesSink`](super::JsonLinesSink).
///
/// # Examples
///
/// Keeps six files of at most 10 MiB each:
///
/// ```
/// use eventcast::sink::JsonLinesOptions;
///
/// let options = JsonLinesOptions::default().max_bytes(10 << 20).keep(5);
/// assert_eq!(serde_json::to_string(&options)?, r#"{"max_bytes":10485760,"keep":5}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// The options can be read from a configuration file that uses the setters' names as keys. If a key
/// is missing, the option's default is used. An unknown key causes an error. If a value is out of
/// range, creating the sink fails with an error that names the option:
///
/// ```
/// use eventcast::sink::{JsonLinesOptions, JsonLinesSink};
///
/// let options: JsonLinesOptions = serde_json::from_str(r#"{"max_bytes": 10485760}"#)?;
/// assert_eq!(options, JsonLinesOptions::default().max_bytes(10 << 20));
/// assert!(serde_json::from_str::<JsonLinesOptions>(r#"{"max_size": 10485760}"#).is_err());
///
/// let options = serde_json::from_str(r#"{"max_bytes": 0}"#)?;
/// let error = JsonLinesSink::with_options("events.jsonl", options).unwrap_err();
/// assert_eq!(error.to_string(), "max_bytes must be at least 1 byte, got 0");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use = "options do nothing until a sink is opened with them"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct JsonLinesOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_bytes: Option<u64>,
    pub(super) keep: u32,
}

/// The fields that `serde` reads for [`JsonLinesOptions`].
#[derive(Deserialize)]
#[serde(
    remote = "JsonLinesOptions",
    default = "JsonLinesOptions::default",
    deny_unknown_fields,
    expecting = "a sink's options, as an object"
)]
struct JsonLinesOptionsObject {
    max_bytes: Option<u64>,
    keep: u32,
}

object_only!(JsonLinesOptions, JsonLinesOptionsObject);

impl Default for JsonLinesOptions {
    fn default() -> Self {
        Self { max_bytes: None, keep: 5 }
    }
}

impl JsonLinesOptions {
    /// Sets the maximum size of a file, in bytes. The size must be at least 1. By default, a file
    /// has no size limit, and the sink never starts a new file.
    ///
    /// If a line would exceed the limit, the sink starts a new file before it writes the line. If
    /// an event's line alone exceeds the limit, the line is written to a separate file.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::{JsonLinesOptions, JsonLinesSink};
    ///
    /// let options = JsonLinesOptions::default().max_bytes(0);
    /// let error = JsonLinesSink::with_options("events.jsonl", options).unwrap_err();
    /// assert_eq!(error.option(), "max_bytes");
    /// ```
    #[doc(alias = "rotation")]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// Sets the number of rotated files that the sink keeps in addition to the current file. The
    /// number must be from 0 to 1000. Defaults to 5. If the number is 0, the sink truncates a full
    /// file. This option has no effect unless [`max_bytes`](Self::max_bytes) is set.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::{JsonLinesOptions, JsonLinesSink};
    ///
    /// assert_eq!(JsonLinesOptions::default().keep(5), JsonLinesOptions::default());
    /// let options = JsonLinesOptions::default().keep(1001);
    /// let error = JsonLinesSink::with_options("events.jsonl", options).unwrap_err();
    /// assert_eq!(error.option(), "keep");
    /// ```
    #[doc(alias = "max_backups")]
    pub fn keep(mut self, files: u32) -> Self {
        self.keep = files;
        self
    }

    pub(super) fn check(&self) -> Result<(), BuildError> {
        BuildError::require(self.max_bytes != Some(0), "max_bytes", 0, "at least 1 byte")?;
        let allowed = format!("0 to {MAX_KEEP} files");
        BuildError::require(self.keep <= MAX_KEEP, "keep", self.keep, allowed)
    }
}
