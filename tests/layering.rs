//! Imports go down only, and everything concurrent comes through `src/sync.rs`.
//!
//! Reads `src/` as text: each `crate::` path names a module, each module has a level, and a file may import from its own
//! module and from lower levels. The crate's root has none: what it re-exports is imported from where it lives.

use std::fs;
use std::path::{Path, PathBuf};

/// From the lowest to the highest. Those of one level do not know each other.
const LEVELS: &[&[&str]] = &[
    &["escape"],
    &["sync", "error", "guard", "document", "duration"],
    &["clock", "policy"],
    &["event"],
    &["stats"],
    &["bus", "correlator", "sink", "loss"],
    &["recorder", "recording", "kubernetes", "testing"],
    &["event_broadcaster"],
    &["metrics"],
];

/// Paths that only the facade may name. `OnceLock` and `LazyLock` hold what is made once; the models have no part in it.
const FACADE_ONLY: &[&str] = &[
    "std::sync::",
    "core::sync::",
    "std::thread",
    "std::hint::spin_loop",
    "crossbeam_channel",
    "crossbeam_queue",
    "crossbeam_utils",
    "dashmap",
    "parking_lot",
    "loom::",
];
const ALLOWED: &[&str] =
    &["std::sync::OnceLock", "std::sync::LazyLock", "std::sync::Arc<str>", "std::thread::panicking"];

#[test]
fn modules_import_downwards_only() {
    let mut imports = 0;
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let module = module_of(&path);
        if module == "lib" {
            continue;
        }
        let level = level_of(&module).unwrap_or_else(|| panic!("{module} has no level: add it to LEVELS"));
        for (number, line) in code(&text) {
            for target in line.split("crate::").skip(1) {
                let target: String =
                    target.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                imports += 1;
                if target == module {
                    continue;
                }
                match level_of(&target) {
                    Some(below) if below < level => {}
                    Some(_) => wrong.push(format!("{}:{number}: {module} imports {target}", path.display())),
                    None => {
                        wrong.push(format!("{}:{number}: crate::{target} is not a module", path.display()));
                    }
                }
            }
        }
    }
    assert!(imports > 30, "only {imports} imports found: is this still reading the sources?");
    assert!(wrong.is_empty(), "imports must go down:\n{}", wrong.join("\n"));
}

#[test]
fn concurrency_comes_through_the_facade() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        // `testing` explores the models, and so stands outside of them.
        if ["sync", "testing"].contains(&module_of(&path).as_str()) {
            continue;
        }
        for (number, line) in code(&text) {
            for banned in FACADE_ONLY {
                for (at, _) in line.match_indices(banned) {
                    if !ALLOWED.iter().any(|allowed| line[at..].starts_with(allowed)) {
                        wrong.push(format!("{}:{number}: {banned}", path.display()));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "use crate::sync instead:\n{}", wrong.join("\n"));
}

/// `lib.rs` presents: docs, lints, modules, re-exports.
#[test]
fn the_root_has_no_logic() {
    let text = fs::read_to_string(root().join("lib.rs")).unwrap();
    for (number, line) in code(&text) {
        for word in ["fn ", "struct ", "enum ", "trait ", "impl ", "use crate::bus::*"] {
            assert!(!line.contains(word), "lib.rs:{number}: {line}");
        }
    }
}

#[test]
fn files_stay_readable() {
    for (path, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= 650, "{} has {lines} lines: one idea each", path.display());
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// All source files with their text.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    assert!(found.len() > 15, "{} source files found", found.len());
    found
}

/// The top-level module that a file belongs to.
fn module_of(path: &Path) -> String {
    let inside = path.strip_prefix(root()).unwrap();
    inside.components().next().unwrap().as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
}

fn level_of(module: &str) -> Option<usize> {
    LEVELS.iter().position(|modules| modules.contains(&module))
}

/// The lines that are not comments, numbered.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}
