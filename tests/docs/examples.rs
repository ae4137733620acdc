//! The examples are short, each is mentioned on a page, and the commands that run them exist.

use std::collections::BTreeSet;
use std::fs;

use crate::sources::{in_repository, rust_files};

/// The folders in `examples`. Each folder is a package named after the folder, with the suffix
/// `-examples`.
const FOLDERS: [&str; 2] = ["bus", "more"];

/// Returns the folder, the name and the source of each program.
fn programs() -> Vec<(&'static str, String, String)> {
    let of = |folder: &'static str| {
        let files = rust_files(&format!("examples/{folder}"), 2).into_iter();
        files.filter_map(move |(path, text)| {
            let name = path.strip_suffix(".rs").filter(|name| !name.contains('/'))?;
            Some((folder, name.to_owned(), text))
        })
    };
    FOLDERS.into_iter().flat_map(of).collect()
}

/// Returns the text of README.md, of the documents and of the library.
fn pages() -> String {
    let mut pages: Vec<String> = rust_files("src", 80).into_iter().map(|(_, text)| text).collect();
    for folder in [".", "docs", "docs/book"] {
        let paths = fs::read_dir(in_repository(folder)).unwrap().map(|entry| entry.unwrap().path());
        let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
        // The changelog contains the commands of earlier versions.
        let paths = paths.filter(|path| !path.ends_with("CHANGELOG.md"));
        pages.extend(paths.map(|path| fs::read_to_string(path).unwrap()));
    }
    pages.join("\n")
}

/// Returns the examples that the commands in a text run. Each example is given as its package's
/// folder and its name.
fn run_by(text: &str) -> BTreeSet<(String, String)> {
    let word = |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap().to_owned();
    let commands = text.match_indices("-examples --bin ").map(|(at, found)| {
        let folder = text[..at].rsplit(' ').next().unwrap();
        (folder.to_owned(), word(&text[at + found.len()..]))
    });
    commands.collect()
}

#[test]
fn there_are_at_most_ten_and_each_is_short() {
    let programs = programs();
    assert!((8..=10).contains(&programs.len()), "{} examples", programs.len());
    for (_, name, text) in programs {
        let lines = text.lines().count();
        assert!(lines <= 120, "{name} has {lines} lines: an example teaches one thing in at most 120");
    }
}

/// The programs in `examples/more/readme` are compiled and linted like all other code.
#[test]
fn the_programs_of_the_front_page_are_examples() {
    let readme = fs::read_to_string(in_repository("README.md")).unwrap();
    for name in ["bus", "recorder"] {
        let source = fs::read_to_string(in_repository(&format!("examples/more/readme/{name}.rs"))).unwrap();
        let (_, program) = source.split_once("\n\n").expect("a comment before the program");
        assert!(
            readme.contains(&format!("\n```rust\n{program}```\n")),
            "README.md has a different {name}.rs"
        );
    }
}

#[test]
fn a_page_names_each_example() {
    let pages = pages();
    for (folder, name, _) in programs() {
        let path = format!("`examples/{folder}/{name}.rs`");
        assert!(pages.contains(&path), "no page names {path}");
    }
}

#[test]
fn every_command_that_runs_an_example_exists() {
    let programs = programs();
    let known: BTreeSet<_> =
        programs.iter().map(|(folder, name, _)| ((*folder).to_owned(), name.clone())).collect();
    for (folder, name, text) in &programs {
        let own = BTreeSet::from([((*folder).to_owned(), name.clone())]);
        assert_eq!(run_by(text), own, "examples/{folder}/{name}.rs begins with the command that runs it");
    }
    let named = run_by(&pages());
    assert!(named.len() > 3, "only {named:?} found: has the format of the documents changed?");
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(unknown.is_empty(), "there are no such examples: {unknown:?}");
}
