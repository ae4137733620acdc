//! Tests of the pattern grammar.

use eventcast::topics::{SubjectPattern, Topics};
use proptest::prelude::*;

/// A reference implementation that applies the grammar's three rules, one token at a time.
fn twin(pattern: &[&str], subject: &[&str]) -> bool {
    match (pattern, subject) {
        ([], []) | ([">"], [_, ..]) => true,
        (["*", pattern @ ..], [_, subject @ ..]) => twin(pattern, subject),
        ([token, pattern @ ..], [other, subject @ ..]) => token == other && twin(pattern, subject),
        _ => false,
    }
}

#[test]
fn wildcards_match_as_in_nats() {
    for (pattern, right, wrong) in [
        ("a.b", &["a.b"][..], &["a", "a.c", "a.b.c", "A.b", ""][..]),
        ("*", &["a", "ä"], &["a.b"]),
        ("a.*.c", &["a.b.c", "a.*.c"], &["a.c", "a.b.b.c", "a.b.d"]),
        ("a.>", &["a.b", "a.b.c"], &["a", "b.a"]),
        (">", &["a", "a.b"], &[]),
        ("*.>", &["a.b", "a.b.c"], &["a"]),
    ] {
        let parsed: SubjectPattern = pattern.parse().unwrap();
        assert_eq!((parsed.as_str(), parsed.to_string().as_str()), (pattern, pattern));
        assert!(right.iter().all(|subject| parsed.matches(subject)), "{pattern}");
        assert!(!wrong.iter().any(|subject| parsed.matches(subject)), "{pattern}");
    }
}

#[test]
fn a_pattern_that_cannot_be_meant_is_refused_and_shown() {
    let topics = Topics::<String, u32>::new();
    for wrong in [
        "", ".", "a.", ".a", "a..b", "a.>.b", ">.a", "a>", "a.b>", "a*", "*a", "**", ">>", "a b", "a.\n",
        "a\t",
    ] {
        let error = topics.watch_matching(wrong).unwrap_err().to_string();
        assert!(error.starts_with("pattern must be tokens separated by dots"), "{wrong}: {error}");
    }
    let error = topics.watch_matching("a\u{1b}[2J").unwrap_err().to_string();
    assert!(error.ends_with("got `a\\u{1b}[2J`"), "{error}");
}

proptest! {
    #[test]
    fn a_pattern_matches_what_its_rules_say(
        pattern in prop::collection::vec("[ab*]", 1..5),
        has_rest in any::<bool>(),
        subject in prop::collection::vec("[ab]?", 1..6),
    ) {
        let mut pattern: Vec<&str> = pattern.iter().map(String::as_str).collect();
        if has_rest {
            pattern.push(">");
        }
        let subject: Vec<&str> = subject.iter().map(String::as_str).collect();
        let parsed = SubjectPattern::new(&pattern.join(".")).unwrap();
        prop_assert_eq!(parsed.matches(&subject.join(".")), twin(&pattern, &subject));
    }
}
