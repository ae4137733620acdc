//! Finds the changes of a public API that break programs, according to Cargo's rules for semantic
//! versions (<https://doc.rust-lang.org/cargo/reference/semver.html>).
//!
//! The rules are applied to the files that record the API, so they err on the safe side: every item
//! that is gone or has another signature counts as a break, even if all calls still compile.

use std::collections::BTreeSet;

/// The effect of a change on programs that use the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Some programs no longer compile.
    Breaks,
    /// Programs that implement the trait no longer compile, unless the new item has a default.
    BreaksWithoutDefault,
    Adds,
}

/// Returns each removed line with `-`, then each added line with `+`, and the effect of each
/// change.
pub(crate) fn changes(before: &str, after: &str) -> Vec<(String, Effect)> {
    let [old, new] = [before, after].map(|text| text.lines().collect::<BTreeSet<_>>());
    let gone = old.difference(&new).filter(|line| !new.contains(eased(line).as_str()));
    let gone = gone.map(|line| (format!("-{line}"), Effect::Breaks));
    let added = new.difference(&old).map(|line| (format!("+{line}"), effect_of_new(line, &old)));
    gone.chain(added).collect()
}

/// Returns the line of an item from which a restriction was removed that only its users had.
fn eased(line: &str) -> String {
    line.strip_prefix(NON_EXHAUSTIVE)
        .map_or_else(|| line.replacen("pub fn ", "pub const fn ", 1), str::to_owned)
}

const NON_EXHAUSTIVE: &str = "#[non_exhaustive] ";

fn effect_of_new(line: &str, old: &BTreeSet<&str>) -> Effect {
    let item = line.strip_prefix(NON_EXHAUSTIVE).unwrap_or(line);
    if item != line && old.contains(item) {
        return Effect::Breaks;
    }
    let Some(parent) = parent(item) else { return Effect::Adds };
    let is = |kind: &str| old.iter().any(|line| declares(line, kind, &parent));
    // Only variants and fields have no keyword after `pub`.
    let is_plain = item.split(' ').nth(1).is_some_and(|word| word.contains("::"));
    if is("trait") {
        Effect::BreaksWithoutDefault
    } else if is_plain && is("enum") {
        Effect::Breaks
    } else {
        Effect::Adds
    }
}

/// Returns the path of the type, trait or module in which a line's item is, without generics.
fn parent(item: &str) -> Option<String> {
    let mut rest = item.strip_prefix("pub ")?;
    while !rest.split(' ').next()?.contains("::") {
        rest = rest.split_once(' ')?.1;
    }
    let (mut path, mut depth) = (String::new(), 0);
    for c in rest.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' | ' ' if depth == 0 => break,
            _ if depth == 0 => path.push(c),
            _ => {}
        }
    }
    path.trim_end_matches(':').rsplit_once("::").map(|(parent, _)| parent.to_owned())
}

/// Returns whether the line declares the given kind of item with the given path. An enum that may
/// grow is not of the kind.
fn declares(line: &str, kind: &str, path: &str) -> bool {
    let declared = line.strip_prefix("pub ").and_then(|line| line.strip_prefix(kind)?.strip_prefix(' '));
    declared.is_some_and(|declared| {
        let rest = declared.strip_prefix(path);
        rest.is_some_and(|rest| rest.is_empty() || ["<", ": ", " "].iter().any(|end| rest.starts_with(end)))
    })
}

#[cfg(test)]
mod tests {
    use super::Effect::{self, Adds, Breaks, BreaksWithoutDefault};
    use super::changes;

    const API: &str = "pub mod a\n\
        pub enum a::Closed<T>\npub a::Closed::One(T)\n\
        #[non_exhaustive] pub enum a::Open\npub a::Open::One\n\
        pub struct a::Plain\npub fn a::Plain::get(&self) -> u8\n\
        pub trait a::Sink: core::marker::Send\npub fn a::Sink::write(&self)\n";

    /// Returns the changes if one line is replaced by another. An empty line adds or removes one.
    fn replaced(old: &str, new: &str) -> Vec<(String, Effect)> {
        let after = if old.is_empty() { format!("{API}{new}\n") } else { API.replace(old, new) };
        assert_ne!(after, API);
        changes(API, &after)
    }

    fn effects(old: &str, new: &str) -> Vec<Effect> {
        replaced(old, new).into_iter().map(|(_, effect)| effect).collect()
    }

    #[test]
    fn an_item_that_is_gone_or_has_another_signature_breaks() {
        assert_eq!(replaced("pub a::Open::One\n", ""), [("-pub a::Open::One".to_owned(), Breaks)]);
        assert_eq!(effects("get(&self)", "get(&mut self)"), [Breaks, Adds]);
    }

    #[test]
    fn a_new_function_type_or_implementation_adds() {
        for new in
            ["pub fn a::Plain::set(&self)", "pub struct a::Other", "impl core::fmt::Debug for a::Plain"]
        {
            assert_eq!(effects("", new), [Adds], "{new}");
        }
    }

    #[test]
    fn a_variant_breaks_only_an_enum_that_must_be_matched_whole() {
        assert_eq!(effects("", "pub a::Closed::Two(u8)"), [Breaks]);
        assert_eq!(effects("", "pub a::Open::Two"), [Adds]);
        assert_eq!(effects("", "pub fn a::Closed<T>::new() -> Self"), [Adds]);
    }

    #[test]
    fn an_item_of_a_trait_breaks_without_a_default() {
        assert_eq!(effects("", "pub fn a::Sink::flush(&self)"), [BreaksWithoutDefault]);
    }

    #[test]
    fn a_promise_to_grow_breaks_and_its_end_does_not() {
        assert_eq!(effects("pub struct a::Plain", "#[non_exhaustive] pub struct a::Plain"), [Breaks, Breaks]);
        assert_eq!(effects("#[non_exhaustive] pub enum", "pub enum"), [Adds]);
    }

    #[test]
    fn a_function_that_becomes_const_does_not_break() {
        assert_eq!(effects("pub fn a::Plain", "pub const fn a::Plain"), [Adds]);
    }
}
