//! Finds the places in a source file that can be mutated, and rewrites the file so that each change
//! can be switched on. The search operates on the file's text.

use std::fmt;

use crate::by_hand::REPLACEMENTS;

/// A change that introduces a fault into the library.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    pub(crate) number: usize,
    pub(crate) file: String,
    /// The function that contains the line, as `Type::function`.
    pub(crate) place: String,
    /// The line, without surrounding whitespace.
    pub(crate) code: String,
    /// The description of the change, as shown in the table.
    pub(crate) change: String,
}

impl Mutant {
    /// Returns a key that identifies this mutant, even if its line has moved within the file.
    pub(crate) fn key(&self) -> String {
        format!("{} | {} | `{}` | {}", self.file, self.place, self.code.replace('|', "\\|"), self.change)
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {} ({})", self.file, self.place, self.code, self.change)
    }
}

/// Returns the weaker orderings that can replace the given ordering.
fn weaker(ordering: &str) -> &'static [&'static str] {
    match ordering {
        "SeqCst" => &["AcqRel"],
        "AcqRel" => &["Acquire", "Release"],
        "Acquire" | "Release" => &["Relaxed"],
        _ => &[],
    }
}

/// Returns one file's mutants, numbered from `first`, and the file's text with all of these mutants
/// added.
pub(crate) fn scan(file: &str, text: &str, first: usize) -> (Vec<Mutant>, String) {
    let mut found: Vec<Mutant> = Vec::new();
    let mut output = String::new();
    let (mut owner, mut function) = (String::new(), String::new());
    for line in text.lines() {
        let code = line.trim();
        if !code.starts_with("//") {
            if let Some(name) = type_of(line) {
                (owner, function) = (name, String::new());
            }
            if let Some(name) = function_of(code) {
                function = name;
            }
        }
        let place = if owner.is_empty() { function.clone() } else { format!("{owner}::{function}") };
        let mut add = |change: String| {
            let number = first + found.len();
            let same = |m: &&Mutant| m.place == place && m.code == code && m.change.starts_with(&change);
            let change = match found.iter().filter(same).count() {
                0 => change,
                before => format!("{change} ({})", before + 1),
            };
            found.push(Mutant { number, file: file.into(), place: place.clone(), code: code.into(), change });
            number
        };
        let written =
            if code.starts_with("//") || code.starts_with("use ") || code.starts_with("pub(crate) use ") {
                line.to_owned()
            } else if let Some(what) = left_out(code) {
                let number = add(format!("without {what}"));
                line.replace(code, &format!("if !crate::sync::is_mutant({number}) {{ {code} }}"))
            } else {
                let weak = weakened(line, &mut add);
                replaced(file, &place, code, weak, &mut add)
            };
        output.push_str(&written);
        output.push('\n');
    }
    (found, output)
}

/// If the line is a fence or a wake-up, returns the name of the part that a mutant omits. Returns
/// `None` for other lines.
fn left_out(code: &str) -> Option<&'static str> {
    if ["full_fence();", "fence(Ordering::Acquire);", "fence(Ordering::Release);"].contains(&code) {
        return Some("the fence");
    }
    let calls = [".wake();", ".wake());", ".wake_all();", ".pass_on();", ".unpark();", ".wake_by_ref();"];
    let wakes =
        calls.iter().any(|call| code.ends_with(call)) || (code.contains(".wake(") && code.ends_with(");"));
    let is_call = !code.contains([' ', '=']) || code.starts_with("catch_panic(|| ");
    (wakes && is_call).then_some("the wake-up")
}

/// Returns the line, with any hand-written mutants for that line added. `code` is the original
/// line.
fn replaced(
    file: &str,
    place: &str,
    code: &str,
    line: String,
    add: &mut impl FnMut(String) -> usize,
) -> String {
    let own = REPLACEMENTS.iter().filter(|own| (own.file, own.place, own.code) == (file, place, code));
    own.fold(line, |line, own| {
        let number = add(own.change.to_owned());
        let written = own.written.replace("$ON", &format!("crate::sync::is_mutant({number})"));
        line.replace(line.trim(), &written.replace("$CODE", line.trim()))
    })
}

