//! Checks that the book is complete and that its parts have the expected form.

mod documents;

use std::fs;

use documents::{headings, languages, links, of, root};

const MOST_CHAPTERS: usize = 13;
const MOST_LINES_OF_THE_README: usize = 120;
const MOST_WORDS_OF_THE_BOOK: usize = 20_600;
const MOST_WORDS_OF_THE_REFERENCE: usize = 23_222;
/// The page that consists of tables, and grows with each machine.
const GENERATED: &str = "docs/figures.md";

#[test]
fn the_contents_name_every_page_once() {
    let contents = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let mut named = links(&contents);
    named.sort();
    let mut pages: Vec<String> = ["docs", "docs/book"]
        .iter()
        .flat_map(|folder| of(folder))
        .map(|page| page.path.trim_start_matches("docs/").to_owned())
        .filter(|page| page != "SUMMARY.md")
        .collect();
    pages.sort();
    assert_eq!(named, pages);
}

#[test]
fn every_chapter_ends_with_its_faults_and_its_tests() {
    let chapters = of("docs/book");
    assert!((10..=MOST_CHAPTERS).contains(&chapters.len()), "{} chapters", chapters.len());
    for chapter in chapters {
        let headings = headings(&chapter.text);
        assert_eq!(headings.last().unwrap(), "What can go wrong", "{}", chapter.path);
        let end = chapter.text.trim_end().rsplit("\n\n").next().unwrap();
        assert!(end.starts_with("Tests: `"), "{} names no tests", chapter.path);
    }
}

/// Returns the number of words in a text, not counting code blocks and comments.
fn words(text: &str) -> usize {
    let mut in_code = false;
    let is_prose = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence && !line.starts_with("<!--")
    };
    let lines = text.lines().filter(is_prose);
    lines.flat_map(str::split_whitespace).filter(|word| word.contains(char::is_alphanumeric)).count()
}

/// A change that adds text to the documents must shorten the documents elsewhere.
#[test]
fn the_documents_are_short() {
    for (folder, most) in [("docs", MOST_WORDS_OF_THE_REFERENCE), ("docs/book", MOST_WORDS_OF_THE_BOOK)] {
        let mut sizes: Vec<_> =
            of(folder).iter().map(|page| (words(&page.text), page.path.clone())).collect();
        sizes.retain(|(_, path)| path != GENERATED);
        let all: usize = sizes.iter().map(|(words, _)| words).sum();
        assert!(all <= most, "{folder} has {all} words, at most {most} are allowed: {sizes:?}");
    }
}

#[test]
fn only_prose_and_tables_have_words() {
    assert_eq!(words("One, `two` – three\n\n```rust\nfour();\n```\n<!-- six -->\n| five | - |\n"), 4);
}

/// If no crate includes a page, its code is never compiled. A block that rustdoc does not recognize
/// as Rust is not compiled either.
#[test]
fn the_code_of_every_page_is_compiled() {
    const OTHERS: [&str; 9] = ["go", "json", "promql", "sh", "sql", "text", "toml", "yaml", "console"];
    let crates = ["src/lib.rs", "tools/book/src/lib.rs", "crates/kube/src/lib.rs", "crates/nats/src/lib.rs"];
    let texts = crates.map(|path| fs::read_to_string(root().join(path)).unwrap());
    let included: Vec<_> =
        texts.iter().flat_map(|text| text.lines()).filter(|line| !line.contains("//")).collect();
    for page in ["docs", "docs/book"].iter().flat_map(|folder| of(folder)) {
        let languages = languages(&page.text);
        for language in &languages {
            let is_rust = ["rust", "rust,no_run"].contains(&language.as_str());
            let is_rust = is_rust || language.starts_with("rust,compile_fail");
            assert!(is_rust || OTHERS.contains(&language.as_str()), "{}: ```{language}", page.path);
        }
        // `.ci/run outside` builds a crate from this page.
        if languages.iter().any(|language| language.starts_with("rust"))
            && page.path != "docs/model-checking.md"
        {
            let end = format!("../{}\")]", page.path);
            assert!(included.iter().any(|line| line.ends_with(&end)), "nobody compiles {}", page.path);
        }
    }
}

#[test]
fn the_front_page_is_short() {
    let lines = fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines <= MOST_LINES_OF_THE_README, "{lines} lines");
}

/// The search in a built book finds a page if the page contains all words in the query.
#[test]
fn the_book_has_the_words_that_people_search_for() {
    let pages: Vec<_> = ["docs", "docs/book"].iter().flat_map(|folder| of(folder)).collect();
    let words = fs::read_to_string(root().join("docs/search-words.txt")).unwrap();
    let is_missing = |word: &&str| {
        let word = word.to_lowercase();
        !pages.iter().any(|page| page.text.to_lowercase().contains(&word))
    };
    let missing: Vec<_> = words.lines().filter(is_missing).collect();
    assert!(words.lines().count() >= 30 && missing.is_empty(), "no page has {missing:?}");
}

/// The chapter on proof repeats sums that `docs/verification.md` states, where the numbers of
/// models are generated.
#[test]
fn the_chapter_on_proof_repeats_the_sums_of_the_models_and_mutants() {
    let read = |page: &str| fs::read_to_string(root().join("docs").join(page)).unwrap();
    let (proof, verification) = (read("book/proof.md"), read("verification.md"));
    let numbers = |text: &str| -> Vec<String> {
        let digits = text.split(|c: char| !c.is_ascii_digit());
        digits.filter(|number| !number.is_empty()).map(str::to_owned).collect()
    };
    let line = |text: &str, holds: &str| {
        let found = text.lines().find(|line| line.contains(holds));
        numbers(found.unwrap_or_else(|| panic!("no line contains {holds:?}")))
    };
    let all = line(&proof, "| all |");
    assert_eq!(all, line(&verification, " were explored exhaustively with two preemptions"));
    let rows = proof.lines().skip_while(|line| !line.starts_with("| models |")).skip(2);
    let rows = rows.take_while(|line| !line.starts_with("| all |"));
    let counts = rows.map(|row| row.split('|').nth(2).unwrap().trim().parse::<u32>().unwrap());
    assert_eq!(counts.sum::<u32>().to_string(), all[0], "the rows must add up");
    let mutants = line(&verification, "The models catch ");
    assert_eq!(line(&proof, " mutants, ")[..2], [mutants[1].clone(), mutants[0].clone()]);
}
