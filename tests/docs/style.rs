//! The comments of the sources follow the rules in CONTRIBUTING.md, as far as a program can check
//! this.
//!
//! The tests read all Rust files of the workspace as text.

use crate::sources::rust_files;

/// The folders with sources, each with the minimum number of files in it.
const FOLDERS: [(&str, usize); 7] = [
    ("src", 80),
    ("tests", 80),
    ("crates", 20),
    ("examples", 10),
    ("benches", 20),
    ("loom-tests", 20),
    ("tools", 20),
];

/// The words that begin a sentence without a proper subject, as in "Who waits sleeps".
const HEADLESS: [&str; 6] = ["What ", "Who ", "Whoever ", "Where ", "That ", "So "];

/// Beginnings that contain one of these words but are nevertheless allowed.
const WITH_SUBJECT: [&str; 3] = ["That is ", "So far ", "Where possible"];

/// The maximum length of a line with a comment, in characters.
const WIDTH: usize = 100;

/// A comment: the number of its first line, and its lines without the slashes.
type Comment = (usize, Vec<String>);

/// Returns the files, each with its path from the repository's root and its text.
fn files() -> Vec<(String, String)> {
    let of = |(folder, at_least): (&str, usize)| {
        let files = rust_files(folder, at_least).into_iter();
        files.map(move |(path, text)| (format!("{folder}/{path}"), text)).collect::<Vec<_>>()
    };
    FOLDERS.into_iter().flat_map(of).collect()
}

/// Returns the comments of a file, without the examples in them.
fn comments(text: &str) -> Vec<Comment> {
    let mut found: Vec<Comment> = Vec::new();
    let (mut is_example, mut goes_on) = (false, false);
    for (i, line) in text.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("//");
        let comment = comment.map(|rest| rest.trim_start_matches(['/', '!']).trim());
        is_example &= comment.is_some();
        let is_fence = comment.is_some_and(|comment| comment.starts_with("```"));
        is_example ^= is_fence;
        match comment.filter(|_| !is_example && !is_fence) {
            Some(comment) if goes_on => found.last_mut().unwrap().1.push(comment.to_owned()),
            Some(comment) => found.push((i + 1, vec![comment.to_owned()])),
            None => {}
        }
        goes_on = comment.is_some() && !is_example && !is_fence;
    }
    found
}

/// Returns the sentences of a comment, except in tables and headings. Each piece of code is
/// replaced with the word `code`.
fn sentences(comment: &[String]) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in comment {
        let item = line.strip_prefix("* ").or_else(|| line.strip_prefix("- "));
        if line.is_empty() || line.starts_with(['|', '#']) || item.is_some() {
            paragraphs.push(String::new());
        }
        if !line.starts_with(['|', '#']) {
            let paragraph = paragraphs.last_mut().unwrap();
            paragraph.push_str(item.unwrap_or(line));
            paragraph.push(' ');
        }
    }
    let outside = |paragraph: &String| paragraph.split('`').step_by(2).collect::<Vec<_>>().join("code");
    let ends = ['.', '!', '?'].map(|end| format!("{end} "));
    let split = |paragraph: String| {
        let marked = ends.iter().fold(paragraph, |text, end| text.replace(end.as_str(), &format!("{end}\n")));
        marked.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    paragraphs.iter().map(outside).flat_map(split).filter(|sentence| !sentence.is_empty()).collect()
}

fn is_headless(sentence: &str) -> bool {
    HEADLESS.iter().any(|start| sentence.starts_with(start))
        && !WITH_SUBJECT.iter().any(|start| sentence.starts_with(start))
        && !sentence.ends_with('?')
}

#[test]
fn sentences_of_comments_name_their_subject() {
    let (mut all, mut headless) = (0, Vec::new());
    for (path, text) in files() {
        for (line, comment) in comments(&text) {
            for sentence in sentences(&comment) {
                all += 1;
                if is_headless(&sentence) {
                    headless.push(format!("{path}:{line}: {sentence}"));
                }
            }
        }
    }
    assert!(all > 4000, "only {all} sentences found");
    println!("{} of {all} sentences begin with a headless clause", headless.len());
    assert!(headless.len() * 50 <= all, "{} of {all}:\n{}", headless.len(), headless.join("\n"));
}

#[test]
fn comments_have_no_semicolon() {
    let mut wrong = Vec::new();
    for (path, text) in files() {
        for (line, comment) in comments(&text) {
            for sentence in sentences(&comment).iter().filter(|sentence| sentence.contains(';')) {
                wrong.push(format!("{path}:{line}: {sentence}"));
            }
        }
    }
    assert!(wrong.is_empty(), "write two sentences instead:\n{}", wrong.join("\n"));
}

#[test]
fn comments_are_not_wide() {
    let mut wrong = Vec::new();
    for (path, text) in files() {
        let lines: Vec<&str> = text.lines().collect();
        for (first, comment) in comments(&text) {
            for (i, text) in comment.iter().enumerate() {
                let is_wide = lines[first - 1 + i].chars().count() > WIDTH;
                // A table has one line for each row, and a URL cannot be broken.
                if is_wide && !text.starts_with('|') && !text.contains("://") {
                    wrong.push(format!("{path}:{}", first + i));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "over {WIDTH} columns:\n{}", wrong.join("\n"));
}

#[test]
fn faults_are_seen() {
    let text = [
        "/// What is here is lost. The reader; the writer. So far so good.",
        "///",
        "/// ```",
        "/// let what = 1; // What is here; is code.",
        "/// ```",
        "/// * Who waits `a; b` sleeps.",
        "/// | What | a; b |",
        "fn f() {} // So that it ends",
    ]
    .join("\n");
    let found = comments(&text);
    let sentences: Vec<String> = found.iter().flat_map(|(_, comment)| sentences(comment)).collect();
    assert_eq!(
        sentences,
        ["What is here is lost.", "The reader; the writer.", "So far so good.", "Who waits code sleeps."]
    );
    let headless: Vec<bool> = sentences.iter().map(|sentence| is_headless(sentence)).collect();
    assert_eq!(headless, [true, false, false, true]);
}
