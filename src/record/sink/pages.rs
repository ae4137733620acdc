//! Reads a store of any size page by page, in the order in which the events were last written.

use std::vec;

use crate::record::event::Event;

use super::query::{EventQuery, QueryLimit};

/// A page of stored events, as read by an [`EventCursor`].
#[derive(Clone, Debug, PartialEq)]
pub struct EventPage {
    /// The events on the page that [match](EventQuery::matches) the query.
    pub found: Vec<Event>,
    /// The number of the last write that the page covers.
    pub last: u64,
    /// The number of the store's last write at the time when the page was read.
    pub version: u64,
    /// Whether this is the last page, which means that the store has no events after this page.
    pub is_end: bool,
}

impl EventPage {
    /// The maximum number of stored events that a page should cover, whether or not the events
    /// match the query. If a store holds a lock while reading a page, this limit ensures that
    /// writers are delayed only briefly.
    pub const LEN: usize = 256;
}

/// A cursor that reads a store page by page, in the order in which the events were last written.
/// The cursor uses bounded memory. [`MemorySink::stream`](crate::MemorySink::stream) reads the
/// store with this cursor.
///
/// Events may be written while the store is being read. If an event is written, it moves to the
/// end, and the cursor returns the event in its new state, even if the cursor has already returned
/// the event. The cursor does not skip any other event or return any other event twice. If events
/// are written faster than they are read, the cursor still reaches its end, but omits some of the
/// events that were written after the cursor was created.
///
/// # Examples
///
/// In this example, the store is a list. The number of an event's last write is the event's
/// position in the list, starting at 1:
///
/// ```
/// use eventcast::Event;
/// use eventcast::sink::{EventCursor, EventPage, EventQuery};
///
/// let mut store = vec![Event::default(); 1000];
/// store[600].reason = "BackOff".into();
///
/// let version = store.len() as u64;
/// let mut cursor = EventCursor::new(&EventQuery::default().reason("BackOff"), 0, version);
/// let mut read = |query: &EventQuery, after: u64| {
///     let rest = &store[after as usize..];
///     let page = &rest[..rest.len().min(EventPage::LEN)];
///     Ok::<_, std::io::Error>(EventPage {
///         found: page.iter().filter(|event| query.matches(event)).cloned().collect(),
///         last: after + page.len() as u64,
///         version,
///         is_end: page.len() == rest.len(),
///     })
/// };
/// assert_eq!(cursor.next(&mut read)?.unwrap().reason, "BackOff");
/// assert_eq!(cursor.next(&mut read)?, None);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct EventCursor {
    query: EventQuery,
    /// The number of the write after which the next page begins.
    position: u64,
    /// The number of a write. This is initially the number of the store's last write when the
    /// cursor is created. Each time the cursor reaches that write, the field is set to the number
    /// of the store's last write at that time.
    until: u64,
    /// The number of writes between the cursor's position and `until` when `until` was set.
    span: u64,
    /// The number of events that the cursor may still return.
    left: usize,
    page: vec::IntoIter<Event>,
    is_over: bool,
}

impl EventCursor {
    /// Creates a cursor over the events that match the query. `version` is the number of the
    /// store's last write.
    ///
    /// The cursor begins after the write whose number is in the query's
    /// [`after`](EventQuery::after) field, or after the write with the number `start` if that write
    /// is later. For a query with [`QueryLimit::Last`], the store must find out where the last
    /// matching events begin, and pass the number of the write before these events as `start`. For
    /// any other query, the store must pass 0.
    pub fn new(query: &EventQuery, start: u64, version: u64) -> Self {
        let position = query.after.max(start);
        let left = match query.limit {
            QueryLimit::First(events) => events,
            QueryLimit::All | QueryLimit::Last(_) => usize::MAX,
        };
        Self {
            query: query.clone(),
            position,
            until: version,
            span: version.saturating_sub(position),
            left,
            page: Vec::new().into_iter(),
            is_over: left == 0 || query.limit == QueryLimit::Last(0),
        }
    }

    /// Returns the next event, or `None` at the end. `read` receives the number of a write, and
    /// must return one page of events that were last written after that write.
    ///
    /// # Errors
    ///
    /// Returns the error from `read`. After an error, the cursor is at its end.
    pub fn next<E>(
        &mut self,
        mut read: impl FnMut(&EventQuery, u64) -> Result<EventPage, E>,
    ) -> Result<Option<Event>, E> {
        loop {
            if let Some(event) = self.page.next() {
                self.left -= 1;
                if self.left == 0 {
                    (self.is_over, self.page) = (true, Vec::new().into_iter());
                }
                return Ok(Some(event));
            }
            if self.is_over {
                return Ok(None);
            }
            // The flag is set in advance, so that the cursor ends if `read` fails.
            self.is_over = true;
            let page = read(&self.query, self.position)?;
            self.is_over = page.is_end || !self.goes_on(&page);
            self.position = page.last;
            self.page = page.found.into_iter();
        }
    }

    /// Returns whether the cursor should read another page after this page.
    ///
    /// Events after `until` were written after the cursor began. Each time the cursor reaches
    /// `until`, it counts the writes that it has not reached yet. The cursor continues only if the
    /// number of these writes is at most half as large as the last time. The cursor therefore ends
    /// even if events are written faster than they are read.
    fn goes_on(&mut self, page: &EventPage) -> bool {
        if page.last < self.until {
            return true;
        }
        let more = page.version.saturating_sub(page.last);
        let is_less = more <= self.span / 2;
        (self.until, self.span) = (page.version, more);
        is_less
    }
}
