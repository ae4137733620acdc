//! Imports go down only, no two files import each other, and everything concurrent comes through
//! `src/sync.rs`.
//!
//! The tests read `src/` as text. They follow a path that begins with `crate`, `super` or `self`
//! from module to module, through re-exports, to the file that has the item. The crate's root has
//! no level, because it presents what the other modules define.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::sources::{in_repository, rust_files};

/// The levels of the modules, from the lowest to the highest. A module has the level of the longest
/// name here with which its path begins. The names of one level do not import each other.
const LEVELS: &[&[&str]] = &[
    &["escape"],
    &["sync", "error", "catch", "serde_object", "duration"],
    &["clock", "policy", "remote_status"],
    &["counters"],
    &["report"],
    &["bus::options", "bus::wait"],
    &["bus::state"],
    &["bus::mailbox"],
    &["bus::dispatch"],
    &["bus::incoming"],
    &["bus::watch"],
    &["bus"],
    &["metrics::bus"],
    &["record::event"],
    &["record::stats"],
    &["record::correlator", "record::sink", "record::loss"],
    &["record::series"],
    &["record::recorder", "record::delivery", "testing"],
    &["record::broadcaster"],
    &["record"],
    &["metrics"],
];

/// The paths that only the facade may name. `OnceLock` and `LazyLock` are allowed: they hold values
/// that are made once, and are not part of the models.
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
    let tree = Tree::read();
    let (mut imports, mut wrong) = (0, Vec::new());
    for (module, targets) in tree.imports() {
        let level = level_of(&module).unwrap_or_else(|| panic!("{module} has no level: add it to LEVELS"));
        for target in targets {
            imports += 1;
            let below =
                level_of(&target).unwrap_or_else(|| panic!("{target} has no level: add it to LEVELS"));
            if below.0 > level.0 || below.0 == level.0 && below.1 != level.1 {
                wrong.push(format!("{module} imports {target}"));
            }
        }
    }
    assert!(imports > 300, "only {imports} imports found: is this still reading the sources?");
    assert!(wrong.is_empty(), "imports must go down:\n{}", wrong.join("\n"));
}

#[test]
fn no_files_import_each_other() {
    let imports = Tree::read().imports();
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|name| (name, reached_from(name, &imports))).collect();
    let circles: Vec<String> = imports
        .iter()
        .flat_map(|(name, targets)| targets.iter().map(move |target| (name, target)))
        .filter(|(name, target)| reached.get(target).is_some_and(|reached| reached.contains(name)))
        .map(|(name, target)| format!("{name} imports {target}"))
        .collect();
    assert!(circles.is_empty(), "these files import each other:\n{}", circles.join("\n"));
}

#[test]
fn concurrency_comes_through_the_facade() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        // `testing` explores the models, so it is not part of them.
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

/// `lib.rs` holds docs, lints, modules and re-exports only.
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
    for (path, text) in [sources(), rust_files("tests", 80), rust_files("crates", 50)].concat() {
        let lines = text.lines().count();
        assert!(lines <= 500, "{path} has {lines} lines: a file has one idea, and at most 500 lines");
    }
}

/// Returns all source files, each with its path in `src` and its text.
fn sources() -> Vec<(String, String)> {
    rust_files("src", 80)
}

/// Returns the modules to which the imports of this module lead, directly or through other modules.
fn reached_from<'i>(name: &str, imports: &'i BTreeMap<String, BTreeSet<String>>) -> BTreeSet<&'i String> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![name]);
    while let Some(name) = next.pop() {
        for target in imports.get(name).into_iter().flatten() {
            if reached.insert(target) {
                next.push(target);
            }
        }
    }
    reached
}

/// Returns the names of the modules that a file is inside of, and of its own module.
fn module_of(path: &str) -> Vec<String> {
    let mut names: Vec<String> = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|name| name == "mod") {
        names.pop();
    }
    names
}

/// Returns the level of a module, and the name in [`LEVELS`] with which its path begins. Returns
/// `None` if there is no such name.
fn level_of(module: &str) -> Option<(usize, &'static str)> {
    let levels =
        LEVELS.iter().enumerate().flat_map(|(level, names)| names.iter().map(move |name| (level, *name)));
    let is_inside = |name: &str| module == name || module.starts_with(&format!("{name}::"));
    levels.filter(|(_, name)| is_inside(name)).max_by_key(|(_, name)| name.len())
}

/// The modules of the crate by their paths, each with the names that it re-exports and the paths
/// that it names.
struct Tree(BTreeMap<Vec<String>, Module>);

struct Module {
    reexports: BTreeMap<String, Vec<String>>,
    paths: BTreeSet<Vec<String>>,
}

impl Tree {
    fn read() -> Self {
        let files = sources().into_iter().map(|(path, text)| (module_of(&path), text));
        let files = files.filter(|(module, _)| module[0] != "lib");
        Self(files.map(|(module, text)| (module.clone(), Module::of(&module, &text))).collect())
    }

    /// Returns the modules by name, each with the modules that have the items that it imports.
    fn imports(&self) -> BTreeMap<String, BTreeSet<String>> {
        let of = |(name, module): (&Vec<String>, &Module)| {
            let targets =
                module.paths.iter().filter_map(|path| self.home(path, 0)).filter(|home| home != name);
            (name.join("::"), targets.map(|home| home.join("::")).collect())
        };
        self.0.iter().map(of).collect()
    }

