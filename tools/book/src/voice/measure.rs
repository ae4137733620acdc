//! Counts the sentences and test names that contain a phrase, and records their places.

use std::ops::Add;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::patterns::Patterns;
use crate::prose::{blocks, is_sentence};
use crate::rust::{Passage, Source};

/// Directories that do not contain any of the project's own text. `vectors` contains recordings
/// from other projects.
const SKIPPED: [&str; 4] = [".git", "node_modules", "target", "vectors"];

/// A use of a phrase in a sentence or a test name. A sentence with two phrases counts as two uses.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) phrase: usize,
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) is_name: bool,
}

/// A number of sentences or names, and the number of those sentences or names that contain a
/// phrase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) all: u32,
    pub(crate) private: u32,
}

impl Share {
    pub(crate) fn percent(self) -> f64 {
        f64::from(self.private) * 100.0 / f64::from(self.all.max(1))
    }

    fn count(&mut self, is_private: bool) {
        self.all += 1;
        self.private += u32::from(is_private);
    }
}

impl Add for Share {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { all: self.all + other.all, private: self.private + other.private }
    }
}

/// The result for a set of files.
#[derive(Debug, Default)]
pub(crate) struct Measure {
    pub(crate) sentences: Share,
    pub(crate) names: Share,
    pub(crate) places: Vec<Place>,
}

impl Measure {
    /// Adds a single file, or all Rust and Markdown files in a directory. Places are relative to
    /// `root`.
    pub(crate) fn add_path(&mut self, patterns: &Patterns, root: &Path, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            let entries = fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path()));
            let mut entries = entries.collect::<io::Result<Vec<PathBuf>>>()?;
            entries.retain(|entry| {
                let extension =
                    entry.extension().is_some_and(|extension| extension == "rs" || extension == "md");
                let is_skipped = SKIPPED.iter().any(|skipped| entry.ends_with(skipped));
                if entry.is_dir() { !is_skipped } else { extension }
            });
            entries.sort();
            return entries.iter().try_for_each(|entry| self.add_path(patterns, root, entry));
        }
        let text = fs::read_to_string(path)?;
        let file = path.strip_prefix(root).unwrap_or(path).display().to_string();
        self.add_file(patterns, &file, &text);
        Ok(())
    }

    /// Adds a file with the given text. A file whose name does not end in `.rs` is treated as
    /// Markdown.
    pub(crate) fn add_file(&mut self, patterns: &Patterns, file: &str, text: &str) {
        if Path::new(file).extension().is_none_or(|extension| extension != "rs") {
            let mut passage = Passage::default();
            passage.push(text, 1);
            return self.add_passage(patterns, file, &passage);
        }
        let source = Source::new(text);
        for passage in &source.passages {
            self.add_passage(patterns, file, passage);
        }
        for (line, name) in source.test_names(&patterns.tests) {
            let found = patterns.find(&name.replace('_', " "));
            self.names.count(!found.is_empty());
            self.places.extend(found.into_iter().map(|(phrase, _)| Place {
                phrase,
                file: file.to_owned(),
                line,
                text: name.to_owned(),
                is_name: true,
            }));
        }
    }

    fn add_passage(&mut self, patterns: &Patterns, file: &str, passage: &Passage) {
        for block in blocks(passage) {
            for sentence in block.sentences() {
                let text = block.text[sentence.clone()].trim_end();
                let found = patterns.find(text);
                if found.is_empty() && !is_sentence(text) {
                    continue;
                }
                self.sentences.count(!found.is_empty());
                self.places.extend(found.into_iter().map(|(phrase, start)| Place {
                    phrase,
                    file: file.to_owned(),
                    line: block.line(sentence.start + start),
                    text: text.to_owned(),
                    is_name: false,
                }));
            }
        }
    }
}
