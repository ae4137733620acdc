//! The bus against its twin, which is a broadcaster so plain that a reader can see that it is
//! right. Random programs run on both. After each step, both must have shown the same events to
//! each watcher, with the gaps at the same places, made the same calls of the hooks, and counted
//! the same. `EVENTCAST_CASES=100` tries a hundred times as many programs, and `EVENTCAST_SEED=1`
//! tries others.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unreachable_pub, reason = "the parts of one test")]

#[path = "twin/api.rs"]
mod api;
#[path = "support/cases.rs"]
mod cases;
#[path = "twin/crowd.rs"]
mod crowd;
#[path = "twin/mailbox.rs"]
mod mailbox;
#[path = "twin/plain.rs"]
mod plain;
#[path = "twin/program.rs"]
mod program;
#[path = "twin/real.rs"]
mod real;

#[test]
fn random_programs_do_the_same_on_both() {
    cases::check(400, program::program, |program| program::run(&program));
}

#[test]
fn what_several_threads_see_is_something_the_twin_could_show() {
    cases::check(300, crowd::crowd, |crowd| crowd::run(&crowd));
}
