//! Checks that the documents use British spelling, apart from the words in `docs/words.txt`.
//!
//! The test uses the system's Hunspell dictionary, or the files `en_GB.aff` and `en_GB.dic` in the
//! directory that the environment variable `EVENTCAST_DICTIONARY` names. Without a dictionary, the
//! spelling is not checked and the test is ignored.

mod documents;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

use documents::{all, prose, root};
use spellbook::Dictionary;

fn main() -> ExitCode {
    test_support::run([
        (missing(), test_support::tests![every_word_is_known]),
        (None, test_support::tests![words_are_what_a_reader_takes_for_one]),
    ])
}

/// Returns the directory that should contain the dictionary.
fn folder() -> PathBuf {
    env::var_os("EVENTCAST_DICTIONARY").map_or_else(|| "/usr/share/hunspell".into(), PathBuf::from)
}

/// Returns the reason why the spelling cannot be checked, if there is a reason. If
/// `EVENTCAST_DICTIONARY` names a directory without a dictionary, the test runs and fails.
fn missing() -> Option<String> {
    let is_there = env::var_os("EVENTCAST_DICTIONARY").is_some() || folder().join("en_GB.dic").exists();
    (!is_there).then(|| {
        "there is no Hunspell dictionary en_GB: install hunspell-en-gb, or set EVENTCAST_DICTIONARY"
            .to_owned()
    })
}

/// Returns the words in a text. Numbers, names with a digit or an underscore, and paths do not
/// count as words.
fn words(prose: &str) -> impl Iterator<Item = &str> {
    prose.split(|c: char| c.is_whitespace() || "/=()[]{}<>+*|\"“”:;,…–→".contains(c)).filter_map(|word| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        let word = word.strip_suffix("'s").unwrap_or(word);
        let is_word = !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || "'-".contains(c));
        is_word.then_some(word)
    })
}

fn every_word_is_known() {
    let folder = folder();
    let read = |path: PathBuf| {
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let dictionary =
        Dictionary::new(&read(folder.join("en_GB.aff")), &read(folder.join("en_GB.dic"))).unwrap();
    let own = read(root().join("docs/words.txt"));
    let own: BTreeSet<&str> = own.lines().filter(|line| !line.starts_with('#')).collect();
    let (mut unknown, mut used) = (BTreeMap::<String, String>::new(), BTreeSet::new());
    for document in all() {
        for word in words(&prose(&document.text)) {
            let parts = || word.split('-');
            if dictionary.check(word) || parts().all(|part| dictionary.check(part)) {
                continue;
            }
            let known = |part: &str| dictionary.check(part) || own.contains(part);
            used.extend(own.get(word).into_iter().chain(parts().filter_map(|part| own.get(part))));
            if !known(word) && !parts().all(known) {
                unknown.entry(word.to_owned()).or_insert(document.path.clone());
            }
        }
    }
    let unknown: Vec<_> = unknown.iter().map(|(word, path)| format!("{word}: {path}")).collect();
    assert!(unknown.is_empty(), "docs/words.txt does not have these words either:\n{}", unknown.join("\n"));
    let unused: Vec<_> = own.difference(&used).collect();
    assert!(unused.is_empty(), "docs/words.txt has words that no document needs: {unused:?}");
}

fn words_are_what_a_reader_takes_for_one() {
    let text = "A bus's queue_capacity (two-part) and/or 64-byte x86 G12; \"quoted\".";
    let found: Vec<_> = words(text).collect();
    assert_eq!(found, ["A", "bus", "two-part", "and", "or", "quoted"]);
}
