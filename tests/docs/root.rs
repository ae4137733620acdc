//! The crate root contains each type that methods of its other types take as parameters, as the
//! crate's front page promises. The API is read from `docs/api.txt`.

use std::collections::BTreeSet;
use std::fs;

use crate::sources::in_repository;

/// The modules whose types are not at the root: errors and statistics, and the tools.
const APART: [&str; 5] = ["error", "stats", "testing", "metrics", "escape"];

/// Returns this crate's types in a text, each with its module. The module is empty for types at the
/// root.
fn types(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("eventcast::").skip(1).filter_map(|path| {
        let end = path.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(path.len());
        let mut names = path[..end].trim_end_matches(':').split("::");
        let first = names.next()?;
        if first.starts_with(char::is_uppercase) {
            return Some(("", first));
        }
        names.next().filter(|name| name.starts_with(char::is_uppercase)).map(|name| (first, name))
    })
}

/// Returns the types that are at the root.
fn root(api: &str) -> BTreeSet<&str> {
    let declares = ["pub struct ", "pub enum ", "pub trait "];
    let lines = api.lines().map(|line| line.trim_start_matches("#[non_exhaustive] "));
    let lines = lines.filter(|line| declares.iter().any(|declares| line.starts_with(declares)));
    lines
        .filter_map(|line| types(line).next())
        .filter(|(module, _)| module.is_empty())
        .map(|(_, name)| name)
        .collect()
}

/// Returns the types that are missing at the root although a method of a type at the root takes
/// them. Each type is returned together with the method.
fn missing<'a>(api: &'a str, root: &BTreeSet<&str>) -> BTreeSet<(&'a str, &'a str)> {
    let methods = api.lines().filter_map(|line| line.strip_prefix("pub fn "));
    methods
        .filter(|method| {
            types(method).next().is_some_and(|(_, of)| method.starts_with("eventcast") && root.contains(of))
        })
        .flat_map(|method| {
            let arguments = method.split(" -> ").next().unwrap();
            types(arguments).skip(1).map(move |(module, name)| (module, name, method))
        })
        .filter(|(module, name, _)| !APART.contains(module) && !root.contains(name))
        .map(|(_, name, method)| (name, method))
        .collect()
}

#[test]
fn the_root_has_each_type_that_its_types_take() {
    let api = fs::read_to_string(in_repository("docs/api.txt")).unwrap();
    let root = root(&api);
    assert!(root.len() > 30, "only {root:?} found: has the format of the file changed?");
    let missing = missing(&api, &root);
    assert!(missing.is_empty(), "re-export these in src/lib.rs: {missing:#?}");
}

#[test]
fn a_type_that_is_only_in_its_module_is_missed() {
    let api = "pub struct eventcast::Bus\n\
               pub fn eventcast::Bus::start(self, eventcast::bus::Start) -> eventcast::bus::Watcher\n\
               pub fn eventcast::Bus::on_drop(self, eventcast::stats::Reason)\n\
               pub fn eventcast::bus::Start::from(eventcast::bus::Position)";
    let root = root(api);
    let missing: Vec<_> = missing(api, &root).into_iter().map(|(name, _)| name).collect();
    assert_eq!((root.len(), missing), (1, vec!["Start"]));
}
