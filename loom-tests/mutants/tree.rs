//! The copy of the source tree in which the mutants are built.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::backend::Backend;
use crate::run::{Found, Model};
use crate::scan::{Mutant, scan};

/// The folders that are searched for mutants.
const FOLDERS: [&str; 3] = ["src/bus", "src/sync", "src/topics"];

/// The environment variable that [`SWITCH`] reads.
const SWITCHED_BY: &str = "EVENTCAST_MUTANT";

/// The code that is added to the copy of `src/sync.rs`. This code determines which mutant is
/// active.
const SWITCH: &str = "
pub(crate) fn is_mutant(number: usize) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| std::env::var(\"EVENTCAST_MUTANT\").ok()?.parse().ok()) == Some(number)
}

pub(crate) fn mutated<T>(number: usize, mutant: T, real: T) -> T {
    if is_mutant(number) { mutant } else { real }
}
";

pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn find() -> Result<Self, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no folder above this package")?;
        Ok(Self { root: root.to_owned() })
    }

    pub(crate) fn table(&self) -> PathBuf {
        self.root.join("loom-tests/MUTANTS.md")
    }

    fn work(&self) -> PathBuf {
        self.root.join("target/mutants")
    }

    pub(crate) fn mutants(&self) -> Result<Vec<Mutant>, String> {
        Ok(self.scanned()?.into_iter().flat_map(|(_, mutants, _)| mutants).collect())
    }

    /// Returns the name, the mutants and the new text of each file.
    fn scanned(&self) -> Result<Vec<(String, Vec<Mutant>, String)>, String> {
        let mut files = Vec::new();
        for folder in FOLDERS {
            self.sources_under(folder, &mut files)?;
        }
        files.sort();
        let mut number = 0;
        let mut scanned = Vec::new();
        for file in files {
            let text = read(&self.root.join(&file))?;
            let (mutants, text) = scan(file.trim_start_matches("src/"), &text, number);
            number += mutants.len();
            scanned.push((file, mutants, text));
        }
        if number < 50 {
            return Err(format!("only {number} mutants found: is this still how the sources are written?"));
        }
        Ok(scanned)
    }

    /// Adds the Rust files in a folder and its subfolders to `files`.
    fn sources_under(&self, folder: &str, files: &mut Vec<String>) -> Result<(), String> {
        let entries = fs::read_dir(self.root.join(folder)).map_err(|error| format!("{folder}: {error}"))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            let Some(name) = path.file_name() else { continue };
            let name = format!("{folder}/{}", name.to_string_lossy());
            if path.is_dir() {
                self.sources_under(&name, files)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(name);
            }
        }
        Ok(())
    }

    /// Builds the backend's tests with all mutants compiled in, and returns the tests.
    pub(crate) fn build(&self, mutants: &[Mutant], backend: &Backend) -> Result<Vec<Model>, String> {
        let copy = self.work().join("tree");
        copy_folder(
            &self.root,
            &copy,
            &|name| !name.starts_with("target") && !name.starts_with('.'),
            &mut |file, text| {
                let file = file.strip_prefix(&self.root).unwrap_or(file).to_string_lossy().into_owned();
                if FOLDERS.iter().any(|folder| file.starts_with(&format!("{folder}/"))) {
                    return Ok(None);
                }
                Ok(Some(if file == "src/sync.rs" {
                    [text, SWITCH.as_bytes()].concat()
                } else {
                    text.to_owned()
                }))
            },
        )?;
        prune(&copy, &self.root)?;
        let scanned = self.scanned()?;
        if scanned.iter().map(|(_, found, _)| found.len()).sum::<usize>() != mutants.len() {
            return Err("the sources have changed under the tool's hands".into());
        }
        for (file, _, text) in scanned {
            write_if_new(&copy.join(file), text.as_bytes())?;
        }
        self.compile(&copy, backend)
    }

    fn compile(&self, copy: &Path, backend: &Backend) -> Result<Vec<Model>, String> {
        println!("building the tests of {}", backend.name);
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(copy).args(["test", "--release", "--no-run", "--color", "never"]);
        command.args(backend.chosen);
        // The real tree and the copy share a target folder, so that common dependencies are built
        // only once.
        command.arg("--target-dir").arg(self.root.join("target").join(backend.target));
        let cfg = backend.cfg.map(|cfg| format!("\"--cfg\",\"{cfg}\",")).unwrap_or_default();
        command.args(["--config", &format!("build.rustflags=[{cfg}\"--cap-lints\",\"warn\"]")]);
        let output = command.output().map_err(|error| format!("cargo: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(format!("the copy does not build:\n{said}"));
        }
        let programs = said.lines().filter_map(|line| {
            let path = line.trim().strip_prefix("Executable tests/")?.split_once('(')?.1;
            Some(self.root.join(copy.join(path.trim_end_matches(')'))))
        });
        let programs: Vec<PathBuf> = programs.collect();
        for program in &programs {
            // Cargo may mistake a program built from the real tree for a program built from the
            // copy.
            let code = fs::read(program).map_err(|error| format!("{}: {error}", program.display()))?;
            if !code.windows(SWITCHED_BY.len()).any(|bytes| bytes == SWITCHED_BY.as_bytes()) {
                return Err(format!("cannot use {}: it has no mutants, remove it", program.display()));
            }
        }
        let models: Vec<Model> = programs.iter().flat_map(|program| models_of(program, backend)).collect();
        if models.is_empty() {
            return Err(format!("no tests found:\n{said}"));
        }
        Ok(models)
    }

    /// Reads the backend's existing results for the given mutants. Results for other versions of
    /// the sources or tests are ignored.
    pub(crate) fn results(&self, mutants: &[Mutant], backend: &Backend) -> Result<Results, String> {
        let mut hasher = DefaultHasher::new();
        for mutant in mutants {
            mutant.key().hash(&mut hasher);
        }
        for folder in ["src", "loom-tests/src", "loom-tests/tests", "tests/bus/stress"] {
            copy_folder(&self.root.join(folder), &self.root, &|_| true, &mut |file, text| {
                (file, text).hash(&mut hasher);
                Ok(None)
            })?;
        }
        Results::open(&self.work().join(format!("results-{}", backend.name)), hasher.finish())
    }
}

