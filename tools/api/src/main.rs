//! Compares the public API of the published libraries with the files that record the API,
//! `docs/api*.txt`. Every change to the API therefore shows up as a change to one of these files,
//! which a reviewer will notice. `--write` updates the files. The program also checks that
//! rustdoc's search finds the words in `docs/search-words.txt`.
//!
//! `--since REVISION` compares the files with the files of a git revision instead, and fails if a
//! change breaks programs, which requires an incompatible version.
//!
//! The program reads rustdoc's JSON, which a stable rustdoc writes only with `RUSTC_BOOTSTRAP`.
//! Cargo therefore runs this program instead of rustdoc, and the program sets the variable only for
//! rustdoc. If the variable were set more widely, build scripts that check it would cause half of
//! the dependencies to be rebuilt.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of the repository")]

mod breaks;
mod search;

use std::collections::BTreeSet;
use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde::Deserialize;

use breaks::Effect;

type Done<T> = Result<T, Box<dyn Error>>;

/// The published libraries, each with the file that records its API.
const LIBRARIES: [(&str, &str); 5] = [
    ("eventcast", "docs/api.txt"),
    ("eventcast-kube", "docs/api-kube.txt"),
    ("eventcast-nats", "docs/api-nats.txt"),
    ("eventcast-sqlite", "docs/api-sqlite.txt"),
    ("eventcast-tracing", "docs/api-tracing.txt"),
];
/// The environment variable that is set when the program runs instead of rustdoc.
const AS_RUSTDOC: &str = "EVENTCAST_API_AS_RUSTDOC";
/// The version of rustdoc's JSON format that the `public-api` crate reads.
const FORMAT: u32 = 57;

fn main() -> ExitCode {
    let done = if env::var_os(AS_RUSTDOC).is_some() { run_rustdoc() } else { check_all() };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("eventcast-api: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_rustdoc() -> Done<bool> {
    let status = Command::new("rustdoc").args(env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").status()?;
    Ok(status.success())
}

fn check_all() -> Done<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let write = match env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [flag] if flag == "--write" => true,
        [flag, revision] if flag == "--since" => return is_compatible_since(&root, revision),
        _ => return Err("unexpected arguments: there are --write and --since REVISION".into()),
    };
    let mut is_same = true;
    for (library, file) in LIBRARIES {
        let file = root.join(file);
        let Some((api, json)) = public_api(&root, library)? else { continue };
        if library == "eventcast" {
            for word in search::missing(&serde_json::from_slice(&fs::read(json)?)?) {
                println!("rustdoc's search does not find `{word}`: add an alias where the item is public");
                is_same = false;
            }
        }
        if write {
            fs::write(&file, api)?;
        } else {
            is_same &= compare(&file, &api)?;
        }
    }
    Ok(is_same)
}

/// Prints what has changed in the files that record the API since a revision of the repository.
/// Returns whether no change breaks programs.
fn is_compatible_since(root: &Path, revision: &str) -> Done<bool> {
    let git = |args: &[&str]| Command::new("git").current_dir(root).args(args).output();
    let found = git(&["rev-parse", "--verify", "--end-of-options", &format!("{revision}^{{commit}}")])?;
    if !found.status.success() {
        return Err(
            format!("cannot find '{revision}' in this repository: give a tag, branch or commit").into()
        );
    }
    let mut is_compatible = true;
    for (library, file) in LIBRARIES {
        // A library that did not exist yet had no API.
        let shown = git(&["show", "--end-of-options", &format!("{revision}:{file}")])?.stdout;
        let now = fs::read_to_string(root.join(file))?;
        for (change, effect) in breaks::changes(&String::from_utf8(shown)?, &now) {
            let note = match effect {
                Effect::Adds => "",
                Effect::Breaks => "breaks: ",
                Effect::BreaksWithoutDefault => "breaks if it has no default: ",
            };
            println!("{library}: {note}{change}");
            is_compatible &= effect != Effect::Breaks;
        }
    }
    println!(
        "{}",
        if is_compatible { "no change breaks programs" } else { "the next version must be incompatible" }
    );
    Ok(is_compatible)
}

/// Returns a library's API, one item per line, and the path of rustdoc's JSON. Returns `None` if
/// this rustdoc writes another format version, in which case the run reports that it skipped the
/// comparison.
fn public_api(root: &Path, library: &str) -> Done<Option<(String, PathBuf)>> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .current_dir(root)
        .args(["rustdoc", "--quiet", "--locked", "--package", library, "--lib", "--all-features"])
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        .env("RUSTDOC", env::current_exe()?)
        .env(AS_RUSTDOC, "1")
        .status()?;
    if !built.success() {
        return Err(format!("cannot document {library}: cargo rustdoc failed").into());
    }
    let json = target(root)?.join("doc").join(format!("{}.json", library.replace('-', "_")));
    let format = format(&json)?;
    if format != FORMAT {
        skip(&format!("the public API of {library}: rustdoc writes format {format}, and {FORMAT} is known"))?;
        return Ok(None);
    }
    let api = public_api::Builder::from_rustdoc_json(&json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()?;
    let mut text = String::new();
    for item in api.items() {
        writeln!(text, "{item}")?;
    }
    Ok(Some((text, json)))
}

/// Returns cargo's target directory.
fn target(root: &Path) -> Done<PathBuf> {
    // This program's executable is in `target/<profile>/`.
    let program = env::current_exe()?;
    let folder = program.ancestors().nth(2).ok_or("cannot find the target folder")?;
    Ok(root.join(folder))
}

fn format(json: &Path) -> Done<u32> {
    #[derive(Deserialize)]
    struct Header {
        format_version: u32,
    }
    Ok(serde_json::from_slice::<Header>(&fs::read(json)?)?.format_version)
}

/// Reports a skipped check on stdout and, if requested, in the summary at the end of `.ci/run`.
fn skip(text: &str) -> Done<()> {
    println!("skipped: {text}");
    if let Some(file) = env::var_os("EVENTCAST_SKIPPED") {
        use std::io::Write as _;
        writeln!(fs::OpenOptions::new().append(true).open(file)?, "{text}")?;
    }
    Ok(())
}

/// Prints the added and removed lines. Returns whether there are no differences.
fn compare(file: &Path, now: &str) -> Done<bool> {
    let known =
        fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let (known, now): (BTreeSet<&str>, BTreeSet<&str>) = (known.lines().collect(), now.lines().collect());
    for gone in known.difference(&now) {
        println!("-{gone}");
    }
    for new in now.difference(&known) {
        println!("+{new}");
    }
    let is_same = known == now;
    if !is_same {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        println!("the public API is not that of docs/{name}: run `cargo api --write` if the change is meant");
    }
    Ok(is_same)
}
