//! Models of waiting for the only slot in the incoming queue. Each waiter is given its turn, even
//! if the previous waiter does not use its own turn. There is a model for each combination of a
//! first and a second waiter.
//!
//! The row determines the first waiter and what one thread does with that waiter. The column
//! determines the operation with which another thread waits second. The dispatcher, which frees the
//! slot, is the third thread. The set-up is not explored. When the set-up is complete, an event
//! fills the incoming queue, the dispatcher is about to wake up for the event, and the first
//! waiter, if it is a task, is already waiting.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use eventcast::testing::{Exploration, Payload, begin, block_on, finish, rest};
use eventcast::{Broadcaster, OverflowPolicy};
use eventcast_loom_tests::table::BEHIND;
use eventcast_loom_tests::{Model, bus, explore, set_cell, spawn};

type Bus = Arc<Broadcaster<Payload>>;
type Task = Pin<Box<dyn Future<Output = Got>>>;

/// The result of a wait.
enum Got {
    Nothing,
    /// The waiter's event was accepted.
    Place,
}

/// The outcome for the first waiter once the slot may be free.
#[derive(Clone, Copy)]
enum Then {
    /// The first waiter begins to wait only now, because it is a blocking call.
    Begins,
    GoesOn,
    IsGivenUp,
    /// The first waiter is a task that is not polled until the second waiter has had its turn.
    IsNotPolled,
}

/// A row of the turn matrix, which consists of the first waiter and its outcome. A task is already
/// waiting when the race begins.
type First = (fn(Bus) -> Task, Then);

/// A column of the turn matrix, which is the second waiter.
type Behind = fn(&Bus) -> Got;

const COLUMNS: [(&str, Behind); 2] =
    [("publish", publish), ("publish_async", |bus| block_on(publish_async(bus.clone())))];

fn publish(bus: &Bus) -> Got {
    bus.publisher().publish(Payload::new(1)).unwrap();
    Got::Place
}

fn publish_async(bus: Bus) -> Task {
    Box::pin(async move {
        bus.publisher().publish_async(Payload::new(1)).await.unwrap();
        Got::Place
    })
}

fn ready(bus: Bus) -> Task {
    Box::pin(async move {
        bus.publisher().ready().await.unwrap();
        Got::Nothing
    })
}

fn against((first, then): First, behind: Behind) {
    let bus = Arc::new(bus(1, 1, OverflowPolicy::DropIncoming));
    rest(&*bus);
    bus.publisher().try_publish(Payload::new(0)).unwrap();
    let mut first = first(bus.clone());
    if !matches!(then, Then::Begins) {
        assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    begin();
    let going_on = spawn(move || match then {
        Then::Begins | Then::GoesOn => (block_on(first), None),
        Then::IsGivenUp => {
            drop(first);
            (Got::Nothing, None)
        }
        Then::IsNotPolled => (Got::Nothing, Some(first)),
    });
    let shared = bus.clone();
    let waiting = spawn(move || behind(&shared));
    let behind = waiting.join().unwrap();
    let (first, not_polled) = going_on.join().unwrap();
    finish();
    drop(not_polled);
    let report = bus.shutdown();
    assert!(report.complete);
    let got = [behind, first];
    let events = got.iter().filter(|got| matches!(got, Got::Place)).count();
    assert_eq!(report.bus.accepted, 1 + events as u64);
}

pub(crate) fn models() -> Vec<Model> {
    use Then::{Begins, GoesOn, IsGivenUp, IsNotPolled};
    let rows: [(&str, &str, First); 5] = [
        ("publish", "`publish`", (|bus| Box::pin(async move { publish(&bus) }), Begins)),
        ("publish_async", "`publish_async`", (publish_async, GoesOn)),
        ("ready", "`ready`, and nobody uses the room", (ready, GoesOn)),
        ("given_up", "a `publish_async` that is given up", (publish_async, IsGivenUp)),
        ("not_polled", "a `publish_async` that is not polled", (publish_async, IsNotPolled)),
    ];
    let mut models: Vec<Model> = Vec::new();
    for (name, operation, first) in rows {
        for ((column, behind), title) in COLUMNS.into_iter().zip(BEHIND) {
            let explore = move || {
                set_cell(operation, title);
                explore(Exploration::default().after_set_up().first(10_000), move || against(first, behind));
            };
            models.push((format!("turns::{name}::{column}"), Box::new(explore)));
        }
    }
    models
}
