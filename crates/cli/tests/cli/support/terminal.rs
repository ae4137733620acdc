//! Runs the program with a terminal as its stdout.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The results of a program that has exited.
pub(crate) struct Shown {
    pub(crate) code: Option<i32>,
    /// The text on the terminal.
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Opens a terminal of this size. Returns the end that a person would use, and the end that a
/// program uses.
pub(crate) fn open(rows: u16, columns: u16) -> (File, File) {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&screen).and_then(|()| unlockpt(&screen)).expect("our own terminal");
    let screen = File::from(screen);
    resize(&screen, rows, columns);
    let path = ptsname(&screen, Vec::new()).expect("it has a name");
    let terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .open(OsStr::from_bytes(path.as_bytes()))
        .expect("it is there");
    (screen, terminal)
}

/// Sets the size of a terminal.
pub(crate) fn resize(screen: &File, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(screen, size).expect("a terminal");
}

/// Runs a command to completion, with a terminal of the given width as its stdout.
pub(crate) fn run_on_terminal(mut command: Command, columns: u16) -> Shown {
    let (mut screen, terminal) = open(24, columns);
    let child = command.stdin(Stdio::null()).stdout(terminal).stderr(Stdio::piped()).spawn();
    let child = child.expect("the program starts");
    // The command keeps the terminal open. Once the command has been dropped, the terminal is
    // closed when the program exits.
    drop(command);
    let mut shown = Vec::new();
    let mut buffer = [0; 4096];
    // Linux reports a closed terminal as an error.
    while let Ok(1..) = screen.read(&mut buffer).inspect(|count| shown.extend_from_slice(&buffer[..*count])) {
    }
    let output = child.wait_with_output().expect("it can be waited for");
    Shown {
        code: output.status.code(),
        stdout: String::from_utf8(shown).expect("UTF-8").replace("\r\n", "\n"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}