/// Returns the line with each ordering replaced by an expression that depends on the selected
/// mutant.
fn weakened(line: &str, add: &mut impl FnMut(String) -> usize) -> String {
    const NAME: &str = "Ordering::";
    let mut pieces = line.split(NAME);
    let mut output = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let length = piece.find(|c: char| !c.is_alphanumeric()).unwrap_or(piece.len());
        let (ordering, rest) = piece.split_at(length);
        let mut value = format!("{NAME}{ordering}");
        for weak in weaker(ordering) {
            let number = add(format!("{ordering} to {weak}"));
            value = format!("crate::sync::mutated({number}, {NAME}{weak}, {value})");
        }
        output.push_str(&value);
        output.push_str(rest);
    }
    output
}

/// Returns the name of the type if the line begins an `impl` block, and an empty name if the line
/// begins a free function. Returns `None` for other lines.
fn type_of(line: &str) -> Option<String> {
    if line.starts_with("fn ") || line.starts_with("pub") && line.contains(" fn ") {
        // A free function.
        return Some(String::new());
    }
    let rest = line.strip_prefix("impl")?;
    let head = rest.split(" {").next().unwrap_or(rest).split(" where ").next()?;
    let head = head.rsplit(" for ").next()?.trim();
    // Skip the generic parameters after `impl`, which may contain bounds.
    let name = if head.starts_with('<') { head.rsplit("> ").next()? } else { head };
    Some(name.split(['<', ' ']).next()?.to_owned())
}

fn function_of(code: &str) -> Option<String> {
    let at =
        if code.starts_with("fn ") { 0 } else { code.find(" fn ").filter(|_| code.starts_with("pub"))? + 1 };
    Some(code[at + 3..].split(['(', '<']).next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::scan;

    const CODE: &str = "\
impl<T: Clone> Mailbox<T> {
    /// Ordering::Acquire in a comment is none.
    pub(super) fn look(&self) -> u64 {
        full_fence();
        fence(Ordering::Release);
        self.state.done.wake_all();
        self.word.fetch_or(1, Ordering::AcqRel) + self.word.load(Ordering::Relaxed)
    }
}

fn free() {
    fence(Ordering::SeqCst);
}
";

    #[test]
    fn everything_that_can_be_broken_is_found() {
        let (found, text) = scan("a.rs", CODE, 7);
        let keys: Vec<String> = found.iter().map(super::Mutant::key).collect();
        assert_eq!(
            keys,
            [
                "a.rs | Mailbox::look | `full_fence();` | without the fence",
                "a.rs | Mailbox::look | `fence(Ordering::Release);` | without the fence",
                "a.rs | Mailbox::look | `self.state.done.wake_all();` | without the wake-up",
                "a.rs | Mailbox::look | `self.word.fetch_or(1, Ordering::AcqRel) + self.word.load(Ordering::Relaxed)` | AcqRel to Acquire",
                "a.rs | Mailbox::look | `self.word.fetch_or(1, Ordering::AcqRel) + self.word.load(Ordering::Relaxed)` | AcqRel to Release",
                "a.rs | free | `fence(Ordering::SeqCst);` | SeqCst to AcqRel",
            ]
        );
        assert!(text.contains("if !crate::sync::is_mutant(7) { full_fence(); }"), "{text}");
        assert!(
            text.contains("fence(crate::sync::mutated(12, Ordering::AcqRel, Ordering::SeqCst));"),
            "{text}"
        );
        assert_eq!(text.lines().count(), CODE.lines().count());
    }

    #[test]
    fn two_of_a_kind_have_two_names() {
        let (found, _) = scan("a.rs", "fn f() {\n    full_fence();\n    full_fence();\n}\n", 0);
        assert_ne!(found[0].key(), found[1].key());
    }
}
