//! Tests the bus against its twin, which is a broadcaster simple enough to be obviously correct.
//! Random programs run on both. After each step, both must have shown each watcher the same events
//! with gaps in the same places, called the hooks in the same way, and reached the same counts.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unreachable_pub, reason = "the parts of one test")]

mod api;
mod crowd;
mod inline;
mod mailbox;
mod plain;
mod program;
mod real;

use self::inline::Inline;
use self::plain::Twin;
use crate::cases;

#[test]
fn random_programs_do_the_same_on_both() {
    cases::check(400, program::program::<Twin>, |program| program::run::<Twin>(&program));
}

#[test]
fn random_programs_do_the_same_on_an_inline_bus_and_its_model() {
    cases::check(2000, program::program::<Inline>, |program| program::run::<Inline>(&program));
}

#[test]
fn what_several_threads_see_is_something_the_twin_could_show() {
    cases::check(300, crowd::crowd, |crowd| crowd::run(&crowd));
}
