//! The crate's API matches the list in `docs/stability.md`, and its manifest declares the expected
//! features.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use eventcast_sqlite::{SqliteSinkOptions, SqliteSinkStats};
use serde::Serialize;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Asserts that the document's row for this type lists the keys of the type's JSON.
fn assert_documented(name: &str, value: &impl Serialize) {
    let text = read("../../docs/stability.md");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with(&format!("| `{name}` |"))).collect();
    assert_eq!(rows.len(), 1, "{name}");
    let documented: BTreeSet<&str> = rows[0].split('`').skip(3).step_by(2).collect();
    let json = serde_json::to_value(value).unwrap();
    let keys = json.as_object().expect("an object").keys().map(String::as_str);
    assert_eq!(documented, keys.collect(), "{name}");
}

#[test]
fn fields_and_keys_match_the_document() {
    assert_documented("SqliteSinkStats", &SqliteSinkStats::default());
    // `max_events` is not serialised unless it is set.
    assert_documented("SqliteSinkOptions", &SqliteSinkOptions::default().max_events(1));
}

/// Without the default features, a program links to the system's SQLite.
#[test]
fn the_feature_bundled_compiles_sqlite_along() {
    let manifest: toml::Table = toml::from_str(&read("Cargo.toml")).unwrap();
    let features: Vec<(String, Vec<String>)> = manifest["features"]
        .as_table()
        .unwrap()
        .iter()
        .map(|(name, parts)| (name.clone(), parts.clone().try_into().unwrap()))
        .collect();
    let expected = [("bundled", "rusqlite/bundled"), ("default", "bundled")];
    assert_eq!(features, expected.map(|(name, part)| (name.to_owned(), vec![part.to_owned()])));
    let rust = manifest["package"]["rust-version"].as_str().unwrap();
    for document in ["README.md", "src/lib.rs", "../../docs/stability.md"] {
        assert!(read(document).contains(&format!("Rust {rust}")), "{document}");
    }
}

#[test]
fn a_store_and_its_parts_cross_threads() {
    fn assert<T: Send + Unpin + 'static>() {}
    fn assert_shared<T: Send + Sync + Unpin + 'static>() {}
    assert_shared::<eventcast_sqlite::SqliteSink>();
    assert_shared::<SqliteSinkOptions>();
    assert_shared::<eventcast_sqlite::SqliteError>();
    assert_shared::<eventcast_sqlite::SqliteChanges>();
    assert::<eventcast_sqlite::SqliteEvents>();
}
