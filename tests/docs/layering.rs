//! Imports go only downwards, no two files import each other, and all concurrency primitives are
//! imported through `src/sync.rs`.
//!
//! The library's root has no level, because it re-exports items that other modules define.

use std::fs;

use crate::imports::{Crate, code};
use crate::sources::{in_repository, rust_files, sources};

/// The levels of the modules, from the lowest to the highest. Of the names listed here with which a
/// module's path begins, the longest determines the module's level. Modules of the same level do
/// not import each other.
const LEVELS: &[&[&str]] = &[
    &["escape"],
    &["sync", "error", "catch", "serde_object", "duration"],
    &["clock", "remote_state", "bus::policy"],
    &["bus::counters"],
    &["bus::report"],
    &["bus::options", "bus::wait"],
    &["bus::state"],
    &["bus::mailbox"],
    &["bus::dispatch"],
    &["bus::incoming"],
    &["bus::watch"],
    &["bus"],
    &["metrics::bus"],
    &["record::event", "record::recency"],
    &["record::stats"],
    &["record::correlator", "record::sink", "record::loss"],
    &["record::series"],
    &["record::recorder", "record::delivery", "testing"],
    &["record::broadcaster"],
    &["record"],
    &["topics"],
    &["metrics"],
];

/// The paths that only the facade may name. `OnceLock` and `LazyLock` are allowed, because they
/// hold values that are initialised once, and are not part of the models.
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
    let (mut imports, mut wrong) = (0, Vec::new());
    let module = |file: &str| module_of(file.strip_prefix("src/").unwrap()).join("::");
    let level =
        |module: &str| level_of(module).unwrap_or_else(|| panic!("{module} has no level: add it to LEVELS"));
    for (file, targets) in Crate::of("src/lib.rs").imports().iter().filter(|(file, _)| *file != "src/lib.rs")
    {
        let at = level(&module(file));
        for target in targets {
            imports += 1;
            let below = level(&module(target));
            if below.0 > at.0 || below.0 == at.0 && below.1 != at.1 {
                wrong.push(format!("{file} imports {target}"));
            }
        }
    }
    assert!(imports > 300, "only {imports} imports found: is this still reading the sources?");
    assert!(wrong.is_empty(), "imports must go downwards:\n{}", wrong.join("\n"));
}

#[test]
fn no_files_import_each_other() {
    let crates = Crate::all();
    assert!(crates.len() > 30, "only {} crates found", crates.len());
    let circles: Vec<String> = crates.iter().flat_map(Crate::circles).collect();
    assert!(circles.is_empty(), "these files import each other:\n{}", circles.join("\n"));
}

#[test]
fn concurrency_is_imported_through_the_facade() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        // `testing` explores the models, so it is not part of the models.
        if ["sync", "testing"].contains(&module_of(&path)[0].as_str()) {
            continue;
        }
        for (number, line) in code(&text) {
            for banned in FACADE_ONLY {
                for (at, _) in line.match_indices(banned) {
                    if !ALLOWED.iter().any(|allowed| line[at..].starts_with(allowed)) {
                        wrong.push(format!("{path}:{number}: {banned}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "use crate::sync instead:\n{}", wrong.join("\n"));
}

/// `lib.rs` contains only documentation, lints, modules and re-exports.
#[test]
fn the_root_has_no_logic() {
    let text = fs::read_to_string(in_repository("src/lib.rs")).unwrap();
    for (number, line) in code(&text) {
        for word in ["fn ", "struct ", "enum ", "trait ", "impl ", "use crate::bus::*"] {
            assert!(!line.contains(word), "lib.rs:{number}: {line}");
        }
    }
}

#[test]
fn files_stay_readable() {
    let others = [("tests", 80), ("crates", 50), ("tools", 20)];
    let others = others.map(|(folder, at_least)| rust_files(folder, at_least)).concat();
    for (path, text) in [sources(), others].concat() {
        let lines = text.lines().count();
        assert!(lines <= 500, "{path} has {lines} lines: a file must have at most 500 lines");
    }
}

/// Returns the names of the modules that contain a file, followed by the file's own module.
fn module_of(path: &str) -> Vec<String> {
    let mut names: Vec<String> = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|name| name == "mod") {
        names.pop();
    }
    names
}

/// Returns a module's level, and the longest name in [`LEVELS`] with which the module's path
/// begins. Returns `None` if the path does not begin with any of these names.
fn level_of(module: &str) -> Option<(usize, &'static str)> {
    let levels =
        LEVELS.iter().enumerate().flat_map(|(level, names)| names.iter().map(move |name| (level, *name)));
    let is_inside = |name: &str| module == name || module.starts_with(&format!("{name}::"));
    levels.filter(|(_, name)| is_inside(name)).max_by_key(|(_, name)| name.len())
}
