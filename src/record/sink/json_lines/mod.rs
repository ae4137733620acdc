//! Events as lines of JSON, in a file or in any other output.
//!
//! `files` opens and rotates the files. The lines are written here, so that a line that was broken
//! off does not damage the next one.

mod files;
mod options;

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::escape::escape;
use crate::record::event::Event;
use crate::sync::{Arc, Mutex};

use super::{EventSink, SinkError, WriteOrder};

use files::Opened;

pub use options::JsonLinesOptions;

/// A sink that appends each event to a file as one line of JSON. A clone is the same sink, so one
/// can be given to a recording while the other shows the [statistics](Self::stats).
///
/// Each line is a whole event, as [`Event::to_json`] returns it. The sink looks nothing up:
///
/// - A creation, an update and a patch each append the event as it is then, with its count. Of the
///   lines with the same namespace and name, the last one is the event.
/// - No operation fails because an event exists or is missing.
/// - The sink accepts events that an API server would refuse.
///
/// # Order
///
/// - The sink asks for [`WriteOrder::Bus`]. Each recorded event that is not skipped is a line, and
///   the lines are in the order of the bus, even if writes fail. A line that cannot be written
///   holds up those behind it, until it is written or given up.
/// - A write that fails near its end may leave a complete line, and the next attempt appends it
///   again. The two lines are equal.
/// - A recording with [`order`](crate::record::RecordingBuilder::order)`(`[`WriteOrder::PerKey`]`)`
///   writes fewer lines if the output is slow: of one event the newest state that is not yet
///   written. A later line of one event is then still the later state. There is no order between
///   different events whose write failed, or that several workers write.
///
/// The sink makes no order between several recordings, which count on their own. Give each its own
/// file.
///
/// # Files
///
/// The sink passes each line to the operating system before it answers: one write, unless the
/// system takes only a part. A file then has every acknowledged line even if the process is killed.
/// The sink does not wait for the disk (`fsync`), so a loss of power may take the last lines.
///
/// A crash or a full disk can break a line off. The next line then begins with a newline, also in a
/// file that a new sink opens, so at most one line is unreadable. A failure may also leave an empty
/// line.
///
/// With [`max_bytes`](JsonLinesOptions::max_bytes) the sink rotates: it renames a full
/// `events.jsonl` to `events.jsonl.1`, the file with that number to `events.jsonl.2`, and so on.
/// The file beyond [`keep`](JsonLinesOptions::keep) is replaced. If a rotation fails, for example
/// because the folder is read-only, the sink keeps writing to the old file, which grows beyond its
/// limit. It counts the failure in [`stats`](Self::stats), and tries again before the next line. No
/// event is lost by this.
///
/// - The sink resolves links when it opens the file. The rotated files are beside the real file.
/// - The first file has the permissions that the process gives to new files. A rotated one passes
///   its permissions on to the next file.
/// - If another program renames the file, the sink writes to the renamed file until its next
///   rotation. A program that copies the file and cuts it to zero does no harm.
/// - If another program removes the file, the sink goes on writing to the removed file, and these
///   lines are lost. Rename it instead.
/// - If two processes append to one file of a local disk, no line is lost, as long as neither of
///   them rotates and no write is cut short, as by a full disk.
///
/// # Reading
///
/// This jq program prints each event once, as it is now. It takes the files with the oldest one
/// first, and skips lines that were broken off:
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
/// events.start_recording_to_sink(JsonLinesSink::open(&path)?)?;
/// let recorder = events.new_recorder("mounter");
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
#[doc(alias("ndjson", "jsonl", "file"))]
pub struct JsonLinesSink {
    shared: Arc<Shared>,
}

struct Shared {
    output: Mutex<Output>,
    /// Not under the lock of the output, because a write may take long.
    stats: Mutex<JsonLinesStats>,
}

/// The statistics of a [`JsonLinesSink`], since it was made.
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
    /// The number of lines written in whole.
    pub lines: u64,
    /// The number of bytes written, including those of lines that were broken off.
    pub bytes: u64,
    /// The number of times that the sink began a new file because the last one was full.
    pub rotations: u64,
    /// The number of attempts to do so that failed. While they fail, the file grows beyond its
    /// limit.
    pub failed_rotations: u64,
    /// The reason why the last of these attempts failed, escaped. The field stays set when a later
    /// attempt succeeds.
    pub last_rotation_failure: Option<String>,
}

impl fmt::Display for JsonLinesStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lines, bytes, rotations, failed_rotations, last_rotation_failure } = self;
        write!(
            f,
            "lines {lines}, bytes {bytes}, rotations {rotations}, failed rotations {failed_rotations}"
        )?;
        match last_rotation_failure {
            // The text may have come from a file.
            Some(text) => write!(f, ", last rotation failure: {}", escape(text)),
            None => Ok(()),
        }
    }
}

