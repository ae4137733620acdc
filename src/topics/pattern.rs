//! Subject patterns, which use the grammar of NATS.

use std::fmt;
use std::str::FromStr;

use crate::error::BuildError;
use crate::escape::escape;

/// A pattern that selects subjects, which are strings of tokens separated by dots.
///
/// Patterns use the same grammar as [NATS](https://docs.nats.io/nats-concepts/subjects#wildcards):
///
/// - A token without a wildcard matches itself.
/// - `*` matches any one token.
/// - `>` matches one or more tokens, and must be the last token.
///
/// # Examples
///
/// A watcher's filter can use a pattern:
///
/// ```
/// use eventcast::Broadcaster;
/// use eventcast::topics::SubjectPattern;
///
/// let created = SubjectPattern::new("orders.*.created")?;
/// let bus = Broadcaster::new_inline();
/// let is_wanted = move |(subject, _): &(&str, u32)| created.matches(subject);
/// let mut watcher = bus.watch_builder().filter(is_wanted).watch()?;
/// bus.publisher().publish_batch([("orders.7.created", 1), ("orders.7.paid", 2)])?;
/// bus.close();
/// assert_eq!(watcher.events().collect::<Vec<_>>(), [("orders.7.created", 1)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SubjectPattern {
    text: Box<str>,
}

impl SubjectPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    ///
    /// Returns an error if the pattern could never match a subject, or is probably a mistake:
    ///
    /// - The pattern is empty or contains an empty token.
    /// - A token contains a space or a control character.
    /// - `>` appears before the last token.
    /// - `*` or `>` is only part of a token.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::topics::SubjectPattern;
    ///
    /// assert!(SubjectPattern::new("orders.*.created").is_ok());
    /// for wrong in ["", "orders.", "orders.>.created", "order*", "orders. created"] {
    ///     assert!(SubjectPattern::new(wrong).is_err(), "{wrong}");
    /// }
    /// let error = SubjectPattern::new("a..b").unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "pattern must be tokens separated by dots, with * for any one token and > for the rest, got `a..b`"
    /// );
    /// ```
    pub fn new(pattern: &str) -> Result<Self, BuildError> {
        let is_token =
            |token: &str| !token.is_empty() && !token.contains(|c: char| c.is_whitespace() || c.is_control());
        let is_literal = |token: &str| is_token(token) && !token.contains(['*', '>']);
        let before_rest = pattern.strip_suffix('>').map(|before| before.strip_suffix('.').unwrap_or(before));
        let is_right = match before_rest {
            Some("") => pattern == ">",
            Some(before) if before.len() + 2 != pattern.len() => false,
            _ => before_rest.unwrap_or(pattern).split('.').all(|token| token == "*" || is_literal(token)),
        };
        if is_right {
            return Ok(Self { text: pattern.into() });
        }
        let allowed = "tokens separated by dots, with * for any one token and > for the rest";
        Err(BuildError::new("pattern", format_args!("`{:.64}`", escape(pattern)), allowed))
    }

    /// Returns whether a subject matches the pattern. Any string is a valid subject. Unlike a
    /// pattern, a subject may contain empty tokens, which only `*` and `>` match.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::topics::SubjectPattern;
    ///
    /// let pattern = SubjectPattern::new("orders.>")?;
    /// assert!(pattern.matches("orders.7") && pattern.matches("orders.7.created"));
    /// assert!(!pattern.matches("orders") && !pattern.matches("bills.7"));
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    pub fn matches(&self, subject: &str) -> bool {
        let mut tokens = subject.split('.');
        for part in self.text.split('.') {
            match (part, tokens.next()) {
                (">", Some(_)) => return true,
                ("*", Some(_)) => {}
                (part, Some(token)) if part == token => {}
                _ => return false,
            }
        }
        tokens.next().is_none()
    }

    /// Returns the string from which the pattern was parsed.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::topics::SubjectPattern;
    ///
    /// assert_eq!(SubjectPattern::new("a.*")?.as_str(), "a.*");
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for SubjectPattern {
    type Err = BuildError;

    fn from_str(pattern: &str) -> Result<Self, BuildError> {
        Self::new(pattern)
    }
}

impl fmt::Display for SubjectPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
