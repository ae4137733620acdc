//! Writes events as lines of JSON to a file or any other output.
//!
//! `files` opens and rotates the files. `output` writes the lines, and reopens the path if another
//! program has moved the file.

mod files;
mod options;
mod output;
mod stats;

use std::fmt;
use std::io::Write;
use std::path::Path;

use crate::error::BuildError;
use crate::record::event::Event;
use crate::sync::{Arc, Mutex};

use super::{EventSink, SinkError, WriteOrder};

use output::{Output, Rotation};

pub use options::JsonLinesOptions;
pub use stats::JsonLinesStats;

/// A sink that appends each event to a file as one line of JSON. All clones refer to the same sink,
/// so a recording can own one clone while the program reads the [statistics](Self::stats) from
/// another clone.
///
/// Each line is a complete event, as returned by [`Event::to_json`]. The sink never looks up
/// existing events:
///
/// - Creations, updates and patches all append the event in its current state, including its count.
///   If several lines have the same namespace and name, the last line contains the event's current
///   state.
/// - An operation does not fail because an event already exists or is missing.
/// - The sink accepts events that an API server would reject.
///
/// # Order
///
/// - The sink requests [`WriteOrder::Bus`]. The sink writes a line for each recorded event that is
///   not skipped. The lines are in bus order, even if writes fail. If a line cannot be written, all
///   later lines are blocked until the line is written or dropped.
/// - If a write fails near its end, it may leave a complete line, and the next attempt appends the
///   same line again. The two lines are identical.
/// - If a recording sets
///   [`order`](crate::record::RecordingBuilder::order)`(`[`WriteOrder::PerKey`]`)` and the output
///   is slow, the recording writes fewer lines, because it writes only the newest unwritten state
///   of each event. A later line for an event still contains a later state of that event. The order
///   of lines for different events is undefined if the writes failed or if the recording has
///   several workers.
///
/// The sink does not order lines from different recordings, and each recording counts events
/// independently. Use a separate file for each recording.
///
/// # Files
///
/// The sink passes each line to the operating system before it answers the operation. Each line is
/// passed in a single write, unless the system accepts only part of the line. The file therefore
/// contains every acknowledged line even if the process is killed. The sink does not sync the file
/// to disk (`fsync`), so the last lines may be lost in a power failure.
///
/// A line may be truncated by a crash or a full disk. The sink then writes a newline before the
/// next line, even if it has only just opened the file. As a result, at most one line is
/// unreadable. A failure may also leave an empty line.
///
/// If [`max_bytes`](JsonLinesOptions::max_bytes) is set, the sink rotates its file. It renames a
/// full `events.jsonl` to `events.jsonl.1`, an existing `events.jsonl.1` to `events.jsonl.2`, and
/// so on. If there are already [`keep`](JsonLinesOptions::keep) rotated files, the oldest rotated
/// file is replaced. If a rotation fails, for example because the directory is read-only, the sink
/// continues to write to the old file, which grows beyond its limit. The sink counts the failure in
/// [`stats`](Self::stats), and retries the rotation before the next line. No events are lost
/// because of such a failure.
///
/// - The sink resolves links when it opens the file. Rotated files are placed in the same directory
///   as the real file.
/// - The first file gets the process's default permissions for new files. After a rotation, the new
///   file gets the same permissions as the rotated file.
/// - Before writing each line, the sink compares the file at its path with its open file by device
///   and inode. If another program has renamed or removed the file, the sink reopens the path and
///   writes the line there. Log rotation tools can therefore rename the file and delete it later.
///   If the sink creates a file, the file gets the same permissions as the previous file. A program
///   can also request that the sink reopen the path, by calling [`reopen`](Self::reopen).
///   [`stats`](Self::stats) counts both cases.
/// - If the path cannot be reopened, the outcome depends on the old file. If the old file was only
///   renamed, the sink continues to write to the old file. If it was removed, the write fails with
///   `SinkErrorKind::Unavailable`, so the recording retries the write. A line can be lost only if
///   it is written at exactly the time when the file is removed.
/// - On systems other than Unix, the sink cannot distinguish files. The sink detects only whether a
///   file exists at its path.
/// - Another program may safely copy the file and then truncate it to zero length.
/// - If two processes append to the same file on a local disk, no line is lost, provided that
///   neither process rotates the file and no write is truncated, for example by a full disk.
///
/// # Reading
///
/// The following jq command prints the current state of each event once. The files must be passed
/// in order, with the oldest file first. Truncated lines are skipped:
///
/// ```sh
/// jq -nR 'reduce (inputs | fromjson?) as $event ({};
///         .["\($event.metadata.namespace)/\($event.metadata.name)"] = $event) | .[]' \
///     events.jsonl.1 events.jsonl
/// ```
///
/// # Examples
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("eventcast-lines-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("events.jsonl");
/// use eventcast::sink::JsonLinesSink;
/// use eventcast::{Event, EventBroadcaster, EventType, ObjectReference};
///
/// let events = EventBroadcaster::new()?;
/// events.record_to(JsonLinesSink::open(&path)?)?;
/// let recorder = events.recorder("mounter");
/// for _ in 0..2 {
///     recorder.event(ObjectReference::new("Disk", "sda"), EventType::Normal, "Mounted", "on /");
/// }
/// events.shutdown();
///
/// let text = std::fs::read_to_string(&path)?;
/// let lines: Result<Vec<Event>, _> = text.lines().map(Event::from_json).collect();
/// assert_eq!(lines?.iter().map(|event| event.count).collect::<Vec<_>>(), [1, 2]);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct JsonLinesSink {
    shared: Arc<Shared>,
}

