//! Every lock of the library is in the table of `src/bus/mod.rs` or of `src/record/mod.rs`. These
//! tables list the threads that take each lock, and the locks that such a thread may already hold.
//!
//! The tests read the sources as text. They find each lock, each use of a lock, and each use of a
//! lock while the same function holds another lock. A lock order that spans several functions is
//! stated in a comment ("Lock order: ...") where the inner lock is taken, and the tables contain
//! the same orders.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::sources::{in_repository, is_comment, rust_files};

/// The parts of a type's name that identify a lock, which can make one thread wait for another.
const KINDS: [&str; 5] = ["Mutex<", "RwLock<", "DashMap<", "ReentrantLock<", "Condvar"];

/// The calls that take a lock.
const CALLS: [&str; 5] = [".lock()", ".try_lock()", ".shards()", ".read()", ".write()"];

/// A lock's row in a table. The row contains the threads that take the lock, the locks under which
/// the lock is taken, and how long the lock is held.
#[derive(Debug)]
struct Row {
    taken_by: String,
    under: Vec<String>,
    held_for: String,
}

/// Returns the library's files, each with its path relative to `src`. The facade is left out
/// because its locks stand in for the internals of other libraries, and `testing` is left out
/// because its locks are for models.
fn sources() -> Vec<(String, String)> {
    let files = rust_files("src", 80).into_iter();
    files.filter(|(file, _)| !file.starts_with("sync") && !file.starts_with("testing")).collect()
}

/// Returns the locks that a text names, each as a type and a field.
fn named_in(text: &str) -> Vec<String> {
    let code = text.split('`').skip(1).step_by(2);
    code.filter(|code| code.contains("::")).map(str::to_owned).collect()
}

/// Returns the rows of the tables by lock name. Several locks may share a row.
fn rows() -> BTreeMap<String, Row> {
    let mut rows = BTreeMap::new();
    for file in ["src/bus/mod.rs", "src/record/mod.rs", "src/topics/mod.rs"] {
        let text = fs::read_to_string(in_repository(file)).unwrap();
        let table = text.lines().skip_while(|line| !line.starts_with("//! | lock |"));
        for line in table.skip(2).take_while(|line| line.starts_with("//! |")) {
            let cells: Vec<&str> = line.trim_start_matches("//! |").split('|').map(str::trim).collect();
            let [names, taken_by, under, held_for, ""] = cells[..] else { panic!("{file}: {line}") };
            for name in named_in(names) {
                let (taken_by, held_for) = (taken_by.to_owned(), held_for.to_owned());
                let row = Row { taken_by, under: named_in(under), held_for };
                assert!(
                    !row.under.is_empty() || under == "none",
                    "{file}: write `none` if no lock is held: {line}"
                );
                assert!(rows.insert(name.clone(), row).is_none(), "{name} has two rows");
            }
        }
    }
    rows
}

/// Returns the locks that a file declares, each with the name of its type, static or module.
fn locks_in(text: &str) -> Vec<String> {
    let (mut owner, mut found) = ("", Vec::new());
    for line in text.lines().filter(|line| !is_comment(line)) {
        for word in ["struct ", "enum ", "static "] {
            if let Some((before, rest)) = line.split_once(word) {
                if before.trim().is_empty() || before.trim().starts_with("pub") {
                    owner = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
                }
            }
        }
        let is_use = ["fn ", "let ", "::new", "use ", "impl"].iter().any(|word| line.contains(word));
        let declaration = line.trim().trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
        // A field of a tuple struct has no name.
        let field = declaration.split_once(": ").or_else(|| declaration.split_once('('));
        let Some((field, kind)) = field.filter(|_| !is_use) else { continue };
        // A parameter is a reference, and the value in another literal is not a type.
        if !kind.starts_with('&') && KINDS.iter().any(|lock| kind.contains(lock)) {
            let field = if field.contains("struct ") || field.contains("static ") { "0" } else { field };
            found.push(format!("{owner}::{field}"));
        }
    }
    found
}

