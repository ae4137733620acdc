//! The reader's state machine, which determines which events in a message are new and how many
//! events are missing before them.
//!
//! Each origin numbers its events, including lost events. Without a filter, a jump in these
//! positions is a gap. With a filter, the positions also jump where events of other subjects are
//! left out, so the reader detects gaps from the numbers that the origin assigns to the events of
//! each subject. With or without a filter, repeated events are recognised by their positions,
//! because a reader receives an origin's messages in the order of their positions.
//!
//! | message | without a filter | with a filter |
//! |---|---|---|
//! | ends at or before the expected position | repeat | repeat |
//! | begins before it and ends after it | its tail is new | its tail is new |
//! | begins after it | gap of the difference | gap of the subject's numbers, and `lost` |
//! | unknown origin or subject, reader began at the first message | gap of all before it | the same |
//! | unknown origin or subject, other reader | gap of `lost` | gap of `lost` |

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

use crate::wire::{Head, Origin};

/// The maximum number of origins, and of pairs of an origin and a subject, that a reader tracks.
pub(crate) const MEMORY: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// The numbers of missing, repeated and new events that a reader determines for a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// The number of events that are missing before the first new event.
    pub(crate) gap: u64,
    /// The number of events at the beginning of the message that were already received.
    pub(crate) repeated: u64,
    /// The number of new events, which follow the repeated events.
    pub(crate) new: u64,
}

/// The point that a reader has reached among an origin's events.
#[derive(Clone, Debug)]
pub(crate) struct Reached {
    pub(crate) origin: Origin,
    /// The position after the last received event.
    pub(crate) position: u64,
    /// If the reader has a filter, the subject of the last received event, and the number that
    /// follows the event's number within this subject.
    pub(crate) subject: Option<(Arc<str>, u64)>,
}

impl Reached {
    /// Returns the point at an earlier position in the same message.
    pub(crate) fn back_at(&self, position: u64) -> Self {
        let back = self.position.saturating_sub(position);
        let subject =
            self.subject.as_ref().map(|(subject, number)| (subject.clone(), number.saturating_sub(back)));
        Self { origin: self.origin.clone(), position, subject }
    }
}

/// The positions that a reader expects next.
#[derive(Debug)]
pub(crate) struct Positions {
    /// The next position of each origin.
    origins: LruCache<Origin, u64>,
    /// The next number of each subject, by origin. This map is empty if the reader has no filter.
    subjects: LruCache<(Origin, Box<str>), u64>,
    has_filter: bool,
    /// Whether the reader has seen the stream from its first message. If this is true, the
    /// positions of an unknown origin begin at zero.
    from_start: bool,
}

impl Positions {
    pub(crate) fn new(has_filter: bool) -> Self {
        let (origins, subjects) = (LruCache::new(MEMORY), LruCache::new(MEMORY));
        Self { origins, subjects, has_filter, from_start: false }
    }

    /// Restores the next positions of origins, and the next numbers of their subjects.
    pub(crate) fn restore(
        &mut self,
        origins: &BTreeMap<String, u64>,
        subjects: &BTreeMap<String, BTreeMap<String, u64>>,
        from_start: bool,
    ) {
        for (origin, next) in origins {
            let Some(known) = Origin::parse(origin) else { continue };
            let subjects = subjects.get(origin).filter(|_| self.has_filter);
            for (subject, number) in subjects.into_iter().flatten() {
                self.subjects.put((known.clone(), subject.as_str().into()), *number);
            }
            self.origins.put(known, *next);
        }
        // With a filter, the position may have been saved by a reader with another filter or
        // without a filter, so the numbers of an unknown subject need not begin at zero.
        self.from_start = from_start && !self.has_filter;
    }

    /// Returns the point that a reader reaches by receiving a message.
    pub(crate) fn behind(&self, head: &Head, subject: &str) -> Reached {
        let first = head.subject_first.filter(|_| self.has_filter);
        let subject = first.map(|first| (subject.into(), first.saturating_add(head.count)));
        Reached { origin: head.origin.clone(), position: head.end(), subject }
    }

    /// Records that the reader sees the stream from its first message.
    pub(crate) fn begin_at_start(&mut self) {
        self.from_start = true;
    }

    pub(crate) fn is_from_start(&self) -> bool {
        self.from_start
    }

    /// Returns whether no origin is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    /// Returns the next position of each origin.
    #[cfg(test)]
    pub(crate) fn saved(&self) -> BTreeMap<String, u64> {
        self.origins.iter().map(|(origin, next)| (origin.as_str().to_owned(), *next)).collect()
    }

