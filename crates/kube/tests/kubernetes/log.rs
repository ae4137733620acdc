//! The lines that kube itself writes to the program's log.

use std::fs::{self, File};
use std::sync::Arc;

use eventcast::EventSink;
use serde_json::json;
use tempfile::tempdir;
use test_support::in_own_process;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

use super::api_server::Fault;
use super::cluster::Cluster;

/// The directive that the documentation names.
const DIRECTIVE: &str = "kube_client::client::builder=off";

/// kube logs a line at level `ERROR` for each 5xx response and for each broken connection. With the
/// directive, none of these lines is logged. This test fails if a new version of kube logs them
/// from another module.
#[test]
fn the_documented_filter_silences_the_lines_of_kube() {
    in_own_process!();
    let folder = tempdir().unwrap();
    let layer = |name: &str, filter: &str| {
        let file = Arc::new(File::create(folder.path().join(name)).unwrap());
        fmt::layer().with_ansi(false).with_writer(file).with_filter(EnvFilter::new(filter))
    };
    let silenced = format!("info,{DIRECTIVE}");
    tracing_subscriber::registry().with(vec![layer("all", "info"), layer("silenced", &silenced)]).init();

    let cluster = Cluster::fake();
    let sink = cluster.sink();
    let status = json!({"message": "leader changed", "reason": "InternalError"});
    cluster.server().fail([Fault::status(500, &status), Fault::status(503, &status)]);
    for _ in 0..2 {
        sink.create(&cluster.event("web-0.1")).unwrap_err();
    }
    // A permanent refusal is not logged.
    cluster.server().fail([Fault::status(403, &status)]);
    sink.create(&cluster.event("web-0.1")).unwrap_err();

    let lines = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let all = lines("all");
    let all: Vec<&str> = all.lines().collect();
    assert_eq!(all.len(), 2, "{all:?}");
    for (line, code) in all.iter().zip(["500", "503"]) {
        assert!(
            line.contains(" ERROR kube_client::client::builder: failed with status ") && line.contains(code),
            "{line}"
        );
    }
    assert_eq!(lines("silenced"), "");
}

#[test]
fn the_documents_name_the_filter() {
    let crate_docs = include_str!("../../src/lib.rs");
    let document = include_str!("../../../../docs/kubernetes.md");
    assert!(crate_docs.contains(DIRECTIVE) && document.contains(DIRECTIVE));
}
