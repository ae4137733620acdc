//! Checks that no link between the documents is broken.

mod documents;

use std::collections::HashMap;
use std::path::Path;

use documents::{Document, all, headings, hidden_links, links, root};

/// Returns the anchors that GitHub and mdBook generate from a document's headings.
fn anchors(document: &Document) -> Vec<String> {
    let mut seen = HashMap::new();
    headings(&document.text)
        .into_iter()
        .map(|heading| {
            let plain = heading.to_lowercase().replace(' ', "-");
            let anchor: String =
                plain.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect();
            let before = seen.entry(anchor.clone()).and_modify(|n| *n += 1).or_insert(0);
            if *before == 0 { anchor } else { format!("{anchor}-{before}") }
        })
        .collect()
}

/// Returns a description of the problem with a link, if there is a problem.
fn fault(from: &Document, link: &str, anchors: &HashMap<String, Vec<String>>) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let folder = Path::new(&from.path).parent().unwrap();
    let target = if path.is_empty() { from.path.clone() } else { normal(&folder.join(path)) };
    // A page of the book cannot link to a file that is not in the book.
    if from.path.starts_with("docs/") && !target.starts_with("docs/") {
        return Some("leads out of the book".to_owned());
    }
    if !root().join(&target).is_file() {
        return Some(format!("there is no {target}"));
    }
    let anchor = anchor?;
    let known = anchors.get(&target).is_some_and(|anchors| anchors.iter().any(|known| known == anchor));
    (!known).then(|| format!("{target} has no heading {anchor}"))
}

/// Resolves `.` and `..` in a repository path.
fn normal(path: &Path) -> String {
    let mut parts = Vec::new();
    for part in path.iter().map(|part| part.to_str().unwrap()) {
        match part {
            "." => {}
            ".." => assert!(parts.pop().is_some(), "{} leads out of the repository", path.display()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn every_link_leads_somewhere() {
    let documents = all();
    let anchors: HashMap<_, _> =
        documents.iter().map(|document| (document.path.clone(), anchors(document))).collect();
    let (mut seen, mut faults) = (0, Vec::new());
    for document in &documents {
        for link in links(&document.text) {
            seen += 1;
            if let Some(fault) = fault(document, &link, &anchors) {
                faults.push(format!("{}: {link}: {fault}", document.path));
            }
        }
        let hidden = hidden_links(&document.text).into_iter();
        faults.extend(hidden.map(|link| format!("{}: {link}: cannot be followed", document.path)));
    }
    assert!(seen > 100, "only {seen} links found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_link_to_nothing_is_a_fault() {
    let text = "# One, two\n## The same\n## The same\n".to_owned();
    let page = Document { path: "docs/guarantees.md".to_owned(), text };
    let anchors = HashMap::from([(page.path.clone(), anchors(&page))]);
    for link in ["#one-two", "#the-same", "#the-same-1", "guarantees.md", "book/../guarantees.md#one-two"] {
        assert_eq!(fault(&page, link, &anchors), None, "{link}");
    }
    for link in ["#one", "#the-same-2", "nothing.md", "guarantees.md#two", "../README.md"] {
        assert!(fault(&page, link, &anchors).is_some(), "{link}");
    }
}

#[test]
fn a_link_that_no_check_would_follow_is_found() {
    for text in ["[a][gone]", "<a href=\"gone.md\">a</a>", "before <img src=\"gone.svg\"> behind"] {
        assert_eq!(hidden_links(text).len(), 1, "{text}");
    }
    assert!(hidden_links("[a][there] and `[a][gone]`, [Unreleased]\n\n[there]: there.md").is_empty());
}
