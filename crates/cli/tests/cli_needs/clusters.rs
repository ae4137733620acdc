//! Tests `eventcast replay` with events from real clusters, which are too large for the repository.

use std::path::{Path, PathBuf};

use crate::support::output::run;

/// Returns the directory that contains events from real clusters. `EVENTCAST_DATA` specifies the
/// directory. If that variable is not set, the directory is next to the checkout.
fn folder() -> PathBuf {
    std::env::var_os("EVENTCAST_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), Into::into)
}

/// Returns the reason why the test in this file cannot run, or `None` if it can run.
pub(crate) fn missing() -> Option<String> {
    if cfg!(not(feature = "analysis")) {
        return Some(
            "this build does not include `replay`, which requires the `analysis` feature".to_owned(),
        );
    }
    let folder = folder();
    (!folder.is_dir()).then(|| format!("there are no events of real clusters in {}", folder.display()))
}

pub(crate) fn real_clusters_fit_on_one_screen() {
    let folder = folder();
    let expanded = "replicatedhq-troubleshoot-analyze-fixtures.expanded.jsonl";
    for (file, remember, events, filtered) in [
        ("openshift-must-gather-clean-metal.jsonl", "1000000", "5,169 events in ", "494"),
        // This file contains a line for each occurrence, so its events have many identical states.
        (expanded, "1000000", "108 events in ", "0"),
        (expanded, "0", "3,871 events in ", "3,004"),
        ("replicatedhq-troubleshoot-baselines.jsonl", "1000000", "2,289 events in ", "14"),
    ] {
        let file = folder.join(file);
        let ended = run(&["replay", "--strict", "--remember", remember, file.to_str().unwrap()]);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{}", file.display());
        assert!(ended.stdout.starts_with(events), "{}", ended.stdout);
        let row = ended.stdout.lines().find(|line| line.starts_with("filtered")).unwrap();
        assert_eq!(row.split_whitespace().nth(1), Some(filtered));
        assert!(ended.stdout.lines().count() <= 24, "{}", ended.stdout);
        assert!(ended.stdout.lines().all(|line| line.chars().count() <= 160), "{}", ended.stdout);
    }
}
