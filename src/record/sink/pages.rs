//! Reading a store of any size page by page, in the order of the events' last writes.

use std::vec;

use crate::record::event::Event;

use super::query::{Count, EventQuery};

/// The most stored events that a reading looks at in one page.
pub(super) const PAGE: usize = 256;

/// One look at a store, at up to [`PAGE`] events.
pub(super) struct Page {
    /// The events of the page that match the query.
    pub(super) found: Vec<Event>,
    /// The number of the last write that the page covers.
    pub(super) last: u64,
    /// The number of the store's last write at the moment of the look.
    pub(super) version: u64,
    /// Whether no event follows the page.
    pub(super) is_end: bool,
}

/// The progress of a reading.
#[derive(Debug)]
pub(super) struct Cursor {
    query: EventQuery,
    /// The number of the write after which the next page begins.
    position: u64,
    /// The number of the store's last write when the reading began, or when the reading reached the
    /// previous value of this field.
    until: u64,
    /// The number of writes that lay between the reading and `until` when `until` was set.
    span: u64,
    /// The number of events that the reading may still return.
    left: usize,
    page: vec::IntoIter<Event>,
    is_over: bool,
}

impl Cursor {
    /// Creates a reading from the query's position, or from `start` if that is further.
    pub(super) fn new(query: &EventQuery, start: u64, version: u64) -> Self {
        let position = query.after.max(start);
        let left = match query.count {
            Count::First(events) => events,
            Count::All | Count::Last(_) => usize::MAX,
        };
        Self {
            query: query.clone(),
            position,
            until: version,
            span: version.saturating_sub(position),
            left,
            page: Vec::new().into_iter(),
            is_over: left == 0 || query.count == Count::Last(0),
        }
    }

    /// Returns the next event, or `None` at the end. `read` looks at one page of the events that
    /// were written after the number that it is given.
    pub(super) fn next<E>(
        &mut self,
        mut read: impl FnMut(&EventQuery, u64) -> Result<Page, E>,
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
            // If `read` fails, the reading ends.
            self.is_over = true;
            let page = read(&self.query, self.position)?;
            self.is_over = page.is_end || !self.goes_on(&page);
            self.position = page.last;
            self.page = page.found.into_iter();
        }
    }

    /// Returns whether the reading continues after this page.
    ///
    /// Beyond `until` lie the events that were written during the reading. Each time the reading
    /// reaches `until`, it counts the writes that it has not reached yet. The reading continues
    /// only if these are at most half as many as the last time. It therefore ends even if the store
    /// is written faster than it is read.
    fn goes_on(&mut self, page: &Page) -> bool {
        if page.last < self.until {
            return true;
        }
        let more = page.version.saturating_sub(page.last);
        let is_less = more <= self.span / 2;
        (self.until, self.span) = (page.version, more);
        is_less
    }
}