/// Returns the names of the locks taken in a line. These are the fields or local names in front of
/// the calls.
fn locked_in(line: &str) -> Vec<String> {
    let calls = CALLS.iter().flat_map(|call| line.match_indices(call).map(|(at, _)| at));
    let mut found = Vec::new();
    for at in calls {
        let mut before = line[..at].to_owned();
        while before.ends_with(']') {
            // An index expression, such as `shards[n].lock()`.
            let mut depth = 0;
            let start = before.char_indices().rev().find(|(_, c)| {
                depth += i32::from(*c == ']') - i32::from(*c == '[');
                depth == 0
            });
            before.truncate(start.expect("brackets come in pairs").0);
        }
        // A shard's lock was already found at `shards()`.
        if !before.ends_with(".shards()") {
            let name = before.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
            found.push(name.to_owned());
        }
    }
    found
}

/// Returns whether a name used to take a lock may refer to this lock. A local name may be in the
/// singular.
fn may_be(name: &str, lock: &str) -> bool {
    let field = lock.split("::").last().unwrap().to_lowercase();
    field == name || field == format!("{name}s")
}

/// Returns the pairs of names where a function takes the second lock while holding the first.
fn nested_in(text: &str) -> Vec<(String, String)> {
    let (mut depth, mut guards, mut pairs) = (0, Vec::<(usize, String, String)>::new(), Vec::new());
    for line in text.lines().filter(|line| !is_comment(line)) {
        let inner = locked_in(line);
        for (_, _, outer) in &guards {
            pairs.extend(inner.iter().map(|inner| (outer.clone(), inner.clone())));
        }
        guards.retain(|(_, guard, _)| !line.contains(&format!("drop({guard})")));
        depth = (depth + line.matches('{').count()).saturating_sub(line.matches('}').count());
        guards.retain(|(begun, ..)| *begun <= depth);
        let is_kept = CALLS.iter().any(|call| line.trim_end().ends_with(&format!("{call};")));
        let guard = line.trim().strip_prefix("let ").filter(|_| is_kept);
        if let (Some(guard), Some(lock)) = (guard, inner.first()) {
            let guard = guard.trim_start_matches("mut ").split([' ', ':']).next().unwrap();
            guards.push((depth, guard.to_owned(), lock.clone()));
        }
    }
    pairs
}

/// Returns the orders stated in a file's comments: "Lock order: `a` before `b` and `c`."
fn stated_in(text: &str) -> Vec<(String, String)> {
    let comments = text.lines().filter(|line| is_comment(line));
    let comments: String = comments.map(|line| line.trim_start().trim_start_matches(['/', '!'])).collect();
    let mut found = Vec::new();
    for order in comments.split("Lock order: `").skip(1).map(|order| format!("`{order}")) {
        let (outer, rest) = order.split_once(" before ").expect("a lock order has two sides");
        let inner = rest.split('.').next().unwrap();
        for outer in named_in(outer) {
            found.extend(named_in(inner).into_iter().map(|inner| (outer.clone(), inner)));
        }
    }
    found
}

/// Returns a lock that can be reached from itself through the locks that are held when it is taken.
fn in_circle(rows: &BTreeMap<String, Row>) -> Option<&String> {
    rows.keys().find(|start| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![*start]);
        while let Some(lock) = next.pop() {
            for above in rows.get(lock).into_iter().flat_map(|row| &row.under) {
                if above == *start {
                    return true;
                }
                if seen.insert(above) {
                    next.push(above);
                }
            }
        }
        false
    })
}

#[test]
fn every_lock_is_in_the_table_and_every_row_is_a_lock() {
    let rows = rows();
    let locks: BTreeSet<String> = sources().iter().flat_map(|(_, text)| locks_in(text)).collect();
    assert!(locks.len() > 20, "only {locks:?} found: is this still reading the sources?");
    let named: BTreeSet<String> = rows.keys().cloned().collect();
    let missing: Vec<_> = locks.difference(&named).collect();
    assert!(
        missing.is_empty(),
        "not in the tables of src/bus/mod.rs, src/record/mod.rs and src/topics/mod.rs: {missing:?}"
    );
    let gone: Vec<_> = named.difference(&locks).collect();
    assert!(gone.is_empty(), "rows without a lock: {gone:?}");
    for (lock, Row { taken_by, under, held_for }) in &rows {
        assert!(!taken_by.is_empty() && !held_for.is_empty(), "{lock}: a cell is empty");
        let unknown: Vec<_> = under.iter().filter(|lock| !rows.contains_key(*lock)).collect();
        assert!(unknown.is_empty(), "{lock} is taken under {unknown:?}, which is not a lock in the tables");
    }
}

