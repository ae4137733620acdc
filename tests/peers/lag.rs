//! tokio: `tokio/tests/sync_broadcast.rs`, the cases with lagging receivers. Names that do not
//! occur in that file come from tokio #8239.

use eventcast::error::TryRecvError;
use eventcast::{Delivery, Watcher};

use crate::kinds::on_both_kinds;
use crate::support::channel;

/// Returns everything that is queued. A gap is represented by the negated number of values lost in
/// that gap.
fn queued(rx: &mut Watcher<i64>) -> Vec<i64> {
    let received = std::iter::from_fn(|| rx.try_recv().ok());
    let number = |delivery| match delivery {
        Delivery::Event(value) => value,
        Delivery::Lagged(lost) => -i64::try_from(lost).unwrap(),
    };
    received.map(number).collect()
}

/// `capacity_overflow_reports_lagged_then_oldest_retained`, `single_slot_capacity_lag_semantics`,
/// `single_capacity_recvs_after_drop_2`, and `lagging_receiver_recovers_after_wrap_open`,
/// `_closed_1` and `_closed_2`.
///
/// Difference: tokio rounds a capacity up to a power of two, so a queue with capacity 3 keeps all
/// four values.
#[test]
fn a_receiver_that_lags_gets_the_gap_and_the_values_that_remain() {
    on_both_kinds(|kind| {
        for (capacity, sent) in [(1, 2), (2, 3), (2, 4), (2, 7), (3, 4)] {
            for is_closed in [false, true] {
                let (tx, mut rx) = channel(kind, capacity);
                for value in 1..=sent {
                    tx.send(value);
                }
                // The values remain available after the sender is dropped.
                let open = (!is_closed).then_some(tx);
                let lost = sent - i64::try_from(capacity).unwrap();
                let expected: Vec<_> = [-lost].into_iter().chain(lost + 1..=sent).collect();
                assert_eq!(queued(&mut rx), expected);
                match open {
                    Some(_) => assert_eq!(rx.try_recv(), Err(TryRecvError::Empty)),
                    None => assert!(rx.recv().is_err()),
                }
            }
        }
    });
}

/// `lagged_count_matches_number_of_overwritten_messages`.
#[test]
fn a_gap_counts_the_values_that_were_overwritten() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = channel(kind, 4);
        for value in 1..=4 {
            tx.send(value);
        }
        assert_eq!(rx.try_recv(), Ok(Delivery::Event(1)));
        for value in 5..=8 {
            tx.send(value);
        }
        assert_eq!(queued(&mut rx), [-3, 5, 6, 7, 8]);
    });
}

/// `lag_catch_up_then_lag_again`.
#[test]
fn a_receiver_may_lag_again_after_it_has_caught_up() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = channel(kind, 2);
        for first in [1, 4] {
            for value in first..first + 3 {
                tx.send(value);
            }
            assert_eq!(queued(&mut rx), [-1, first + 1, first + 2]);
        }
    });
}

/// `slow_receiver_within_capacity_does_not_lag`, `lag_is_per_receiver`.
#[test]
fn only_a_receiver_beyond_the_capacity_lags() {
    on_both_kinds(|kind| {
        let (tx, mut slow) = channel(kind, 2);
        let mut late = tx.subscribe();
        let mut fast = tx.subscribe();
        for first in [1, 3] {
            assert!(queued(&mut late).is_empty());
            for value in [first, first + 1] {
                tx.send(value);
                assert_eq!(queued(&mut fast), [value]);
            }
            assert_eq!(queued(&mut late), [first, first + 1]);
        }
        assert_eq!(queued(&mut slow), [-2, 3, 4]);
    });
}

/// `receiver_len_with_lagged`.
#[test]
fn a_length_counts_the_values_that_can_be_received() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = channel(kind, 2);
        for value in 1..=4 {
            tx.send(value);
        }
        // Difference: tokio also counts the lost values and returns 4.
        assert_eq!(rx.len(), 2);
        assert_eq!((rx.try_recv(), rx.len()), (Ok(Delivery::Lagged(2)), 2));
        assert_eq!((rx.try_recv(), rx.len()), (Ok(Delivery::Event(3)), 1));
        assert_eq!((rx.try_recv(), rx.len()), (Ok(Delivery::Event(4)), 0));
    });
}

/// `lagging_rx`, `lag_again_before_reading_retained_messages`.
#[test]
fn a_value_after_a_reported_gap_may_still_be_lost() {
    on_both_kinds(|kind| {
        let (tx, mut rx1) = channel(kind, 2);
        let mut rx2 = tx.subscribe();
        for value in 1..=3 {
            tx.send(value);
            assert_eq!(rx1.try_recv(), Ok(Delivery::Event(value)));
        }
        assert_eq!([rx2.try_recv(), rx2.try_recv()], [Ok(Delivery::Lagged(1)), Ok(Delivery::Event(2))]);
        tx.send(4);
        tx.send(5);
        assert_eq!(rx2.try_recv(), Ok(Delivery::Lagged(1)));
        tx.send(6);
        assert_eq!(queued(&mut rx2), [-1, 5, 6]);
    });
}
