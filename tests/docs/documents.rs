//! Everything that the documents name exists: the tests of each guarantee, and the names from
//! client-go in the API search.

use std::collections::HashSet;
use std::fs;

use crate::sources::{in_repository, rust_files};

/// Returns the text of each Rust file in a folder of the repository, together with the path of its
/// module, such as `bus::end`. A `main.rs` or `mod.rs` has the path of its folder.
fn texts(folder: &str) -> Vec<(String, String)> {
    let module = |path: &str| {
        let path = path.trim_end_matches(".rs").trim_end_matches("/main").trim_end_matches("/mod");
        path.replace('/', "::")
    };
    rust_files(folder, 1).into_iter().map(|(path, text)| (module(&path), text)).collect()
}

/// Returns whether a module with this name exists, or a test or model with this name in one of the
/// modules. A name without `::` may be in any module. For a function in a nested module of a file,
/// the name must contain both the file's module and the nested module.
fn is_known(modules: &[(String, String)], name: &str) -> bool {
    let (module, function) = name.rsplit_once("::").map_or((None, name), |(of, it)| (Some(of), it));
    modules.iter().any(|(path, text)| {
        path == name
            || functions(text, function).any(|inside| match (module, inside) {
                (None, _) => true,
                (Some(module), None) => module == path,
                (Some(module), Some(inside)) => module == format!("{path}::{inside}"),
            })
    })
}

/// Returns whether the test or model with this name exists in one of the modules. A name of the
/// form `crates/nats: module::function` refers to a test of that crate.
fn is_known_anywhere(modules: &[(String, String)], name: &str) -> bool {
    match name.split_once(": ") {
        Some((of, name)) => {
            is_known(&texts(&format!("{of}/tests")), name) || is_known(&texts(&format!("{of}/src")), name)
        }
        None => is_known(modules, name),
    }
}

/// For each function with this name, except in comments, returns the module within the file that
/// contains the function. `None` means the file itself.
fn functions<'t>(text: &'t str, name: &str) -> impl Iterator<Item = Option<&'t str>> {
    let start = format!("fn {name}(");
    let mut inside = None;
    text.lines().filter_map(move |line| {
        match line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(" {")) {
            Some(module) => inside = Some(module),
            None if line == "}" => inside = None,
            None => {}
        }
        let code = line.trim_start();
        let is_here = !code.starts_with("//") && code.contains(&start);
        is_here.then_some(inside)
    })
}

/// Returns the strings in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the word after each `keyword`, up to the first character that cannot be part of a name.
fn names_behind<'t>(text: &'t str, keyword: &'t str) -> impl Iterator<Item = &'t str> {
    text.split(keyword)
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
}

#[test]
fn every_test_and_model_of_a_guarantee_exists() {
    let document = fs::read_to_string(in_repository("docs/guarantees.md")).unwrap();
    let modules = [texts("tests"), texts("loom-tests/tests")].concat();
    let mut seen = 0;
    // Only the part of each paragraph that names tests is read. The guarantee itself precedes it.
    for list in document.split("\n\n").filter_map(|part| part.find("*Test").map(|at| &part[at..])) {
        for name in quoted(list).filter(|name| name.contains(['_', ':'])) {
            assert!(
                is_known_anywhere(&modules, name),
                "docs/guarantees.md names {name}, which does not exist"
            );
            seen += 1;
        }
    }
    assert!(seen > 40, "only {seen} names found: has the format of the document changed?");
}

#[test]
fn every_test_of_a_fault_exists() {
    let document = fs::read_to_string(in_repository("docs/verification.md")).unwrap();
    let modules = texts("tests");
    let faults = document.split("\n## ").find(|part| part.starts_with("Faults")).unwrap();
    let mut rows = 0;
    for row in faults.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let tests: Vec<_> = quoted(row.rsplit(" | ").next().unwrap()).collect();
        assert!(!tests.is_empty(), "no test: {row}");
        for name in tests {
            assert!(name.contains("::"), "{name} does not say where it is: {row}");
            assert!(
                is_known_anywhere(&modules, name),
                "docs/verification.md names {name}, which does not exist"
            );
        }
        rows += 1;
    }
    assert!(rows > 20, "only {rows} faults found: has the format of the document changed?");
}