struct Shared {
    output: Mutex<Output>,
    /// The statistics are not protected by the output's lock, because a write may take a long time.
    stats: Mutex<JsonLinesStats>,
}

impl JsonLinesSink {
    /// Creates a sink that appends to the given output, such as a pipe, a socket or a compressor.
    /// The sink flushes the output after each line.
    ///
    /// If the output returns an error, the error determines whether the event is retried. See
    /// [`SinkError::from`]. If the output panics, the recording drops the event.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::JsonLinesSink;
    /// use eventcast::{Event, EventSink};
    /// use std::{io, sync::mpsc};
    ///
    /// struct Lines(mpsc::Sender<Vec<u8>>);
    ///
    /// impl io::Write for Lines {
    ///     fn write(&mut self, line: &[u8]) -> io::Result<usize> {
    ///         self.0.send(line.to_vec()).map_err(io::Error::other).map(|()| line.len())
    ///     }
    ///
    ///     fn flush(&mut self) -> io::Result<()> {
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let (lines, received) = mpsc::channel();
    /// JsonLinesSink::new(Lines(lines)).create(&Event::default())?;
    /// assert_eq!(received.recv()?, (Event::default().to_json() + "\n").into_bytes());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(output: impl Write + Send + 'static) -> Self {
        Self::from_output(Output::new(Box::new(output)))
    }

    /// Creates a sink that appends to a file without a size limit. If the file does not exist, it
    /// is created. The file's directory must already exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be opened for reading and writing, or is not a regular
    /// file. To write to a device or a pipe, open the device or pipe yourself and pass it to
    /// [`new`](Self::new).
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("eventcast-open-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("events.jsonl");
    /// use eventcast::sink::JsonLinesSink;
    /// use eventcast::{Event, EventSink};
    ///
    /// // If the file exists, the sink appends to it.
    /// for _ in 0..2 {
    ///     JsonLinesSink::open(&path)?.create(&Event::default())?;
    /// }
    /// assert_eq!(std::fs::read_to_string(&path)?.lines().count(), 2);
    ///
    /// let error = JsonLinesSink::open(folder.join("missing/events.jsonl")).unwrap_err();
    /// assert!(error.to_string().starts_with("cannot open "));
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self, BuildError> {
        Self::with_options(path, JsonLinesOptions::default())
    }

    /// Creates a sink that appends to a file, and rotates the file according to the options.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`open`](Self::open). Also returns an error if an option is out
    /// of range.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("eventcast-rotate-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("events.jsonl");
    /// use eventcast::sink::{JsonLinesOptions, JsonLinesSink};
    /// use eventcast::{Event, EventSink};
    ///
    /// // Each event is larger than the size limit, so it gets its own file.
    /// let options = JsonLinesOptions::default().max_bytes(1).keep(2);
    /// let sink = JsonLinesSink::with_options(&path, options)?;
    /// for _ in 0..5 {
    ///     sink.create(&Event::default())?;
    /// }
    /// assert_eq!((sink.stats().lines, sink.stats().rotations), (5, 4));
    /// let kept = ["", ".1", ".2", ".3"].map(|end| folder.join(format!("events.jsonl{end}")).exists());
    /// assert_eq!(kept, [true, true, true, false]);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_options(path: impl AsRef<Path>, options: JsonLinesOptions) -> Result<Self, BuildError> {
        options.check()?;
        let path = path.as_ref();
        let fail = |error| BuildError::file(path, error);
        let opened = files::open(path).map_err(fail)?;
        // The path is made absolute because the process may change its working directory later.
        // Links are resolved because a rotation must move the real file instead of a link to it.
        let path = path.canonicalize().map_err(fail)?;
        let rotation = options.max_bytes.map(|max_bytes| Rotation { max_bytes, keep: options.keep });
        Ok(Self::from_output(Output::of_file(path, opened, rotation)))
    }

    fn from_output(output: Output) -> Self {
        Self { shared: Arc::new(Shared { output: Mutex::new(output), stats: Mutex::default() }) }
    }

    /// Returns the current statistics. Does not wait for a write in progress.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::JsonLinesSink;
    /// use eventcast::{Event, EventSink};
    ///
    /// let sink = JsonLinesSink::new(std::io::sink());
    /// sink.create(&Event::default())?;
    /// let stats = sink.stats();
    /// assert_eq!((stats.lines, stats.bytes), (1, Event::default().to_json().len() as u64 + 1));
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    pub fn stats(&self) -> JsonLinesStats {
        self.shared.stats.lock().clone()
    }

    /// Reopens the sink's path, so that the sink appends to the file that is currently at the path.
    /// Creates the file if it does not exist. A program should call this method when a log rotation
    /// tool requests it, usually by sending `SIGHUP`. If the sink's file is no longer at the path,
    /// the sink also reopens the path automatically before it writes a line.
    ///
    /// If the sink was created by [`new`](Self::new), it has no path, and this method has no
    /// effect.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`open`](Self::open). After an error, the sink continues to use
    /// its current file.
    ///
    /// # Blocking
    ///
    /// Blocks while another thread is writing a line.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("eventcast-reopen-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("events.jsonl");
    /// use eventcast::sink::JsonLinesSink;
    /// use eventcast::{Event, EventSink};
    ///
    /// let sink = JsonLinesSink::open(&path)?;
    /// std::fs::rename(&path, folder.join("monday.jsonl"))?;
    /// sink.reopen()?;
    /// sink.create(&Event::default())?;
    /// assert_eq!(std::fs::read_to_string(&path)?.lines().count(), 1);
    /// assert_eq!(sink.stats().reopens, 1);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("logrotate", "SIGHUP"))]
    pub fn reopen(&self) -> Result<(), BuildError> {
        self.shared.output.lock().reopen(&self.shared.stats)
    }

    fn append(&self, event: &Event) -> Result<Event, SinkError> {
        let line = event.to_json() + "\n";
        // Lock order: `Shared::output` before `Shared::stats`, so that `stats` never waits for the
        // output.
        self.shared.output.lock().append(line, &self.shared.stats)?;
        Ok(event.clone())
    }
}

/// Appends every event to the output.
impl EventSink for JsonLinesSink {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.append(event)
    }

    /// Appends the complete event as a new line, like an update.
    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.append(event)
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.append(event)
    }

    /// Returns [`WriteOrder::Bus`], because each change to an event is written as a separate line.
    fn write_order(&self) -> WriteOrder {
        WriteOrder::Bus
    }
}

impl fmt::Debug for JsonLinesSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonLinesSink").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
