//! The crates of the repository and the imports between their files, read as text.
//!
//! A crate begins at a file that no `mod` declares. Such a file is a library, a program, a test, a
//! benchmark or an example. The crate's paths are followed from module to module, through
//! re-exports, to the file that defines the item. A path begins with `crate`, `super` or `self`,
//! with a child module, or with an imported name.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::rust_files;

/// The folders that contain Rust files.
const FOLDERS: &[&str] = &["benches", "crates", "examples", "loom-tests", "src", "tests", "tools"];

/// The files of the repository by path.
type Files = BTreeMap<String, String>;

/// A module's path from the root of its crate. The root's own path is empty.
type Path = Vec<String>;

/// A crate's modules by path.
pub(crate) struct Crate(BTreeMap<Path, Module>);

/// A module, which may be only part of a file.
#[derive(Default)]
struct Module {
    file: String,
    /// The statements that begin with `use`. All other lines are in `lines`.
    uses: Vec<String>,
    lines: Vec<String>,
    /// The paths of the imported names, each with a flag that indicates whether the name is
    /// re-exported.
    names: BTreeMap<String, (bool, Path)>,
}

impl Crate {
    /// Returns the crate that begins at this file of the repository.
    pub(crate) fn of(root: &str) -> Self {
        Self::read(root, &files())
    }

    /// Returns all crates of the repository.
    pub(crate) fn all() -> Vec<Self> {
        Self::all_in(&files())
    }

    fn all_in(files: &Files) -> Vec<Self> {
        let declared: BTreeSet<String> = files.keys().flat_map(|file| declared_by(file, files)).collect();
        let roots = files.keys().filter(|file| !declared.contains(*file));
        roots.map(|root| Self::read(root, files)).collect()
    }

    fn read(root: &str, files: &Files) -> Self {
        let mut this = Self(BTreeMap::new());
        this.add(root, Path::new(), files);
        let names: Vec<_> = this.0.iter().map(|(path, module)| this.names(path, module)).collect();
        this.0.values_mut().zip(names).for_each(|(module, names)| module.names = names);
        this
    }

    /// Adds the modules of a file, and the modules of the files that this file declares.
    fn add(&mut self, file: &str, path: Path, files: &Files) {
        let module = || Module { file: file.to_owned(), ..Module::default() };
        self.0.insert(path.clone(), module());
        let (mut at, mut ends) = (path, Vec::new());
        let (mut attribute, mut statement) = (None, String::new());
        for (_, line) in code(&files[file]) {
            let trimmed = line.trim();
            if !statement.is_empty() || use_of(line).is_some() {
                statement.push_str(trimmed);
                if line.ends_with(';') {
                    self.0.get_mut(&at).unwrap().uses.push(std::mem::take(&mut statement));
                }
            } else if let Some(path) = trimmed.strip_prefix("#[path = ") {
                attribute = Some(path);
            } else if let Some((name, is_inline)) = module_of(trimmed) {
                let child = [&at[..], &[name.to_owned()]].concat();
                if is_inline {
                    self.0.insert(child.clone(), module());
                    ends.push(format!("{}}}", &line[..line.len() - line.trim_start().len()]));
                    at = child;
                } else {
                    self.add(&child_file(file, name, attribute.take(), files), child, files);
                }
            } else if ends.last().is_some_and(|end| line == end) {
                ends.pop();
                at.pop();
            } else {
                self.0.get_mut(&at).unwrap().lines.push(without_strings(line));
            }
        }
    }

    /// Returns the paths of the names that this module imports from its own crate.
    fn names(&self, at: &Path, module: &Module) -> BTreeMap<String, (bool, Path)> {
        let mut names = BTreeMap::new();
        for statement in &module.uses {
            let (is_public, tree) = use_of(statement).unwrap();
            for leaf in leaves(tree.trim_end_matches(';')) {
                let (leaf, alias) = leaf.split_once(" as ").map_or((&*leaf, None), |(l, a)| (l, Some(a)));
                let leaf = leaf.trim_end_matches("::self");
                let name = alias.unwrap_or(leaf.rsplit("::").next().unwrap());
                if let Some(target) = self.absolute(at, leaf) {
                    // The names imported by a glob are unknown, so the glob itself counts as an
                    // import.
                    let (name, is_public) =
                        if name == "*" { (leaf, false) } else { (name, is_public && name != "_") };
                    names.insert(name.to_owned(), (is_public, target));
                }
            }
        }
        names
    }

