//! Tests the bridge when the link between two hosts is cut. The hosts are network namespaces, which
//! the test creates and which disappear when the test ends. If the system does not permit network
//! namespaces, the test is ignored.

use std::process::Command;
use std::time::Duration;

use test_support::{LONG, child, test_name};

use crate::reading::{Remote, eventually, lossless, out, reader, settle};
use crate::server::{self, Server, scale};

/// The addresses of this host and of the other host.
const HERE: &str = "10.201.7.1";
const THERE: &str = "10.201.7.2";

/// Runs a command, and returns whether it succeeded.
fn does(words: &str) -> bool {
    let words: Vec<&str> = words.split(' ').collect();
    let output = Command::new(words[0]).args(&words[1..]).output();
    output.is_ok_and(|output| output.status.success())
}

#[track_caller]
fn must(words: &str) {
    assert!(does(words), "{words}");
}

/// Creates the other host and the link, in a namespace where this process is permitted to do so.
fn connect_hosts() {
    // The names of namespaces are files in this directory. An empty file system hides the machine's
    // own files, which must not be changed.
    must("mount -t tmpfs tmpfs /run");
    must("ip link set lo up");
    must("ip netns add there");
    must("ip link add here type veth peer name there netns there");
    must(&format!("ip addr add {HERE}/24 dev here"));
    must("ip link set here up");
    must(&format!("ip -n there addr add {THERE}/24 dev there"));
    must("ip -n there link set there up");
    must("ip -n there link set lo up");
}

/// Returns the reason why the test in this file cannot run.
pub(crate) fn missing() -> Option<String> {
    let permits = |words: &str| does(&format!("unshare --user --map-root-user --net --mount {words}"));
    let is_permitted =
        || permits("mount -t tmpfs tmpfs /run") && permits("ip link add one type veth peer name two");
    server::missing()
        .or_else(|| (!is_permitted()).then(|| "the system permits no network namespaces".to_owned()))
}

pub(crate) fn a_link_that_is_cut_loses_and_repeats_nothing() {
    if !child::is_child() {
        let through = ["unshare", "--user", "--map-root-user", "--net", "--mount"];
        child::Running::start_by(&through, test_name!(), &["run"]).end();
        return;
    }
    connect_hosts();
    let server = Server::start_at(&["ip", "netns", "exec", "there"], THERE, "");
    let bus = lossless();
    let out = out(&server.url()).attach(&bus).unwrap();
    let mut remote = Remote::new(reader(&server.url()));
    let total = 20_000;
    let publisher = bus.publisher();
    let cuts = [Duration::from_secs(2), Duration::from_secs(5 * scale())];
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for event in 0..total {
                publisher.publish(event).unwrap();
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        let reading = scope.spawn(|| remote.receive_exactly(0..total));
        for (n, cut) in (1..).zip(cuts) {
            eventually(|| out.stats().acknowledged >= n * total / 4);
            must("ip link set here down");
            std::thread::sleep(cut);
            must("ip link set here up");
        }
        reading.join().unwrap();
    });
    let stats = settle(&bus, &out);
    assert_eq!(stats.acknowledged, total, "{stats}");
    assert!(stats.retries > 0, "{stats}");
    assert!(out.shutdown_timeout(LONG).complete);
    assert_eq!(remote.ends_here().gaps, 0);
}
