//! Tests of the `top` command, which shows the statistics that a program writes as JSON lines.
#![cfg(feature = "top")]

mod once;
#[cfg(target_os = "linux")]
mod screen;

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

/// A watcher's statistics as JSON.
fn watcher(name: &str, offered: u64, delivered: u64, queued: u64) -> Value {
    json!({
        "name": name, "policy": "drop_incoming", "offered": offered, "delivered": delivered, "dropped": {},
        "queued": queued, "lag": queued, "high_water": queued
    })
}

/// A line with a bus's statistics at the given second. The newline is included.
fn line(time: u64, accepted: u64, watchers: &[Value]) -> String {
    let bus = json!({"accepted": accepted, "pending": 2, "watchers": watchers});
    format!("{}\n", json!({"time": 1_700_000_000 + time, "bus": bus}))
}

/// A file in a new directory.
struct Place {
    _folder: TempDir,
    file: PathBuf,
}

impl Place {
    fn new(text: impl AsRef<[u8]>) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("stats.jsonl");
        fs::write(&file, text).unwrap();
        Self { _folder: folder, file }
    }

    fn path(&self) -> &str {
        self.file.to_str().unwrap()
    }
}