    /// Returns a path relative to the crate's root. Returns `None` if the path leads out of the
    /// crate.
    fn absolute(&self, at: &[String], path: &str) -> Option<Path> {
        let mut names = path.split("::").peekable();
        let first = *names.peek()?;
        let mut whole = if first == "crate" { Path::new() } else { at.to_vec() };
        if ["crate", "self"].contains(&first) {
            names.next();
        } else if first != "super" && !self.0.contains_key(&[at, &[first.to_owned()]].concat()) {
            return None;
        }
        while names.next_if_eq(&"super").is_some() {
            whole.pop();
        }
        whole.extend(names.filter(|name| *name != "*").map(str::to_owned));
        Some(whole)
    }

    /// Returns the files of the crate, each with the files whose items it uses.
    pub(crate) fn imports(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (at, module) in &self.0 {
            let private = module.names.values().filter(|(is_public, _)| !is_public);
            let mut named: BTreeSet<Path> = private.map(|(_, path)| path.clone()).collect();
            for path in module.lines.iter().flat_map(|line| paths(line)) {
                let (first, rest) = path.split_once("::").unwrap_or((path, ""));
                if let Some((_, target)) = module.names.get(first) {
                    let rest = rest.split("::").filter(|name| !name.is_empty()).map(str::to_owned);
                    named.insert(target.iter().cloned().chain(rest).collect());
                } else if !rest.is_empty() {
                    named.extend(self.absolute(at, path));
                }
            }
            let homes = named.iter().map(|path| self.home(path, 0)).filter(|home| **home != module.file);
            imports.entry(module.file.clone()).or_default().extend(homes.cloned());
        }
        imports
    }

    /// Returns the imports that are part of a cycle.
    pub(crate) fn circles(&self) -> Vec<String> {
        let imports = self.imports();
        let reached: BTreeMap<_, _> =
            imports.keys().map(|file| (file, reached_from(file, &imports))).collect();
        let pairs = imports.iter().flat_map(|(file, targets)| targets.iter().map(move |to| (file, to)));
        let circles = pairs.filter(|(file, target)| reached[target].contains(file));
        circles.map(|(file, target)| format!("{file} imports {target}")).collect()
    }

    /// Returns the file that defines the item with this path.
    fn home(&self, path: &[String], depth: usize) -> &String {
        assert!(depth < 20, "{path:?} is re-exported in a cycle");
        let at = (0..path.len()).take_while(|at| self.0.contains_key(&path[..=*at])).count();
        let module = &self.0[&path[..at]];
        match path.get(at).and_then(|name| module.names.get(name)) {
            Some((_, target)) => self.home(&[target, &path[at + 1..]].concat(), depth + 1),
            None => &module.file,
        }
    }
}

/// Returns the files that this file's imports reach, directly or through other files.
fn reached_from<'i>(file: &str, imports: &'i BTreeMap<String, BTreeSet<String>>) -> BTreeSet<&'i String> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![file]);
    while let Some(file) = next.pop() {
        for target in &imports[file] {
            if reached.insert(target) {
                next.push(target);
            }
        }
    }
    reached
}

/// Returns all files of the repository.
fn files() -> Files {
    let in_folder = |folder: &&str| {
        let folder = (*folder).to_owned();
        rust_files(&folder, 8).into_iter().map(move |(path, text)| (format!("{folder}/{path}"), text))
    };
    FOLDERS.iter().flat_map(in_folder).collect()
}

/// Returns the files that a file declares as its modules.
fn declared_by(file: &str, files: &Files) -> Vec<String> {
    let (mut attribute, mut found) = (None, Vec::new());
    for (_, line) in code(&files[file]) {
        if let Some(path) = line.trim().strip_prefix("#[path = ") {
            attribute = Some(path);
        } else if let Some((name, false)) = module_of(line.trim()) {
            found.push(child_file(file, name, attribute.take(), files));
        }
    }
    found
}

/// Returns the name of the module that a line declares, and whether the module is in the same file.
fn module_of(line: &str) -> Option<(&str, bool)> {
    let (before, rest) = line.split_once("mod ")?;
    if !(before.is_empty() || before.starts_with("pub") && before.ends_with(' ')) {
        return None;
    }
    let is_name = |name: &&str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let (name, is_inline) = rest
        .strip_suffix(';')
        .map(|name| (name, false))
        .or(rest.strip_suffix(" {").map(|name| (name, true)))?;
    Some(name).filter(is_name).map(|name| (name, is_inline))
}

