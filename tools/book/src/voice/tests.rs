//! Tests with planted phrases. The program must find the planted phrases and must skip code and
//! identifiers.

use crate::measure::{Measure, Share};
use crate::patterns::Patterns;
use crate::{fault, places};

const RUST: &str = r###"//! Nobody reads this module.
//!
//! | a table | with a cell |
//! |---|---|
//! | `code` | meanwhile |
//!
//! ```
//! let nobody = "meanwhile"; // nobody
//! ```

/* Block comments /* nest. */ Somebody reads them. */
#[doc = "Attributes count at once."]
#[cfg_attr(feature = "x", doc = r#"They do so
for ever."#)]
#[doc(alias = "at once")]
#[cfg_attr(x, doc = concat!("Joined texts", " count too."))]
///
///     nobody
///
/// The function [`says`] a `says` nothing. But `it says it` here.
fn says(nobody: &'static str) -> char {
    let text = "// nobody \" // nobody";
    let raw = r##"/// nobody "# /// nobody"##; // It comes last.
    let doc = "somebody";
    let quote = ('"', '\'', '\"', nobody, somebody); // It goes on.
    //// Dashes
    //// lie here. This lies.
    'a: loop { break 'a }
}

#[cfg(test)]
mod tests {
    #[test]
    #[should_panic(expected = "nobody")]
    fn a_reader_says_nothing() {}

    /// A helper.
    fn somebody_helps() {}

    #[tokio::test(flavor = "current_thread")]
    async fn readers_read() {}

    on_every_executor! {
        async fn nobody_waits(executor) {}
    }

    fn main() {
        run(test_support::tests![readers::what_comes_is_read, last]);
    }
}
"###;

const MARKDOWN: &str = "# What comes first

Nobody.

A sentence. [Links] count:
[the text says so](at-once.md), and `nobody` does not.
`it says` begins a sentence. And `so does
at once` here.

| name | meanwhile |
|---|---|
| 1 | nobody |

```
nobody
```

    nobody

- An item with
  somebody in its second line
";

fn measured(file: &str, text: &str) -> Measure {
    let mut measure = Measure::default();
    measure.add_file(&Patterns::new().unwrap(), file, text);
    measure
}

fn lines(measure: &Measure, is_name: bool) -> Vec<usize> {
    measure.places.iter().filter(|place| place.is_name == is_name).map(|place| place.line).collect()
}

#[test]
fn planted_phrases_in_rust_are_found_and_code_is_left_out() {
    let measure = measured("a.rs", RUST);
    let expected = [1, 5, 11, 12, 14, 16, 20, 23, 25, 27, 27];
    assert_eq!(lines(&measure, false), expected, "{}", places(&measure.places, 99));
    assert_eq!(measure.sentences.private, 11);
}

#[test]
fn planted_phrases_in_names_of_tests_are_found() {
    let measure = measured("a.rs", RUST);
    assert_eq!(lines(&measure, true), [35, 44, 48, 48]);
    assert_eq!(measure.names, Share { all: 5, private: 3 });
}

#[test]
fn planted_phrases_in_markdown_are_found_and_code_is_left_out() {
    let measure = measured("a.md", MARKDOWN);
    assert_eq!(lines(&measure, false), [1, 1, 3, 6, 7, 7, 10, 12, 21], "{}", places(&measure.places, 99));
    // The first sentence of the paragraph is the only clean one.
    assert_eq!(measure.sentences, Share { all: 9, private: 8 });
}

#[test]
fn a_share_above_the_budget_is_a_fault() {
    let share = |private: u32| Share { all: 1000, private };
    for (private, fits) in [(0, true), (10, true), (11, false)] {
        assert_eq!(fault("x", share(private)).is_none(), fits, "{private}");
    }
    assert!(fault("x", Share { all: 10, private: 0 }).unwrap().contains("only 10 x found"));
}
