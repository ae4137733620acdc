//! Every memory ordering of the library is explained where it is used, and every atomic is in the
//! table of `src/bus/mod.rs` or of `src/record/mod.rs`.
//!
//! The tests read the sources as text. The models, which run with `cargo loom` and `cargo
//! loom-mutants`, show whether the explanations are true.

use std::fs;

use crate::sources::{in_repository, is_comment, sources};

/// The largest distance between an explanation and the use below it, in lines.
const NEAR: usize = 10;

/// Returns what is missing from the explanation of an ordering, or `None` if it is complete.
fn missing(ordering: &str, comments: &str) -> Option<String> {
    // A comment begins with the ordering's name: "Relaxed: ...", "Acquire, both: ...".
    let explains = |name: &str| {
        comments.split(name).skip(1).any(|rest| {
            let head = rest.split(['.', '`']).next().unwrap_or_default();
            rest.starts_with(':') || rest.starts_with(", ") && head.contains(':')
        })
    };
    let wanted: &[&str] = match ordering {
        "AcqRel" => &["Acquire", "Release"],
        "Relaxed" => &["Relaxed"],
        "Acquire" => &["Acquire"],
        "Release" => &["Release"],
        "SeqCst" => &["SeqCst"],
        other => return Some(format!("{other} is not an ordering that this test knows")),
    };
    if let Some(name) = wanted.iter().find(|name| !explains(name)) {
        return Some(format!("no line begins with \"{name}:\""));
    }
    let has_partner = comments.contains("pairs with") || comments.contains("pair with");
    (ordering != "Relaxed" && !has_partner).then(|| "no line names what it pairs with".to_owned())
}

/// Returns the orderings named in a line of code.
fn named(line: &str) -> Vec<&str> {
    let names = line.split("Ordering::").skip(1);
    names.map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()).collect()
}

#[test]
fn every_ordering_is_explained() {
    let mut uses = 0;
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate().filter(|(_, line)| !is_comment(line)) {
            for ordering in named(line) {
                uses += 1;
                // Search upwards, but not beyond the beginning of the function.
                let near = lines[i.saturating_sub(NEAR)..i].iter().rev();
                let mut near: Vec<&str> =
                    near.take_while(|line| !line.contains("fn ") || is_comment(line)).copied().collect();
                near.reverse();
                let comments = near.into_iter().filter(|line| is_comment(line));
                let comments: String =
                    comments.map(|line| line.trim_start().trim_start_matches('/')).collect();
                if let Some(what) = missing(ordering, &comments) {
                    wrong.push(format!("{file}:{}: {ordering}: {what}", i + 1));
                }
            }
        }
    }
    assert!(uses > 115, "only {uses} uses found: is this still reading the sources?");
    assert!(wrong.is_empty(), "{} of {uses}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn an_ordering_without_its_partner_is_seen() {
    assert_eq!(missing("Relaxed", " Relaxed: a count."), None);
    assert_eq!(missing("Acquire", " Acquire: pairs with the Release in `stop`."), None);
    assert_eq!(missing("AcqRel", " Acquire: pairs with this. Release: pairs with that."), None);
    for (ordering, comments) in [
        ("Relaxed", ""),
        ("Relaxed", " A relaxed load."),
        ("Release", " Acquire: pairs with the Release in `stop`."),
        ("Release", " Release: publishes the queue."),
        ("AcqRel", " Acquire: pairs with the Release in `stop`."),
        ("SeqCst", " Relaxed: a count."),
    ] {
        assert!(missing(ordering, comments).is_some(), "{ordering} is explained by {comments:?}");
    }
}

#[test]
fn every_atomic_is_in_the_table() {
    let tables = ["src/bus/mod.rs", "src/record/mod.rs", "src/topics/mod.rs"]
        .map(|file| fs::read_to_string(in_repository(file)).unwrap());
    let table = tables.concat();
    let (mut atomics, mut wrong) = (0, Vec::new());
    // The facade's atomics stand in for the internals of other libraries. The tables contain
    // neither the facade's atomics nor the atomics of `testing`.
    for (_, text) in
        sources().iter().filter(|(file, _)| !file.starts_with("sync") && !file.starts_with("testing"))
    {
        let mut owner = "";
        for line in text.lines().filter(|line| !is_comment(line)) {
            if let Some(at) = line.find("struct ") {
                owner = line[at + 7..].split(|c: char| !c.is_alphanumeric()).next().unwrap();
            }
            let declaration = line.trim().trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
            let is_declaration = !line.contains("fn ") && !line.contains("::new") && !line.contains("let ");
            // A field of a tuple struct has no name.
            let field = declaration.split_once(": ").or_else(|| declaration.split_once('('));
            let Some((field, kind)) = field.filter(|_| is_declaration) else { continue };
            // Types with such names in crossbeam and other crates are not atomics of this library.
            if !kind.starts_with('&') && (kind.contains("AtomicU") || kind.contains("AtomicB")) {
                atomics += 1;
                let field = if field.contains("struct ") { "0" } else { field };
                let name = format!("`{owner}::{field}`");
                if !table.lines().any(|row| row.starts_with("//! | `") && row.contains(&name)) {
                    wrong.push(name);
                }
            }
        }
    }
    assert!(atomics > 40, "only {atomics} atomics found: is this still reading the sources?");
    assert!(
        wrong.is_empty(),
        "not in the tables of src/bus/mod.rs, src/record/mod.rs and src/topics/mod.rs: {}",
        wrong.join(", ")
    );
}