    /// Returns the module that has the item of this path. Returns `None` if the crate's root has
    /// it.
    fn home(&self, path: &[String], depth: usize) -> Option<Vec<String>> {
        assert!(depth < 20, "{path:?} is re-exported in a circle");
        let mut at = 0;
        while at < path.len() && self.0.contains_key(&path[..=at]) {
            at += 1;
        }
        let module = self.0.get(&path[..at])?;
        match path.get(at).and_then(|name| module.reexports.get(name)) {
            Some(target) => self.home(&[target, &path[at + 1..]].concat(), depth + 1),
            None => Some(path[..at].to_vec()),
        }
    }
}

impl Module {
    fn of(module: &[String], text: &str) -> Self {
        let mut this = Self { reexports: BTreeMap::new(), paths: BTreeSet::new() };
        let lines: Vec<&str> = code(text).map(|(_, line)| line).collect();
        let (mut inside, mut statement) = (Vec::new(), String::new());
        let mut rest = String::new();
        for line in lines {
            // A module inside the file reaches the file's items through `super`.
            if let Some(indent) =
                line.find("mod ").filter(|_| line.ends_with(" {") && !line.contains("macro"))
            {
                inside.push(line[..indent].len() - line[..indent].trim_start().len());
            } else if inside.last().is_some_and(|indent| line == format!("{}}}", " ".repeat(*indent))) {
                inside.pop();
            }
            let is_use = !statement.is_empty() || use_of(line).is_some();
            if !is_use {
                rest.push_str(line);
                rest.push('\n');
                continue;
            }
            statement.push_str(line.trim());
            if line.ends_with(';') {
                this.add_use(module, inside.len(), &std::mem::take(&mut statement));
            }
        }
        this.add_rest(module, &rest);
        this
    }

    fn add_use(&mut self, module: &[String], depth: usize, statement: &str) {
        let (is_public, tree) = use_of(statement).unwrap();
        for path in leaves(tree.trim_end_matches(';')) {
            let (path, name) = path.split_once(" as ").unwrap_or((&path, path.rsplit("::").next().unwrap()));
            let Some(whole) = absolute(module, depth, path) else { continue };
            if is_public {
                self.reexports.insert(name.to_owned(), whole);
            } else {
                self.paths.insert(whole);
            }
        }
    }

    /// Adds the paths outside of `use`, and the re-exported names that the module uses itself.
    fn add_rest(&mut self, module: &[String], rest: &str) {
        for start in ["crate::", "super::", "self::"] {
            for (at, _) in rest.match_indices(start) {
                if rest[..at]
                    .ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$' || c == ':' || c == '"')
                {
                    continue;
                }
                let path: String = rest[at..]
                    .chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':')
                    .collect();
                self.paths.extend(absolute(module, 0, path.trim_end_matches(':')));
            }
        }
        let words: BTreeSet<&str> = rest.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let used = self.reexports.iter().filter(|(name, _)| words.contains(name.as_str()));
        self.paths.extend(used.map(|(_, path)| path.clone()));
    }
}

/// Returns whether the `use` that a line begins re-exports, and the text behind it. Returns `None`
/// if the line does not begin a `use`.
fn use_of(line: &str) -> Option<(bool, &str)> {
    let line = line.trim_start();
    let public = ["pub use ", "pub(crate) use ", "pub(super) use "];
    if let Some(rest) = public.iter().find_map(|start| line.strip_prefix(start)) {
        return Some((true, rest));
    }
    line.strip_prefix("use ").map(|rest| (false, rest))
}

/// Returns the paths of a tree of imports.
fn leaves(tree: &str) -> Vec<String> {
    let Some((head, rest)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let (mut depth, mut item, mut found) = (0, String::new(), Vec::new());
    for c in rest[..rest.rfind('}').unwrap()].chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 {
            found.push(std::mem::take(&mut item));
        } else {
            item.push(c);
        }
    }
    found.push(item);
    let items = found.iter().map(|item| item.trim()).filter(|item| !item.is_empty());
    items.flat_map(leaves).map(|leaf| format!("{head}{leaf}")).collect()
}

/// Returns a path from the crate's root. Returns `None` if the path leads out of the crate.
fn absolute(module: &[String], depth: usize, path: &str) -> Option<Vec<String>> {
    let mut names = path.split("::").filter(|name| *name != "self");
    // A path without `crate`, `super` and `self` begins with a child of this file or with another
    // crate. The name is a child's if the child's file exists. Elsewhere this crate names a child
    // with `self`.
    let mut base = module.to_vec();
    let mut depth = depth;
    let mut found = Vec::new();
    let is_relative = path.starts_with("self::");
    for (i, name) in names.by_ref().enumerate() {
        match name {
            "crate" => base.clear(),
            "super" if depth > 0 => depth -= 1,
            "super" => {
                base.pop();
            }
            _ if i == 0 && !is_relative => {
                base.push(name.to_owned());
                return Some([base, path.split("::").skip(1).map(str::to_owned).collect()].concat()).filter(
                    |whole| {
                        in_repository("src")
                            .join(whole[..=module.len()].join("/"))
                            .with_extension("rs")
                            .exists()
                    },
                );
            }
            _ => found.push(name.to_owned()),
        }
    }
    Some([base, found].concat())
}

/// Returns the lines that are not comments, with their numbers from 1.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}