    /// Judges a message without changing anything. [`advance`](Self::advance) applies the result.
    pub(crate) fn judge(&self, head: &Head, subject: &str) -> Step {
        let known = self.origins.peek(&head.origin).copied();
        let repeated = known.map_or(0, |next| next.saturating_sub(head.first)).min(head.count);
        let new = head.count - repeated;
        if known.is_some_and(|next| next > head.first && new == 0) {
            return Step { gap: 0, repeated, new };
        }
        let gap = if self.has_filter {
            self.gap_of_subject(head, subject, repeated)
        } else {
            let unknown = if self.from_start { 0 } else { head.first - head.lost };
            head.first.saturating_sub(known.unwrap_or(unknown))
        };
        Step { gap, repeated, new }
    }

    fn gap_of_subject(&self, head: &Head, subject: &str, repeated: u64) -> u64 {
        // Lost events have no subject, so every reader that receives the report of a loss counts
        // the loss once.
        let known = self.origins.peek(&head.origin).copied();
        let lost = head.lost.min(head.first.saturating_sub(known.unwrap_or(0)));
        let Some(first) = head.subject_first else { return lost };
        let number = first + repeated;
        let next = self.subjects.peek(&(head.origin.clone(), subject.into())).copied();
        let missing = match next {
            Some(next) if number >= next => number - next,
            // The publisher has evicted the subject in the meantime, so the subject's numbers start
            // again at zero.
            Some(_) => number,
            None if self.from_start => number,
            None => 0,
        };
        missing.saturating_add(lost)
    }

