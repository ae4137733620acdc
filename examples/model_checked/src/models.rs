//! Models of the agent: `cargo models`. They stand in the crate, where they see its private parts.

use std::env;
use std::process::Command;

use eventcast::BusOptions;
use eventcast::testing::{Exploration, begin, rest};

use crate::sync::thread;
use crate::{Agent, Order};

/// An agent with queues of one place. One event fills them, so a model is short.
fn small_agent() -> Agent {
    let options = BusOptions::default().incoming_len(1).queue_len(1);
    Agent::start(options).expect("the options are in range")
}

/// Explores everything: the start, a job, and the stop.
#[test]
fn a_stop_is_never_lost() {
    let explored = Exploration::default().run(|| {
        let agent = small_agent();
        let accepted = u64::from(agent.submit(1));
        assert_eq!(agent.stop(), accepted);
    });
    println!("a_stop_is_never_lost: {explored}");
    assert!(explored.whole);
}

/// Another thread submits a job while the agent is stopped. The model leaves out the start, which
/// keeps it small.
#[test]
fn a_submit_against_a_stop() {
    let explored = Exploration::default().after_set_up().run(|| {
        let agent = small_agent();
        rest(&agent.bus);
        begin();
        let orders = agent.orders.clone();
        let submitting = thread::spawn(move || u64::from(orders.try_publish(Order::Job(1)).is_ok()));
        let sum = agent.stop();
        assert_eq!(sum, submitting.join().expect("the submitter does not panic"));
    });
    println!("a_submit_against_a_stop: {explored}");
    assert!(explored.whole);
}

/// The model of the bug. It fails, and a model that fails ends its process.
#[test]
#[ignore = "a_lost_stop_is_found runs it in a process of its own"]
fn a_stop_by_order() {
    Exploration::default().run(|| {
        let agent = small_agent();
        let accepted = u64::from(agent.submit(1));
        assert_eq!(agent.stop_by_order(), accepted);
    });
}

#[test]
fn a_lost_stop_is_found() {
    let program = env::current_exe().expect("this program has a path");
    let mut again = Command::new(program);
    again.args(["--ignored", "--exact", "models::a_stop_by_order"]);
    let output = again.env("LOOM_LOCATION", "1").env("RUST_BACKTRACE", "0").output();
    let output = output.expect("the program starts once more");
    let found = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "loom missed the bug");
    assert!(found.contains("deadlock; threads = "), "loom found something else: {found}");
    print!("{found}");
}