impl JsonLinesSink {
    /// Creates a sink that appends to any output, such as a pipe, a socket or a compressor. The
    /// sink flushes the output after each line.
    ///
    /// If the output fails, its error decides whether the event is tried again, as
    /// [`SinkError::from`] says. If the output panics, the recording gives the event up.
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
        Self::from_output(Output { out: Box::new(output), is_torn: false, size: 0, rotation: None })
    }

    /// Creates a sink that appends to a file, which grows without end. Creates the file if it does
    /// not exist, but not its folder.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be opened for reading and writing, or is not a regular
    /// file. For a device or a pipe, open it yourself and use [`new`](Self::new).
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
    /// // A file that exists is continued.
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

    /// Creates a sink that appends to a file, and rotates it as the options say.
    ///
    /// # Errors
    ///
    /// As of [`open`](Self::open), and if an option is out of range.
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
    /// // Each event is larger than a file may be, so it has its own.
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
        let Opened { file, size, is_torn } = files::open(path).map_err(fail)?;
        // The process may go to another folder later, and a link stays where it is.
        let path = path.canonicalize().map_err(fail)?;
        let rotation =
            options.get_max_bytes().map(|max_bytes| Rotation { path, max_bytes, keep: options.get_keep() });
        Ok(Self::from_output(Output { out: Box::new(file), is_torn, size, rotation }))
    }

    fn from_output(output: Output) -> Self {
        Self { shared: Arc::new(Shared { output: Mutex::new(output), stats: Mutex::default() }) }
    }

    /// Returns the statistics so far. Does not wait for a write.
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

    /// Appends the whole event again. A patch does the same.
    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.append(event)
    }

    /// Returns [`WriteOrder::Bus`], because each change of an event is a line of its own.
    fn write_order(&self) -> WriteOrder {
        WriteOrder::Bus
    }
}

impl fmt::Debug for JsonLinesSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonLinesSink").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// The output, and its end.
struct Output {
    out: Box<dyn Write + Send>,
    /// Whether the output may end in the middle of a line.
    is_torn: bool,
    /// The size of the file in bytes, or what was written to another output.
    size: u64,
    rotation: Option<Rotation>,
}

/// The time when a file is full, and the files that are kept.
struct Rotation {
    path: PathBuf,
    /// The largest size in bytes.
    max_bytes: u64,
    /// The number of rotated files.
    keep: u32,
}

impl Output {
    fn append(&mut self, mut line: String, stats: &Mutex<JsonLinesStats>) -> io::Result<()> {
        if self.is_full(line.len() as u64) {
            self.rotate(stats);
        }
        if self.is_torn {
            line.insert(0, '\n');
        }
        self.write(&line, stats)?;
        stats.lock().lines += 1;
        Ok(())
    }

    /// Returns whether a line of this length does not fit into the file.
    fn is_full(&self, line: u64) -> bool {
        let size = self.size.saturating_add(line).saturating_add(u64::from(self.is_torn));
        self.size > 0 && self.rotation.as_ref().is_some_and(|rotation| size > rotation.max_bytes)
    }

    /// Begins a new file, or counts a failure to do so.
    fn rotate(&mut self, stats: &Mutex<JsonLinesStats>) {
        // Without an end, a reader of several files would join a torn line and the first line of
        // the new file.
        let ended = if self.is_torn { self.write("\n", stats) } else { Ok(()) };
        let Some(Rotation { path, keep, .. }) = &self.rotation else { return };
        match ended.and_then(|()| files::rotate(path, *keep)) {
            Ok(Opened { file, size, is_torn }) => {
                (self.out, self.size, self.is_torn) = (Box::new(file), size, is_torn);
                stats.lock().rotations += 1;
            }
            Err(error) => {
                let mut stats = stats.lock();
                stats.failed_rotations += 1;
                stats.last_rotation_failure = Some(escape(&error.to_string()).to_string());
            }
        }
    }

    /// Writes a text that ends with a newline, and flushes the output.
    fn write(&mut self, text: &str, stats: &Mutex<JsonLinesStats>) -> io::Result<()> {
        // Set meanwhile, because the output may panic.
        let was_torn = std::mem::replace(&mut self.is_torn, true);
        let (written, result) = write_all(&mut *self.out, text.as_bytes());
        self.size += written as u64;
        stats.lock().bytes += written as u64;
        let result = result.and_then(|()| self.out.flush());
        self.is_torn = result.is_err() && (was_torn || written > 0);
        result
    }
}

/// Writes all bytes, in one call if the output takes them all. Returns also how many the output has
/// taken.
fn write_all(out: &mut dyn Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match out.write(rest) {
            Ok(0) => return (written, Err(ErrorKind::WriteZero.into())),
            Ok(more) => written = written.saturating_add(more),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written.min(bytes.len()), Ok(()))
}

#[cfg(test)]
mod tests {
    use super::{JsonLinesStats, Mutex, Output, Rotation};
    use std::io::{self, Write};
    use std::path::PathBuf;

    /// An output on a full disk.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A rename needs no room, so it could succeed on a full disk. A reader of both files would
    /// then join the torn line and the first line of the new file.
    #[test]
    fn a_torn_line_that_cannot_be_ended_is_not_put_aside() {
        let rotation = Rotation { path: PathBuf::from("/nowhere/events.jsonl"), max_bytes: 1, keep: 1 };
        let mut output = Output { out: Box::new(Full), is_torn: true, size: 7, rotation: Some(rotation) };
        let stats = Mutex::new(JsonLinesStats::default());
        let error = output.append("{}\n".to_owned(), &stats).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(output.is_torn);
        let stats = stats.lock();
        assert_eq!((stats.lines, stats.rotations, stats.failed_rotations), (0, 0, 1));
        assert_eq!(stats.last_rotation_failure.as_deref(), Some("no storage space"));
    }
}
