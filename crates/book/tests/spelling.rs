//! The prose of the documents is spelt as British English is, or as `docs/words.txt` says.
//!
//! The dictionary is Hunspell's: the system's, or `en_GB.aff` and `en_GB.dic` in the folder that
//! `EVENTCAST_DICTIONARY` names.

mod documents;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

use documents::{all, prose, root};
use spellbook::Dictionary;

/// Returns the folder with the dictionary, if there is one.
///
/// # Panics
///
/// If `EVENTCAST_DICTIONARY` names a folder without one.
fn folder() -> Option<PathBuf> {
    let is_there = |folder: &Path| folder.join("en_GB.dic").exists();
    if let Some(folder) = env::var_os("EVENTCAST_DICTIONARY").map(PathBuf::from) {
        assert!(is_there(&folder), "there is no en_GB.dic in {}", folder.display());
        return Some(folder);
    }
    Some(PathBuf::from("/usr/share/hunspell")).filter(|folder| is_there(folder))
}

/// Returns the words of a text. Numbers, names with a digit or an underscore, and paths are none.
fn words(prose: &str) -> impl Iterator<Item = &str> {
    prose.split(|c: char| c.is_whitespace() || "/=()[]{}<>+*|\"“”:;,…–→".contains(c)).filter_map(|word| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        let word = word.strip_suffix("'s").unwrap_or(word);
        let is_word = !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || "'-".contains(c));
        is_word.then_some(word)
    })
}

#[test]
fn every_word_is_known() {
    let Some(folder) = folder() else {
        return test_support::skipped(
            "spelling",
            "there is no Hunspell dictionary en_GB: install hunspell-en-gb, or set EVENTCAST_DICTIONARY",
        );
    };
    let read = |path: PathBuf| fs::read_to_string(path).unwrap();
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

#[test]
fn words_are_what_a_reader_takes_for_one() {
    let text = "A bus's queue_len (two-part) and/or 64-byte x86 G12; \"quoted\".";
    let found: Vec<_> = words(text).collect();
    assert_eq!(found, ["A", "bus", "two-part", "and", "or", "quoted"]);
}
