//! Contains a model for each combination of an operation on a bus and an operation that ends the
//! bus.
//!
//! One thread performs the row's operation, another thread ends the bus with the column's
//! operation, and the dispatcher is the third thread. The set-up is not explored, and the
//! dispatcher is asleep when the two threads begin. Each pair has a second model for an inline bus,
//! which has no dispatcher.

mod publishing;
mod row;
mod user_code;
mod watching;

use eventcast::testing::Exploration;
use eventcast_loom_tests::table::{ENDS, WHOLE};
use eventcast_loom_tests::{Model, explore, set_cell};

use row::{COLUMNS, End, IS_INLINE};

pub(crate) fn models() -> Vec<Model> {
    /// A row's name, the row's title in the table, and the function that explores the row.
    type Named = (&'static str, &'static str, fn(End));
    let rows: [Named; 22] = [
        ("try_publish", "`try_publish`", publishing::try_publish),
        ("publish", "`publish` that waits", publishing::publish_that_waits),
        ("publish_timeout", "`publish_timeout`", publishing::publish_timeout),
        ("publish_batch", "`publish_batch`", publishing::publish_batch),
        ("publish_async", "`publish_async`", publishing::publish_async),
        ("last_publisher", "the last publisher's drop", publishing::the_last_publishers_drop),
        ("clone", "a clone of the broadcaster", publishing::a_clone_of_the_broadcaster),
        ("watch", "`watch`", watching::watch),
        ("watch_given_up", "a registration that is given up", watching::a_registration_that_is_given_up),
        ("publish_gap", "`publish_gap`", watching::publish_gap),
        ("stop", "`stop`", watching::stop),
        ("drop_watcher", "drop of a watcher", watching::drop_of_a_watcher),
        ("recv", "`recv`", watching::recv),
        ("recv_async", "`recv_async`", watching::recv_async),
        ("select", "a `Select`", watching::a_select),
        ("flush", "`flush`", watching::flush),
        ("flush_async", "`flush_async`", watching::flush_async),
        ("handler", "a handler at work", user_code::a_handler_at_work),
        ("handler_registered", "a handler that is registered", user_code::a_handler_that_is_registered),
        ("handler_panic", "a handler that panics", user_code::a_handler_that_panics),
        ("filter_panic", "a filter that panics", user_code::a_filter_that_panics),
        ("filter_drop", "a filter whose `Drop` calls back", user_code::a_filter_whose_drop_calls_back),
    ];
    let mut models: Vec<Model> = Vec::new();
    for (is_inline, matrix) in [(false, "matrix"), (true, "matrix_inline")] {
        for (name, operation, row) in rows {
            for ((end, column), title) in COLUMNS.into_iter().zip(ENDS) {
                let explore = move || {
                    let inline = || &*format!("{operation}, inline").leak();
                    set_cell(if is_inline { inline() } else { operation }, title);
                    let whole = Exploration::default().after_set_up();
                    // The other columns add little to the columns that are explored exhaustively,
                    // and any difference appears early in the exploration.
                    let exploration = if WHOLE.contains(&title) { whole } else { whole.first(10_000) };
                    IS_INLINE.set(is_inline);
                    explore(exploration, move || row(end));
                };
                models.push((format!("{matrix}::{name}::{column}"), Box::new(explore)));
            }
        }
    }
    models
}