#[test]
fn every_use_is_of_a_lock_in_the_table() {
    let (rows, mut uses, mut wrong) = (rows(), 0, Vec::new());
    for (file, text) in sources() {
        for (i, line) in text.lines().enumerate().filter(|(_, line)| !is_comment(line)) {
            for name in locked_in(line) {
                uses += 1;
                if !rows.keys().any(|lock| may_be(&name, lock)) {
                    wrong.push(format!("{file}:{}: {name}", i + 1));
                }
            }
        }
    }
    assert!(uses > 60, "only {uses} uses found: is this still reading the sources?");
    assert!(wrong.is_empty(), "no lock in the tables has this name:\n{}", wrong.join("\n"));
}

#[test]
fn no_locks_are_taken_in_a_circle() {
    let rows = rows();
    assert_eq!(in_circle(&rows), None, "a thread that holds this lock could wait for itself");
}

#[test]
fn the_orders_of_the_table_match_the_comments() {
    let rows = rows();
    let stated: BTreeSet<_> = sources().iter().flat_map(|(_, text)| stated_in(text)).collect();
    let under = |(lock, row): (&String, &Row)| {
        let above = row.under.iter().map(|above| (above.clone(), lock.clone()));
        above.collect::<Vec<_>>()
    };
    let tabled: BTreeSet<_> = rows.iter().flat_map(under).collect();
    let silent: Vec<_> = tabled.difference(&stated).collect();
    assert!(silent.is_empty(), "no \"Lock order: ..\" comment where the lock is taken: {silent:?}");
    let missing: Vec<_> = stated.difference(&tabled).collect();
    assert!(missing.is_empty(), "in a comment, but not in the tables: {missing:?}");
}

#[test]
fn a_lock_that_a_function_takes_under_another_has_an_order() {
    let (rows, mut wrong) = (rows(), Vec::new());
    for (file, text) in sources() {
        for (outer, inner) in nested_in(&text) {
            let has_order = rows.iter().any(|(lock, row)| {
                may_be(&inner, lock) && row.under.iter().any(|above| may_be(&outer, above))
            });
            if !has_order {
                wrong.push(format!("{file}: {inner} under {outer}"));
            }
        }
    }
    assert!(wrong.is_empty(), "the tables do not have these orders:\n{}", wrong.join("\n"));
}

#[test]
fn locks_and_their_faults_are_seen() {
    let text = [
        "pub(super) struct A<T> {",
        "    /// Lock order: `A::a` and `A::b` before",
        "    /// `B::0`. Not `C::c`.",
        "    pub(super) a: Arc<Mutex<T>>,",
        "    guard: MutexGuard<'static, T>,",
        "    b: OnceLock<u8>,",
        "}",
        "struct B(TryMutex<u8>);",
        "static C: RwLock<u8> = RwLock::const_new();",
        "enum D { ",
        "    Ring(Box<Mutex<u8>>),",
        "}",
        "fn f(x: Mutex<u8>, stats: &Mutex<u8>) {",
        "    let mut a = self.a.lock();",
        "    self.shards[self.at[0]].lock().go();",
        "    drop(a);",
        "    {",
        "        let c = C.write();",
        "        self.map.shards()[i].write();",
        "    }",
        "    self.b.try_lock();",
        "}",
    ]
    .join("\n");
    assert_eq!(locks_in(&text), ["A::a", "B::0", "C::0", "D::Ring"]);
    let pairs = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(nested_in(&text), pairs(&[("a", "shards"), ("C", "map")]));
    assert_eq!(stated_in(&text), pairs(&[("A::a", "B::0"), ("A::b", "B::0")]));
    assert!(may_be("shard", "Map::shards") && may_be("ring", "SliceQueue::Ring"));
    assert!(!may_be("state", "Map::shards"));
    let row = |under: &str| Row { taken_by: "x".into(), under: named_in(under), held_for: "x".into() };
    let mut rows = BTreeMap::from(
        [("x::a", row("")), ("x::b", row("`x::a`")), ("x::c", row("`x::a` `x::b`"))]
            .map(|(k, v)| (k.to_owned(), v)),
    );
    assert_eq!(in_circle(&rows), None);
    rows.insert("x::a".to_owned(), row("`x::c`"));
    assert!(in_circle(&rows).is_some());
}
