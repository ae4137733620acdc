//! Parses commands into programs with arguments, and assigns the names by which events refer to the
//! commands.

use std::path::{Path, PathBuf};
use std::{fs, io};

use eventcast::escape::needs_escape;

use crate::support::text::quoted;

/// The maximum length of an object name, in characters. The limit keeps event names valid and
/// tables readable.
const MAX_NAME_CHARS: usize = 48;

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    /// The command as the user wrote it. The text is shown only on request, because arguments may
    /// contain secrets.
    pub(crate) text: String,
    /// The variables to add to the environment. If a name occurs several times, the last value is
    /// used.
    pub(crate) env: Vec<(String, String)>,
    /// The directory to run in, or `None` for this process's current directory.
    pub(crate) dir: Option<PathBuf>,
}

/// A command under supervision, and the name by which events refer to it.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    /// The index of the command on the command line, starting at 0.
    pub(crate) index: usize,
    /// The program's file name, with unsafe characters replaced. The name is unique among all
    /// processes.
    pub(crate) name: String,
    pub(crate) command: Command,
}

impl Command {
    /// Splits `text` into words like a shell, but without running a shell. Quotes and backslashes
    /// have their special meaning, but `$` and `*` do not.
    pub(crate) fn split(text: &str) -> Result<Self, String> {
        if text.contains('\0') {
            return Err(format!("the command {} contains a NUL character: remove it", quoted(text)));
        }
        let words = shlex::split(text).ok_or_else(|| {
            let problem = match text.strip_suffix('\\') {
                Some(rest) if shlex::split(rest).is_some() => "ends with a backslash: remove it or double it",
                _ => "has an unclosed quote: close it or escape it with a backslash",
            };
            format!("the command {} {problem}", quoted(text))
        })?;
        let mut words = words.into_iter();
        match words.next() {
            None => Err(format!("the command {} is empty: name a program to run", quoted(text))),
            Some(program) if program.is_empty() => {
                Err(format!("the command {} begins with an empty word: name a program to run", quoted(text)))
            }
            Some(program) => Ok(Self::new(program, words.collect(), text)),
        }
    }

    /// Creates a command that passes `text` to `sh -c`.
    pub(crate) fn shell(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err(format!("the command {} is empty: name a program to run", quoted(text)));
        }
        Ok(Self::new("sh".to_owned(), vec!["-c".to_owned(), text.to_owned()], text))
    }

    fn new(program: String, args: Vec<String>, text: &str) -> Self {
        Self { program, args, text: text.to_owned(), env: Vec::new(), dir: None }
    }
}

/// Returns an error if commands cannot run in this directory.
pub(crate) fn check_folder(dir: &Path) -> io::Result<()> {
    // Looking up the dot fails if the path is not a directory or if the directory may not be
    // entered.
    fs::metadata(dir.join(".")).map(|_| ())
}

/// Assigns a name to each command. For example, two commands that run the program `sleep` are named
/// `sleep` and `sleep-2`.
pub(crate) fn name_all(commands: Vec<Command>) -> Vec<Process> {
    let mut processes: Vec<Process> = Vec::with_capacity(commands.len());
    for (index, command) in commands.into_iter().enumerate() {
        let base = safe_name(&command.program);
        let mut name = base.clone();
        let mut number = 2;
        while processes.iter().any(|other| other.name == name) {
            name = format!("{base}-{number}");
            number += 1;
        }
        processes.push(Process { index, name, command });
    }
    processes
}

/// Returns the file name of a program, with unsafe characters replaced so that the name can be
/// printed and used in paths.
fn safe_name(program: &str) -> String {
    let file = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or("process");
    file.chars()
        .take(MAX_NAME_CHARS)
        // Some letters are invisible, such as the Hangul fillers.
        .map(|c| {
            let is_plain = c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '+' | '@');
            if is_plain && !needs_escape(c) { c } else { '_' }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Command, name_all, safe_name};

    fn names(texts: &[&str]) -> Vec<String> {
        let commands = texts.iter().map(|text| Command::split(text).unwrap()).collect();
        name_all(commands).into_iter().map(|process| process.name).collect()
    }

    #[test]
    fn splits_as_a_shell_would() {
        let command = Command::split(r#"/bin/echo 'a b' "c'd" e\ f $HOME *"#).unwrap();
        assert_eq!(command.program, "/bin/echo");
        assert_eq!(command.args, ["a b", "c'd", "e f", "$HOME", "*"]);
    }

    #[test]
    fn a_shell_gets_the_text_untouched() {
        let command = Command::shell("echo $HOME; exit 3").unwrap();
        assert_eq!((command.program.as_str(), command.args[1].as_str()), ("sh", "echo $HOME; exit 3"));
    }

    #[test]
    fn errors_explain_invalid_commands() {
        for (text, part) in [
            ("", "the command '' is empty"),
            ("   ", "is empty"),
            ("# all comment", "is empty"),
            ("'' x", "begins with an empty word"),
            ("echo 'open", "an unclosed quote"),
            ("echo \\", "ends with a backslash"),
            ("echo\0", r"contains a NUL character"),
        ] {
            let error = Command::split(text).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
        assert!(Command::shell(" ").unwrap_err().contains("is empty"));
    }

    #[test]
    fn names_are_file_names_and_distinct() {
        assert_eq!(
            names(&["sleep 1", "/usr/bin/sleep 2", "echo", "sleep 3"]),
            ["sleep", "sleep-2", "echo", "sleep-3"]
        );
        assert_eq!(names(&["x", "x-2", "x"]), ["x", "x-2", "x-3"]);
    }

    #[test]
    fn names_are_safe_to_show() {
        assert_eq!(safe_name("ev\u{1b}[31mil\r"), "ev__31mil_");
        assert_eq!(safe_name("a\u{202e}b c"), "a_b_c");
        assert_eq!(safe_name("pod-\u{200b}\u{3164}0"), "pod-__0");
        assert_eq!(safe_name("/opt/起動"), "起動");
        assert_eq!(safe_name("/"), "process");
        assert_eq!(safe_name(".."), "process");
        assert_eq!(safe_name(&"x".repeat(500)).len(), 48);
    }
}