    /// Records that the message was handled, except for its last `unread` events.
    pub(crate) fn advance(&mut self, head: &Head, subject: &str, unread: u64) {
        let handled = head.count.saturating_sub(unread);
        let next = head.first.saturating_add(handled);
        if let Some(known) = self.origins.get_mut(&head.origin) {
            *known = next.max(*known);
        } else {
            if self.origins.len() == MEMORY.get() {
                // If an origin was evicted and then appears again, its positions do not begin at
                // zero.
                self.from_start = false;
            }
            self.origins.put(head.origin.clone(), next);
        }
        if let Some(first) = head.subject_first.filter(|_| self.has_filter) {
            if self.subjects.len() == MEMORY.get() {
                self.from_start = false;
            }
            self.subjects.put((head.origin.clone(), subject.into()), first.saturating_add(handled));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(origin: &str, first: u64, count: u64, lost: u64, subject_first: Option<u64>) -> Head {
        let origin = Origin::parse(origin).unwrap();
        Head { origin, first, count, lost, subject_first, codec: "c".to_owned(), is_end: false }
    }

    fn take(positions: &mut Positions, head: &Head, subject: &str) -> (u64, u64, u64) {
        let step = positions.judge(head, subject);
        positions.advance(head, subject, 0);
        (step.gap, step.repeated, step.new)
    }

    #[test]
    fn gaps_repeats_and_overlaps_without_a_filter() {
        let mut positions = Positions::new(false);
        let at = |first, count, lost| head("a", first, count, lost, None);
        assert_eq!(take(&mut positions, &at(10, 5, 0), "s"), (0, 0, 5));
        assert_eq!(take(&mut positions, &at(10, 5, 0), "s"), (0, 5, 0));
        assert_eq!(take(&mut positions, &at(12, 5, 0), "s"), (0, 3, 2));
        assert_eq!(take(&mut positions, &at(20, 1, 2), "s"), (3, 0, 1));
        assert_eq!(take(&mut positions, &at(24, 0, 3), "s"), (3, 0, 0));
        assert_eq!(take(&mut positions, &at(24, 0, 3), "s"), (0, 0, 0));
        assert_eq!(take(&mut positions, &at(24, 1, 0), "s"), (0, 0, 1));
        assert_eq!(take(&mut positions, &at(3, 1, 0), "s"), (0, 1, 0));
    }

    #[test]
    fn an_unknown_origin_begins_where_the_reader_can_know_it() {
        let first = head("a", 7, 1, 2, Some(7));
        let mut late = Positions::new(false);
        assert_eq!(take(&mut late, &first, "s"), (2, 0, 1));
        for has_filter in [false, true] {
            let mut all = Positions::new(has_filter);
            all.begin_at_start();
            let gap = if has_filter { 9 } else { 7 };
            assert_eq!(take(&mut all, &first, "s"), (gap, 0, 1));
        }
    }

    #[test]
    fn a_filter_counts_by_subject() {
        let mut positions = Positions::new(true);
        let at = |first, count, number| head("a", first, count, 0, Some(number));
        assert_eq!(take(&mut positions, &at(10, 5, 3), "s"), (0, 0, 5));
        assert_eq!(take(&mut positions, &at(100, 1, 8), "s"), (0, 0, 1));
        assert_eq!(take(&mut positions, &at(102, 2, 7), "t"), (0, 0, 2));
        assert_eq!(take(&mut positions, &at(200, 1, 12), "s"), (3, 0, 1));
        assert_eq!(take(&mut positions, &at(200, 1, 12), "s"), (0, 1, 0));
        assert_eq!(take(&mut positions, &at(202, 1, 9), "t"), (0, 0, 1));
        let lost = |first, lost| head("a", first, 0, lost, None);
        assert_eq!(take(&mut positions, &lost(210, 3), "t"), (3, 0, 0));
        assert_eq!(take(&mut positions, &lost(210, 3), "t"), (0, 0, 0));
        // The publisher had evicted the subject.
        assert_eq!(take(&mut positions, &at(300, 1, 0), "s"), (0, 0, 1));
        assert_eq!(take(&mut positions, &at(400, 1, 4), "s"), (3, 0, 1));
    }

    #[test]
    fn a_partly_handled_message_is_redelivered_in_part() {
        let mut positions = Positions::new(false);
        let message = head("a", 10, 5, 0, None);
        positions.advance(&message, "s", 3);
        let mut again = Positions::new(false);
        again.restore(&positions.saved(), &BTreeMap::new(), true);
        assert_eq!(take(&mut again, &message, "s"), (0, 2, 3));
    }

    #[test]
    fn a_restored_filter_knows_its_subjects() {
        let positions = Positions::new(true);
        let message = head("a", 10, 5, 0, Some(3));
        let behind = positions.behind(&message, "s");
        let part = behind.back_at(12);
        for (reached, next, number) in [(&behind, 15, 8), (&part, 12, 5)] {
            let (subject, known) = reached.subject.clone().unwrap();
            assert_eq!((reached.position, &*subject, known), (next, "s", number));
            let origins = BTreeMap::from([("a".to_owned(), next)]);
            let subjects = BTreeMap::from([("a".to_owned(), BTreeMap::from([("s".to_owned(), known)]))]);
            let mut again = Positions::new(true);
            again.restore(&origins, &subjects, true);
            let later = head("a", 60, 1, 0, Some(48));
            assert_eq!(take(&mut again, &later, "s"), (48 - number, 0, 1));
            // If the saved position has no subjects, the reader cannot detect gaps in a subject's
            // numbers.
            let mut old = Positions::new(true);
            old.restore(&origins, &BTreeMap::new(), true);
            assert_eq!(take(&mut old, &later, "s"), (0, 0, 1));
        }
        assert!(Positions::new(false).behind(&message, "s").subject.is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let mut positions = Positions::new(true);
        positions.begin_at_start();
        for n in 0..5000 {
            take(&mut positions, &head(&format!("o{n}"), 0, 1, 0, Some(0)), &format!("s{n}"));
        }
        assert_eq!((positions.origins.len(), positions.subjects.len()), (4096, 4096));
        assert!(!positions.is_from_start());
        assert_eq!(take(&mut positions, &head("o0", 9, 1, 0, Some(9)), "s0"), (0, 0, 1));
    }

    proptest! {
        /// For any sequence of messages, each position of each origin is either new once or part of
        /// a gap once.
        #[test]
        fn each_position_counts_once(
            messages in proptest::collection::vec((0_u8..3, 0_u64..60, 0_u64..8, 0_u64..5), 1..60),
        ) {
            let mut positions = Positions::new(false);
            positions.begin_at_start();
            let mut seen: BTreeMap<u8, u64> = BTreeMap::new();
            for (origin, first, count, lost) in messages {
                let message = head(&format!("o{origin}"), first, count, lost.min(first), None);
                let step = positions.judge(&message, "s");
                positions.advance(&message, "s", 0);
                prop_assert_eq!(step.repeated + step.new, count);
                let seen = seen.entry(origin).or_default();
                // New events begin where the gap ends, and the gap begins where the preceding
                // events and gaps ended.
                if step.gap + step.new > 0 {
                    prop_assert_eq!(*seen + step.gap, first + step.repeated);
                }
                *seen += step.gap + step.new;
                prop_assert!(*seen >= first + count);
            }
        }

        #[test]
        fn nothing_overflows(
            first in any::<u64>(), count in any::<u64>(), lost in any::<u64>(), number in any::<u64>(),
            has_filter in any::<bool>(),
        ) {
            let limit = u64::MAX / 4;
            let first = first % limit;
            let mut positions = Positions::new(has_filter);
            let message = head("a", first, count % limit, lost % (first + 1), Some(number % limit));
            for _ in 0..3 {
                let step = positions.judge(&message, "s");
                prop_assert_eq!(step.repeated + step.new, message.count);
                positions.advance(&message, "s", count % 7);
            }
        }
    }
}