#[test]
fn every_name_of_client_go_that_has_a_counterpart_can_be_searched_for() {
    let document = fs::read_to_string(in_repository("docs/from-client-go.md")).unwrap();
    // Rustdoc's search ignores case and underscores.
    let plain = |name: &str| name.replace('_', "").to_lowercase();
    let mut known = HashSet::new();
    for (_, text) in texts("src").into_iter().chain(texts("crates")) {
        for keyword in
            ["pub struct ", "pub enum ", "pub trait ", "pub fn ", "    fn ", "    pub ", "doc(alias = \""]
        {
            known.extend(names_behind(&text, keyword).map(plain));
        }
    }
    let mut seen = 0;
    for row in document.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        if cells[1] == "none" {
            continue;
        }
        for name in quoted(cells[0]).map(|name| name.split('(').next().unwrap_or(name)) {
            assert!(known.contains(&plain(name)), "{name} is neither a name here nor a doc(alias): {row}");
            seen += 1;
        }
    }
    assert!(seen > 60, "only {seen} names found: has the format of the document changed?");
}

#[test]
fn a_name_is_known_in_its_module_only() {
    let text = "fn a_test() {}\n// fn no_test() {}\nmod inner {\n    fn deep() {}\n}\nfn last() {}";
    let modules = ["bus::end", "bus::order"].map(|path| (path.to_owned(), text.to_owned()));
    for name in ["bus::end", "bus::end::a_test", "a_test", "bus::end::inner::deep", "deep", "bus::end::last"]
    {
        assert!(is_known(&modules, name), "{name}");
    }
    let unknown = ["end", "bus::end::another", "another", "bus::a_test", "end::a_test", "no_test"];
    for name in unknown.into_iter().chain(["bus::end::deep", "bus::end::inner::last"]) {
        assert!(!is_known(&modules, name), "{name}");
    }
}

/// Returns the code blocks of a text, without their fences.
fn blocks<'t>(text: &'t str, languages: &'t [&str]) -> impl Iterator<Item = &'t str> {
    text.split("```").skip(1).step_by(2).filter_map(|block| {
        let (language, code) = block.split_once('\n')?;
        languages.contains(&language).then_some(code)
    })
}

/// `.ci/run outside` builds and runs a crate made from the page and the example.
#[test]
fn the_code_about_models_matches_the_example() {
    let example = fs::read_to_string(in_repository("examples/bus/model_checking.rs")).unwrap();
    let document = fs::read_to_string(in_repository("docs/model-checking.md")).unwrap();
    let module = fs::read_to_string(in_repository("src/testing/mod.rs")).unwrap();
    let module = module.lines().filter_map(|line| line.strip_prefix("//!"));
    let module = module.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n");
    // The example indents code that the page does not indent.
    let flat = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let mut seen = 0;
    for block in blocks(&document, &["rust"]).chain(blocks(&module, &["ignore"])) {
        assert!(
            flat(&example).contains(&flat(block)),
            "examples/bus/model_checking.rs does not have this:\n{block}"
        );
        seen += 1;
    }
    assert!(seen > 4, "only {seen} blocks found: has the format of the documents changed?");
    assert_eq!(blocks(&document, &["toml"]).count(), 2, "`.ci/run outside` reads two files from the page");
}

#[test]
fn every_test_named_by_a_chapter_exists() {
    let known = [texts("tests"), texts("loom-tests/tests")].concat();
    let is_folder = |name: &str| {
        let (of, name) = name.split_once(": ").map_or((".", name), |(of, name)| (of, name));
        let path = name.replace("::", "/");
        ["tests", "loom-tests/tests"]
            .iter()
            .any(|tests| in_repository(&format!("{of}/{tests}/{path}")).is_dir())
    };
    let mut chapters = 0;
    for chapter in fs::read_dir(in_repository("docs/book")).unwrap().map(|entry| entry.unwrap().path()) {
        if chapter.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let document = fs::read_to_string(&chapter).unwrap();
        let (_, tests) = document.rsplit_once("\nTests: ").expect("a chapter ends with its tests");
        let names: Vec<_> = quoted(tests).collect();
        assert!(names.len() >= 3, "{} names too few tests: {names:?}", chapter.display());
        for name in names {
            let found = is_known_anywhere(&known, name) || is_folder(name);
            assert!(found, "{} names {name}, which does not exist", chapter.display());
        }
        chapters += 1;
    }
    assert!(chapters >= 10, "only {chapters} chapters found: has the format of the book changed?");
}