fn models_of(program: &Path, backend: &Backend) -> Vec<Model> {
    let output = Command::new(program).arg("--list").output();
    let names = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let names = names.lines().filter_map(|line| line.strip_suffix(": test"));
    let names = names.filter(|name| name.starts_with(backend.tests));
    names.map(|name| Model { program: program.to_owned(), name: name.to_owned() }).collect()
}

/// The results so far, kept in a file to which a line is appended for each mutant.
pub(crate) struct Results {
    path: PathBuf,
    found: BTreeMap<String, Found>,
}

impl Results {
    fn open(path: &Path, digest: u64) -> Result<Self, String> {
        let head = format!("{digest:x}");
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut found = BTreeMap::new();
        if text.lines().next() == Some(&head) {
            for line in text.lines().skip(1) {
                let mut parts = line.split('\t').map(str::to_owned);
                if let (Some(key), Some(model), Some(how)) = (parts.next(), parts.next(), parts.next()) {
                    let caught = Found::Caught { model, how };
                    found.insert(
                        key,
                        if matches!(&caught, Found::Caught { model, .. } if model.is_empty()) {
                            Found::Survived
                        } else {
                            caught
                        },
                    );
                }
            }
        } else {
            fs::write(path, head + "\n").map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(Self { path: path.to_owned(), found })
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Found> {
        self.found.get(key)
    }

    pub(crate) fn all(&self) -> &BTreeMap<String, Found> {
        &self.found
    }

    pub(crate) fn add(&mut self, key: String, found: &Found) {
        let mut line = key.clone();
        match found {
            Found::Caught { model, how } => write!(line, "\t{model}\t{how}"),
            Found::Survived => write!(line, "\t\t"),
        }
        .expect("a string takes what is written");
        let file = fs::OpenOptions::new().append(true).open(&self.path);
        // If a result cannot be written, a later run determines it again.
        let _ = file.and_then(|mut file| writeln!(file, "{line}"));
        self.found.insert(key, found.clone());
    }
}

type Edit<'e> = dyn FnMut(&Path, &[u8]) -> Result<Option<Vec<u8>>, String> + 'e;

/// Copies a folder. `edit` returns a file's new text, or `None` if the file must not be copied.
fn copy_folder(
    from: &Path,
    to: &Path,
    wanted: &dyn Fn(&str) -> bool,
    edit: &mut Edit<'_>,
) -> Result<(), String> {
    let entries = fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !wanted(&name) {
            continue;
        }
        if path.is_dir() {
            copy_folder(&path, &to.join(name), wanted, edit)?;
        } else {
            let text = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            if let Some(text) = edit(&path, &text)? {
                write_if_new(&to.join(name), &text)?;
            }
        }
    }
    Ok(())
}

/// Removes from the copy the files and folders that no longer exist in the original tree.
fn prune(copy: &Path, tree: &Path) -> Result<(), String> {
    let entries = fs::read_dir(copy).map_err(|error| format!("{}: {error}", copy.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let original = tree.join(path.file_name().unwrap_or_default());
        let pruned = match (path.is_dir(), original.exists()) {
            (true, true) => prune(&path, &original),
            (true, false) => fs::remove_dir_all(&path).map_err(|error| error.to_string()),
            (false, true) => Ok(()),
            (false, false) => fs::remove_file(&path).map_err(|error| error.to_string()),
        };
        pruned?;
    }
    Ok(())
}

/// Writes a file, unless the file already contains the given text, so that Cargo does not recompile
/// unchanged files.
fn write_if_new(path: &Path, text: &[u8]) -> Result<(), String> {
    if fs::read(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let written = fs::create_dir_all(path.parent().unwrap_or(path)).and_then(|()| fs::write(path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
