//! Computes how many events a watcher's queue would have held if it had been long enough.
//!
//! The time of each publish is known, and so is the time that the handler takes for each event,
//! even for a lost event. A run can therefore be recomputed with an unbounded queue and a handler
//! that is never late.

use std::collections::VecDeque;
use std::time::Duration;

/// The result for one watcher.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shadow {
    /// The largest number of events that were waiting or being handled at the same time. A queue of
    /// this length can hold all of these events.
    pub(crate) needs: u64,
    /// The total handling time of all events.
    pub(crate) work: Duration,
    /// The rush that contains the wanted event.
    pub(crate) rush: Option<Rush>,
}

/// The period from the last time when the handler was idle to the time when the largest number of
/// events was waiting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rush {
    pub(crate) events: u64,
    pub(crate) within: Duration,
    /// The number of these events that the handler can handle within the period.
    pub(crate) handled: u64,
}

/// Simulates events that were published at these times, which are in nanoseconds and in order. Each
/// event takes the given time to handle.
pub(crate) fn shadow(published: &[u64], time: impl Fn(u64) -> Duration, wanted: Option<u64>) -> Shadow {
    let mut shadow = Shadow::default();
    // The completion times of the waiting events.
    let mut there: VecDeque<u64> = VecDeque::new();
    let (mut first, mut peak) = (0, (0, 0));
    for (number, &now) in published.iter().enumerate() {
        let done_before = there.back().copied().unwrap_or(0);
        while there.front().is_some_and(|done| *done <= now) {
            there.pop_front();
        }
        if there.is_empty() {
            (first, peak) = (number, (number, 0));
        }
        let takes = time(number as u64);
        shadow.work += takes;
        there.push_back(done_before.max(now) + takes.as_nanos() as u64);
        let held = there.len();
        shadow.needs = shadow.needs.max(held as u64);
        if held > peak.1 {
            peak = (number, held);
        }
        let is_wanted = wanted.is_some_and(|wanted| first as u64 <= wanted && wanted <= number as u64);
        if is_wanted {
            let (last, held) = peak;
            let events = last - first + 1;
            shadow.rush = Some(Rush {
                events: events as u64,
                within: Duration::from_nanos(published[last] - published[first]),
                handled: (events - held) as u64,
            });
        }
    }
    shadow
}

#[cfg(test)]
mod tests {
    use super::{Rush, shadow};
    use std::time::Duration;

    const NS: Duration = Duration::from_nanos(1);

    #[test]
    fn a_burst_needs_its_length_minus_the_handled_events() {
        // Ten simultaneous events are followed by five more after ten time units. Each event takes
        // two time units.
        let published: Vec<u64> = [[0; 10].as_slice(), &[10; 5]].concat();
        let found = shadow(&published, |_| NS * 2, Some(12));
        assert_eq!((found.needs, found.work), (10, NS * 30));
        // Five of the ten events have been handled when the other five arrive, so the queue again
        // needs a length of ten, but not more.
        assert_eq!(found.rush, Some(Rush { events: 10, within: Duration::ZERO, handled: 0 }));
        let found = shadow(&published, |_| NS * 3, Some(3));
        assert_eq!(found.needs, 12);
        assert_eq!(found.rush, Some(Rush { events: 15, within: NS * 10, handled: 3 }));
    }

    #[test]
    fn the_rush_belongs_to_the_requested_event() {
        let published = [0, 0, 100, 100, 100, 200, 200, 200, 200];
        let rush = |wanted| shadow(&published, |_| NS * 10, Some(wanted)).rush.unwrap().events;
        assert_eq!([0, 1, 2, 4, 5, 8].map(rush), [2, 2, 3, 3, 4, 4]);
        assert_eq!(shadow(&published, |_| NS * 10, None).rush, None);
    }

    #[test]
    fn a_handler_that_keeps_up_needs_a_queue_of_one() {
        let published: Vec<u64> = (0..1000).map(|n| n * 10).collect();
        assert_eq!(shadow(&published, |_| NS * 10, None).needs, 1);
        // A handler that does not keep up needs an ever longer queue. In this case, 1000 events
        // arrive while the handler can handle 500.
        let slow = shadow(&published, |_| NS * 20, Some(500));
        assert_eq!(slow.needs, 501);
        assert_eq!(slow.rush, Some(Rush { events: 1000, within: NS * 9990, handled: 499 }));
        assert_eq!(shadow(&[], |_| NS, None).needs, 0);
    }

    #[test]
    fn one_long_event_delays_the_others() {
        let published: Vec<u64> = (0..100).map(|n| n * 10).collect();
        let found = shadow(&published, |n| if n == 50 { NS * 100 } else { NS }, None);
        // The queue contains the long event and the events that arrive while the long event is
        // being handled. An event that arrives exactly when the long event has been handled does
        // not count.
        assert_eq!(found.needs, 10);
    }
}
