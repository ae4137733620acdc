//! The programs of the examples that the same `cargo test` has built. (`cargo test --test NAME`
//! alone does not build them.)

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Returns the program of an example. Panics if the program is missing or older than its sources,
/// and says what to do.
pub(crate) fn program(name: &str) -> PathBuf {
    let mut program = std::env::current_exe().expect("a test knows where it is");
    program.pop();
    if program.ends_with("deps") {
        program.pop();
    }
    program.push(format!("examples/{name}{EXE_SUFFIX}"));
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let source = examples.join(name);
    let newest = if source.is_dir() {
        // Examples of several files share some of these.
        newest(&source).max(newest(&examples.join("support")))
    } else {
        changed(&source.with_extension("rs"))
    };
    assert!(
        changed(&program) >= newest,
        "{} is missing or older than its sources: run `cargo build --example {name}` first",
        program.display()
    );
    program
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}

/// Returns when a file below this directory was last changed, or `None` if there is no file.
fn newest(directory: &Path) -> Option<SystemTime> {
    let files = fs::read_dir(directory).ok()?.flatten().map(|file| file.path());
    files.map(|path| if path.is_dir() { newest(&path) } else { changed(&path) }).max().flatten()
}
