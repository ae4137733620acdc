//! Defines `EventReader`, which turns bytes into events and errors.

use std::fmt;
use std::io::{BufRead, ErrorKind};

use super::document::{self, Contents};
use super::error::EventReadError;
use super::item::ReadEvent;
use super::scan::{Fault, Piece, Scanner};

/// Reads Kubernetes events from common formats, such as the output of `kubectl`, `jq`, watches,
/// exporters, log shippers and audit logs.
///
/// The input can contain any mixture of:
///
/// - **Documents**: one or more JSON documents, with or without newlines between them. JSON lines
///   and JSON text sequences (RFC 7464) are supported.
/// - **Lists**: `List`, `EventList` and bare arrays, including nested lists. Lists are streamed, so
///   the reader needs memory for only one event, even if the whole list is on a single line.
/// - **Envelopes**: watch events, objects with an event in `object`, `event` or `body` (as JSON or
///   as a string that contains JSON), and audit records with an event in `responseObject`. Other
///   members of an envelope, such as `old_event` and `requestObject`, are ignored.
/// - **Events** of core/v1 and events.k8s.io. The reader follows the rules of
///   [`Event::from_json`](crate::Event::from_json), but is less strict. A count may be written as
///   `2.0`, and an unset time as `{}`. If a field occurs twice, the last value is used. Lone
///   surrogates and invalid UTF-8 are replaced with U+FFFD.
///
/// The iterator returns each event, and an error for each part of the input that is not an event.
/// After any error except an I/O error, the iterator continues:
///
/// - Lines that are not JSON, for example warnings printed by `kubectl`, are skipped.
/// - After a malformed document, the reader resumes at the next line that has the same indentation
///   as that document or no indentation.
/// - If a list is truncated, the reader returns the events before the truncation point, and then an
///   error of the kind [`CutOff`](crate::event::EventReadErrorKind::CutOff).
///
/// The input may contain the same event several times, with the same UID and an increasing count.
///
/// # Limits
///
/// A document may be up to 16 MiB long. It may contain up to 1,000,000 values, 100 levels of
/// nesting, and strings of up to 4 MiB each. These limits are checked before memory is allocated.
/// If a document exceeds a limit, the reader skips the document and reports an error.
///
/// # Blocking
///
/// [`next`](Iterator::next) blocks only while the underlying reader blocks.
///
/// # Examples
///
/// ```
/// use eventcast::event::EventReader;
///
/// let input = r#"Warning: v1 ComponentStatus is deprecated
/// {"kind": "List", "items": [{"reason": "Started", "count": 2.0}, {"reason": "Killing"}]}
/// {"type": "MODIFIED", "object": {"reason": "BackOff"}} {"reason": "Pulled"}
/// {"items": [{"reason": "Created"}, {"rea"#;
/// let (events, errors): (Vec<_>, Vec<_>) =
///     EventReader::new(input.as_bytes()).partition(|found| found.is_ok());
/// let reasons: Vec<_> = events.into_iter().map(|read| read.unwrap().event.reason).collect();
/// assert_eq!(reasons, ["Started", "Killing", "BackOff", "Pulled", "Created"]);
/// let errors: Vec<_> = errors.into_iter().map(|error| error.unwrap_err().to_string()).collect();
/// assert!(errors[0].ends_with("is not JSON"), "{errors:?}");
/// assert_eq!(errors[1], "line 4: the input ends inside a document that begins in line 4");
/// ```
pub struct EventReader<R> {
    reader: R,
    scanner: Scanner,
    /// The contents of the current document, and the line on which it begins.
    contents: Contents,
    line: u64,
    has_ended: bool,
}

impl<R> EventReader<R> {
    /// Creates a reader for UTF-8 text. If the text begins with a byte order mark, the reader skips
    /// it.
    pub fn new(reader: R) -> Self {
        Self { reader, scanner: Scanner::new(), contents: Contents::default(), line: 1, has_ended: false }
    }
}

impl<R: BufRead> EventReader<R> {
    /// Processes the bytes currently available from the underlying reader. Returns an error if one
    /// was found.
    fn read_on(&mut self) -> Option<EventReadError> {
        let piece = if self.scanner.has_more() {
            self.scanner.scan_again()
        } else {
            let bytes = match self.reader.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => return None,
                Err(error) => {
                    self.has_ended = true;
                    return Some(EventReadError::io(self.scanner.line(), error));
                }
            };
            if bytes.is_empty() {
                let piece = self.scanner.end();
                self.has_ended = !self.scanner.has_more();
                piece
            } else {
                let (done, piece) = self.scanner.scan(bytes);
                self.reader.consume(done);
                piece
            }
        };
        match piece? {
            Piece::Fault(Fault { kind, line, text }) => Some(EventReadError::new(kind, line, &text)),
            Piece::Document => {
                let (json, line) = self.scanner.document();
                self.contents = document::read(json);
                self.line = line;
                None
            }
        }
    }
}

impl<R: BufRead> Iterator for EventReader<R> {
    type Item = Result<ReadEvent, EventReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let line = self.line;
            match self.contents.next() {
                Some(Ok((event, is_deleted))) => return Some(Ok(ReadEvent { event, is_deleted, line })),
                Some(Err((kind, text))) => return Some(Err(EventReadError::new(kind, line, &text))),
                None if self.has_ended => return None,
                None => {}
            }
            if let Some(error) = self.read_on() {
                return Some(Err(error));
            }
        }
    }
}

impl<R: BufRead> std::iter::FusedIterator for EventReader<R> {}

impl<R> fmt::Debug for EventReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventReader").field("line", &self.scanner.line()).finish_non_exhaustive()
    }
}
