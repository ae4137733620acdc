//! Reads the repository's documents for the tests.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{BrokenLink, CodeBlockKind, Event, LinkType, Options, Parser, Tag, TagEnd};

/// A document, with its path in the repository.
pub(crate) struct Document {
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Returns the repository's documents, except the document about the test vectors, which is not for
/// readers of the book.
pub(crate) fn all() -> Vec<Document> {
    let mut documents = Vec::new();
    for folder in [
        ".",
        "docs",
        "docs/book",
        "crates/cli",
        "crates/kube",
        "crates/nats",
        "crates/sqlite",
        "crates/tracing",
        "loom-tests",
    ] {
        documents.extend(of(folder));
    }
    assert!(documents.len() > 20, "only {} documents found", documents.len());
    documents
}

/// Returns the documents in a directory, sorted by name. Subdirectories are not searched.
pub(crate) fn of(folder: &str) -> Vec<Document> {
    let paths = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut documents: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| Document {
            path: path.strip_prefix(root()).unwrap().to_str().unwrap().trim_start_matches("./").to_owned(),
            text: fs::read_to_string(&path).unwrap(),
        })
        .collect();
    documents.sort_by(|one, other| one.path.cmp(&other.path));
    documents
}

fn events(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// Returns the targets of all links and images.
pub(crate) fn links(text: &str) -> Vec<String> {
    events(text)
        .filter_map(|event| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                Some(dest_url.into_string())
            }
            _ => None,
        })
        .collect()
}

/// Returns HTML links, and reference links whose label is not defined. [`links`] does not include
/// either of these.
pub(crate) fn hidden_links(text: &str) -> Vec<String> {
    let mut hidden = Vec::new();
    let mut undefined = |link: BrokenLink<'_>| {
        // `[Unreleased]` on its own is plain text.
        if link.link_type != LinkType::Shortcut {
            hidden.push(link.reference.to_string());
        }
        None
    };
    let parser = Parser::new_with_broken_link_callback(text, Options::ENABLE_TABLES, Some(&mut undefined));
    let in_html: Vec<_> = parser
        .filter_map(|event| match event {
            Event::Html(html) | Event::InlineHtml(html) if html.contains("href") || html.contains("src") => {
                Some(html.into_string())
            }
            _ => None,
        })
        .collect();
    hidden.extend(in_html);
    hidden
}

/// Returns the info strings of all fenced code blocks. Indented code blocks do not have an info
/// string.
pub(crate) fn languages(text: &str) -> Vec<String> {
    events(text)
        .filter_map(|event| match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => Some(language.into_string()),
            _ => None,
        })
        .collect()
}

/// Returns the text of every heading, without its markup.
pub(crate) fn headings(text: &str) -> Vec<String> {
    let (mut headings, mut inside) = (Vec::new(), false);
    for event in events(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => {
                headings.push(String::new());
                inside = true;
            }
            Event::End(TagEnd::Heading(_)) => inside = false,
            Event::Text(text) | Event::Code(text) if inside => headings.last_mut().unwrap().push_str(&text),
            _ => {}
        }
    }
    headings
}

/// Returns the text that a reader sees, without code, with one paragraph or table cell per line.
pub(crate) fn prose(text: &str) -> String {
    let (mut prose, mut in_code) = (String::new(), false);
    for event in events(text) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::Text(text) if !in_code => prose.push_str(&text),
            Event::SoftBreak | Event::HardBreak | Event::Code(_) => prose.push(' '),
            Event::End(TagEnd::Link | TagEnd::Emphasis | TagEnd::Strong) => {}
            Event::End(_) => prose.push('\n'),
            _ => {}
        }
    }
    prose
}
