//! Checks `kubectl`'s output for stored events. The test is ignored if `kubectl` is not installed.

#[path = "../kubernetes/api_server/mod.rs"]
#[allow(dead_code, reason = "the tests of the sink use more of it")]
mod api_server;
#[path = "../kubernetes/cluster.rs"]
#[allow(dead_code, unused_imports, reason = "the tests of the sink use more of it")]
mod cluster;

use std::fs;
use std::process::{Command, ExitCode, Output};

use eventcast::EventSink;
use tempfile::NamedTempFile;

use crate::cluster::Cluster;

fn main() -> ExitCode {
    test_support::run([(missing(), test_support::tests![kubectl_events_shows_what_was_recorded])])
}

/// Returns the reason why the test cannot run, or `None` if it can.
fn missing() -> Option<String> {
    let is_there = kubectl(&["version", "--client"]).is_some_and(|output| output.status.success());
    (!is_there).then(|| "there is no kubectl on the PATH".to_owned())
}

fn kubectl(args: &[&str]) -> Option<Output> {
    Command::new("kubectl").args(args).output().ok()
}

fn kubectl_events_shows_what_was_recorded() {
    let cluster = Cluster::fake();
    cluster.server().open();
    let sink = cluster.sink();
    sink.create(&cluster.event("web-0.1")).unwrap();
    let mut event = cluster.repeat_of("web-0.1");
    event.count = 3;
    sink.patch(&event).unwrap();
    let file = NamedTempFile::new().unwrap();
    fs::write(&file, cluster.server().kubeconfig()).unwrap();
    let events = |more: &[&str]| {
        kubectl(&[&["--kubeconfig", file.path().to_str().unwrap(), "events"], more].concat()).unwrap()
    };
    let output = events(&["--namespace", &cluster.namespace]);
    let all = events(&["--all-namespaces"]);
    let shown = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0].join(" "), "LAST SEEN TYPE REASON OBJECT MESSAGE", "{shown}{output:?}");
    // eventcast's own table for several namespaces has the same columns.
    let all = String::from_utf8_lossy(&all.stdout);
    let head: Vec<&str> = all.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head.join(" "), "NAMESPACE LAST SEEN TYPE REASON OBJECT MESSAGE", "{all}");
    assert!(all.lines().nth(1).unwrap().starts_with(&cluster.namespace), "{all}");
    // `2m (x3 over 7m)`, followed by the other columns.
    assert_eq!((rows[1][1], rows[1][2]), ("(x3", "over"), "{shown}");
    assert_eq!(rows[1][4..], ["Warning", "BackOff", "Pod/web-0", "restarts", "again"], "{shown}");
}
