//! The page's directory, which contains figures.md and the subdirectory figures/ with the data
//! files and the plots.

use std::fs;
use std::path::{Path, PathBuf};

use crate::data::Report;

/// The maximum length of a data file's name, without its extension. File systems allow 255 bytes.
const LONGEST_SLUG: usize = 100;

#[derive(Debug)]
pub(crate) struct Folder {
    out: PathBuf,
}

impl Folder {
    pub(crate) fn new(out: PathBuf) -> Self {
        Self { out }
    }

    fn figures(&self) -> PathBuf {
        self.out.join("figures")
    }

    pub(crate) fn make(&self) -> Result<(), String> {
        let figures = self.figures();
        fs::create_dir_all(&figures).map_err(|error| format!("cannot make {}: {error}", figures.display()))
    }

    /// Returns the path of the page.
    pub(crate) fn page(&self) -> PathBuf {
        self.out.join("figures.md")
    }

    /// Returns the path of the data file for the machine with the given name.
    pub(crate) fn data_file(&self, name: &str) -> Result<PathBuf, String> {
        let slug = slug(name);
        let is_plain = |c: char| c.is_alphanumeric() || " ,.:;()@+-_/".contains(c);
        if slug.is_empty() || slug.len() > LONGEST_SLUG || !name.chars().all(is_plain) {
            return Err(format!(
                "--name must be of letters, digits, spaces and any of ,.:;()@+-_/ and have 1 to {LONGEST_SLUG} letters \
                 or digits of ASCII, got {name:?}"
            ));
        }
        Ok(self.figures().join(format!("{slug}.json")))
    }

    /// Returns the path of a plot.
    pub(crate) fn plot(&self, slug: &str, kind: &str) -> PathBuf {
        self.figures().join(format!("{slug}-{kind}.svg"))
    }

    /// Checks that this machine's results can be saved. The existing data files must be valid, this
    /// machine's data file must not belong to another machine, and the data file and the page must
    /// be writable. Called before the measurements, which take minutes.
    pub(crate) fn check(&self, file: &Path, name: &str) -> Result<(), String> {
        for report in self.reports()? {
            let is_same = file.file_stem().is_some_and(|stem| *stem == *report.slug);
            if is_same && report.machine.name != name {
                return Err(format!(
                    "{} holds {:?}: choose another --name, or remove the file",
                    file.display(),
                    report.machine.name
                ));
            }
        }
        let cannot_write =
            |path: &Path, error: &dyn std::fmt::Display| format!("cannot write {}: {error}", path.display());
        let page = self.page();
        for path in [file, &page] {
            let is_new = !path.exists();
            let open = fs::OpenOptions::new().append(true).create(true).open(path);
            open.map_err(|error| cannot_write(path, &error))?;
            if is_new {
                fs::remove_file(path).map_err(|error| cannot_write(path, &error))?;
            }
        }
        Ok(())
    }

    /// Reads all data files, sorted by name.
    pub(crate) fn read(&self) -> Result<Vec<Report>, String> {
        let reports = self.reports()?;
        if reports.is_empty() {
            return Err(format!(
                "cannot find a data file in {}: `report` makes one",
                self.figures().display()
            ));
        }
        Ok(reports)
    }

    fn reports(&self) -> Result<Vec<Report>, String> {
        let figures = self.figures();
        let cannot_read =
            |path: &Path, error: &dyn std::fmt::Display| format!("cannot read {}: {error}", path.display());
        let entries = fs::read_dir(&figures).map_err(|error| cannot_read(&figures, &error))?;
        let paths: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
        let mut paths = paths.map_err(|error| cannot_read(&figures, &error))?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        let read = |path: &PathBuf| {
            let text = fs::read_to_string(path).map_err(|error| cannot_read(path, &error))?;
            let mut report: Report =
                serde_json::from_str(&text).map_err(|error| cannot_read(path, &error))?;
            report.hide();
            report.slug = path.file_stem().map(|stem| stem.to_string_lossy().into()).unwrap_or_default();
            Ok(report)
        };
        paths.iter().map(read).collect()
    }

    /// Writes a file and prints its path.
    pub(crate) fn write(&self, path: &Path, text: &str) -> Result<(), String> {
        fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        println!("{}", path.strip_prefix(&self.out).unwrap_or(path).display());
        Ok(())
    }
}

/// Reduces a name to characters that are suitable for file names and URLs, which are lower-case
/// letters and digits with single dashes in between.
fn slug(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let slug: String = name.chars().map(plain).collect();
    slug.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}