/// Returns the file of a module that another file declares.
fn child_file(file: &str, name: &str, attribute: Option<&str>, files: &Files) -> String {
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let candidates = match attribute.and_then(|attribute| attribute.split('"').nth(1)) {
        Some(path) => vec![joined(folder, path)],
        None => [file.trim_end_matches(".rs"), folder]
            .iter()
            .flat_map(|folder| [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")])
            .collect(),
    };
    let found = candidates.into_iter().find(|candidate| files.contains_key(candidate));
    found.unwrap_or_else(|| panic!("{file}: no file for the module {name}"))
}

/// Joins a relative path to a folder.
fn joined(folder: &str, path: &str) -> String {
    let mut names: Vec<&str> = folder.split('/').collect();
    for name in path.split('/') {
        if name == ".." {
            names.pop();
        } else {
            names.push(name);
        }
    }
    names.join("/")
}

/// If a line begins a `use` statement, returns whether the statement is a re-export, and the rest
/// of the line. Otherwise returns `None`.
fn use_of(line: &str) -> Option<(bool, &str)> {
    let line = line.trim_start();
    let public = ["pub use ", "pub(crate) use ", "pub(super) use "];
    if let Some(rest) = public.iter().find_map(|start| line.strip_prefix(start)) {
        return Some((true, rest));
    }
    line.strip_prefix("use ").map(|rest| (false, rest))
}

/// Returns the paths in a tree of imports.
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

/// Returns a line without the strings that begin and end in that line.
fn without_strings(line: &str) -> String {
    let line = line.replace("\\\"", "").replace("'\"'", "");
    line.split('"').step_by(2).collect::<Vec<_>>().join("\"")
}

/// Returns the names and paths in a line, except fields and methods.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let start = move |at: usize| line[..at].chars().next_back().is_none_or(|c| !is_part(c));
    let starts = line.char_indices().filter(move |(at, c)| is_part(*c) && start(*at));
    let paths = starts.map(move |(at, _)| {
        let end = line[at..].find(|c| !is_part(c)).map_or(line.len(), |length| at + length);
        (&line[..at], line[at..end].trim_end_matches(':'))
    });
    let is_path = |before: &str| {
        let is_field = before.ends_with('.') && !before.ends_with("..");
        !is_field && !before.ends_with('$') && !before.ends_with("pub(in ")
    };
    paths.filter(move |(before, _)| is_path(before)).map(|(_, path)| path)
}

/// Returns the lines that are not comments, numbered from 1.
pub(crate) fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

#[test]
fn a_circle_is_seen_however_its_paths_are_written() {
    let circles = |program: &str, a: &str, c: &str| {
        let library = "mod a;\nmod b;\npub use a::A as Z;";
        let program = format!("#[path = \"../x/a.rs\"]\nmod a;\n{program}");
        let b = "mod c;\npub use c::C;";
        let files =
            [("x/lib.rs", library), ("x/a.rs", a), ("x/b.rs", b), ("x/b/c.rs", c), ("y/main.rs", &program)];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
        Crate::all_in(&files).iter().flat_map(Crate::circles).collect::<Vec<_>>()
    };
    let both = ["x/a.rs imports x/b/c.rs", "x/b/c.rs imports x/a.rs"];
    for a in [
        "use crate::b::C;",
        "use crate::{\n    b::{self as d, C as D},\n};",
        "use super::b;\nfn f(c: &b::C) {}",
        "fn f() -> super::b::C {}",
        "mod tests {\n    use super::super::b::*;\n    use super::super::b::C;\n}",
    ] {
        assert_eq!(circles("", a, "use super::super::a::A;"), both, "{a}");
    }
    for c in [
        "use crate::Z;",
        "fn f(a: &crate::Z) {}",
        "use crate::a::{self};",
        "pub use crate::a::A;\nfn f(a: A) {}",
    ] {
        assert_eq!(circles("", "use crate::b::C;", c), both, "{c}");
    }
    let with_root = ["x/a.rs imports y/main.rs", "y/main.rs imports x/a.rs"];
    assert_eq!(circles("use a::A;", "fn f() { super::g() }", ""), with_root);
    assert_eq!(circles("fn f() { a::f() }", "const N: u8 = crate::N;", ""), with_root);
    for none in
        ["pub use crate::a::A;", "pub(in crate::a) fn f() {}", "// crate::a::A", "f(\"x crate::a::A\");"]
    {
        assert_eq!(circles("", "use crate::b::C;", none), [""; 0], "{none}");
    }
}
