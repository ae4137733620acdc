//! The Rust files of the repository, for the tests that read them as text.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns a path in the repository.
pub(crate) fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Returns the Rust files in this folder of the repository and its subfolders, except build
/// outputs. Each file has its path relative to the folder, with `/` between the names, and its
/// text.
///
/// # Panics
///
/// Panics if there are fewer than `at_least` files, because a test that finds no files must not
/// pass.
pub(crate) fn rust_files(folder: &str, at_least: usize) -> Vec<(String, String)> {
    let root = in_repository(folder);
    let (mut folders, mut found) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
                found.push((name, fs::read_to_string(path).unwrap()));
            }
        }
    }
    assert!(found.len() >= at_least, "only {} files found in {folder}", found.len());
    found
}

/// Returns all source files of the library, each with its path relative to `src` and its text.
pub(crate) fn sources() -> Vec<(String, String)> {
    rust_files("src", 80)
}

pub(crate) fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}
