//! Reading a store of any size page by page, in the order of the events' last writes.

use std::vec;

use crate::record::event::Event;

use super::query::{Count, EventQuery};

/// So many stored events are looked at at a time.
pub(super) const PAGE: usize = 256;

/// One look at a store, at up to [`PAGE`] events.
pub(super) struct Page {
    /// Those of them that are looked for.
    pub(super) found: Vec<Event>,
    /// The number of the write up to which it went.
    pub(super) last: u64,
    /// The number of the store's last write at that moment.
    pub(super) version: u64,
    /// Whether there was nothing further.
    pub(super) is_end: bool,
}

/// How far a reading has come.
#[derive(Debug)]
pub(super) struct Cursor {
    query: EventQuery,
    /// The number of the write from which the next page goes on.
    position: u64,
    /// The store's last write when the reading began, or when it came so far.
    until: u64,
    /// How many writes lie between the last two values of `until`.
    span: u64,
    left: usize,
    page: vec::IntoIter<Event>,
    is_over: bool,
}

impl Cursor {
    /// From the query's position, or from `start` where that is further.
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

    /// The next event. `read` looks at a page of what was written after a number.
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
            // An error ends it.
            self.is_over = true;
            let page = read(&self.query, self.position)?;
            self.is_over = page.is_end || !self.goes_on(&page);
            self.position = page.last;
            self.page = page.found.into_iter();
        }
    }

    /// Beyond the last write that there was at the beginning lies what was written meanwhile. The reading goes on as long
    /// as that is less and less, so that it ends also where the store is written faster than it is read.
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
