//! Sources of events, which are files and stdin.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::bad_input::BadInput;
use crate::support::text::quoted;

/// A file or stdin.
#[derive(Debug)]
pub(crate) enum Source {
    Stdin,
    File(PathBuf),
}

impl Source {
    /// Returns the file, or stdin if the file name is `-` or missing. `command` is the subcommand's
    /// name for the error message.
    pub(crate) fn of(file: Option<PathBuf>, command: &str) -> Result<Self, BadInput> {
        Self::beside(file, command, io::stdin().is_terminal())
    }

    fn beside(file: Option<PathBuf>, command: &str, stdin_is_terminal: bool) -> Result<Self, BadInput> {
        match file {
            Some(path) if path.as_os_str() == "-" => Ok(Self::Stdin),
            Some(path) => Ok(Self::File(path)),
            None if stdin_is_terminal => Err(BadInput(format!(
                "cannot read events from a terminal: name a file, or run `kubectl get events -A -o json | \
                 eventcast {command} -`"
            ))),
            None => Ok(Self::Stdin),
        }
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Stdin => None,
            Self::File(path) => Some(path),
        }
    }

    /// Returns the name to show in messages.
    pub(crate) fn name(&self) -> String {
        self.path().map_or_else(|| "stdin".to_owned(), |path| quoted(&path.to_string_lossy()))
    }

    /// Opens the source. Once the flag is set, reads return end-of-file.
    pub(crate) fn open(&self, is_over: Arc<AtomicBool>) -> Result<Box<dyn BufRead>, BadInput> {
        let input: Box<dyn Read> = match self {
            Self::Stdin => Box::new(io::stdin().lock()),
            Self::File(path) => Box::new(
                File::open(path)
                    .map_err(|error| BadInput(format!("cannot open {}: {error}", self.name())))?,
            ),
        };
        Ok(Box::new(BufReader::with_capacity(64 << 10, UntilSignal { input, is_over })))
    }
}

/// A reader that returns end-of-file once a signal has set the flag.
struct UntilSignal {
    input: Box<dyn Read>,
    is_over: Arc<AtomicBool>,
}

impl Read for UntilSignal {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_over.load(Ordering::Relaxed) { Ok(0) } else { self.input.read(buffer) }
    }
}

#[cfg(test)]
mod tests {
    use super::Source;
    use std::path::{Path, PathBuf};

    #[test]
    fn events_are_not_read_from_a_terminal() {
        let of =
            |file: Option<&str>, is_terminal| Source::beside(file.map(PathBuf::from), "replay", is_terminal);
        let error = of(None, true).unwrap_err();
        assert!(error.to_string().starts_with("cannot read events from a terminal: name a file"), "{error}");
        assert!(matches!(of(None, false), Ok(Source::Stdin)));
        assert!(matches!(of(Some("-"), true), Ok(Source::Stdin)));
        assert_eq!(of(Some("events.json"), true).unwrap().path(), Some(Path::new("events.json")));
    }
}
