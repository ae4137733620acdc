//! The reader: bytes in, events and errors out.

use std::collections::VecDeque;
use std::fmt;
use std::io::{BufRead, ErrorKind};

use super::document::{self, Found};
use super::error::EventReadError;
use super::item::ReadEvent;
use super::scan::{Fault, Piece, Scanner};

/// Reads the events of a cluster as people have them: what `kubectl`, `jq`, watches, exporters, log
/// shippers and audit logs write.
///
/// The reader takes, in any order and mixture:
///
/// - **Documents**: one or many, with or without newlines between them, also as JSON lines and as
///   JSON sequences (RFC 7464).
/// - **Lists**: a `List`, an `EventList` and bare arrays, also in each other. Lists are streamed:
///   the reader needs memory for one event, even if the list is one line.
/// - **Forms around an event**: the events of a watch, and objects that hold an event as `object`,
///   `event` or `body` (as JSON or as a text of JSON), or as the `responseObject` of an audit
///   record. What else they hold, such as `old_event` or `requestObject`, is no event.
/// - **Events** of core/v1 and events.k8s.io, as [`Event::from_json`](crate::Event::from_json)
///   reads them. Moreover, a count may be written as `2.0` and a time that is not set as `{}`. A
///   field may occur twice, and the last one counts. Half of a surrogate pair becomes U+FFFD, and
///   so does a byte that is not UTF-8.
///
/// The iterator returns each event, and an error for each part that is none. It goes on after an
/// error, except after one of the source itself:
///
/// - A line that is not JSON is passed over, like the warnings that `kubectl` writes.
/// - A document that is broken ends at the next line that begins as it did itself: with the same
///   indentation, or with none.
/// - A list that is cut off gives the events before the cut, and then an error of the kind
///   [`CutOff`](crate::event::EventReadErrorKind::CutOff).
///
/// The same event may be there many times, as each of its states.
/// [`EventStates`](crate::event::EventStates) tells them apart.
///
/// # Limits
///
/// A document has at most 16 MiB and 100 levels, and 4 MiB in a string. The limits are checked
/// before the memory is taken. A document beyond a limit is passed over, and is an error.
///
/// # Blocking
///
/// The reader waits for the source of the bytes, and for nothing else.
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
#[doc(alias = "EventList")]
pub struct EventReader<R> {
    reader: R,
    scanner: Scanner,
    found: VecDeque<Result<ReadEvent, EventReadError>>,
    has_ended: bool,
}

impl<R> EventReader<R> {
    /// Creates a reader of UTF-8. A byte order mark is passed over.
    pub fn new(reader: R) -> Self {
        Self { reader, scanner: Scanner::new(), found: VecDeque::new(), has_ended: false }
    }
}

impl<R: BufRead> EventReader<R> {
    /// Reads the bytes that the source has ready.
    fn read_on(&mut self) {
        let bytes = match self.reader.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => return,
            Err(error) => {
                self.has_ended = true;
                self.found.push_back(Err(EventReadError::io(self.scanner.line(), error)));
                return;
            }
        };
        let (done, piece) = if bytes.is_empty() {
            self.has_ended = true;
            (0, self.scanner.end())
        } else {
            self.scanner.scan(bytes)
        };
        self.reader.consume(done);
        match piece {
            None => {}
            Some(Piece::Fault(Fault { kind, line, text })) => {
                self.found.push_back(Err(EventReadError::new(kind, line, &text)));
            }
            Some(Piece::Document) => {
                let (json, line) = self.scanner.document();
                let found = |found: Found| {
                    self.found.push_back(match found {
                        Ok((event, is_deleted)) => Ok(ReadEvent { event, is_deleted, line }),
                        Err((kind, text)) => Err(EventReadError::new(kind, line, &text)),
                    });
                };
                document::read(json, found);
            }
        }
    }
}

impl<R: BufRead> Iterator for EventReader<R> {
    type Item = Result<ReadEvent, EventReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Some(found);
            }
            if self.has_ended {
                return None;
            }
            self.read_on();
        }
    }
}

impl<R: BufRead> std::iter::FusedIterator for EventReader<R> {}

impl<R> fmt::Debug for EventReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventReader").field("line", &self.scanner.line()).finish_non_exhaustive()
    }
}
