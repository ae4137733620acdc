//! Runs a program that draws on the whole terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{Termios, tcgetattr};

use super::running::PATIENCE;
use super::terminal::{open, resize};

/// The end of each frame, which hides the cursor.
const END: &[u8] = b"\x1b[?25l";

/// A text that the test writes after the program has ended.
const LAST: &[u8] = b"<end>";

/// A program on a new terminal.
pub(crate) struct FullScreen {
    /// `None` while the program is being waited for.
    child: Option<Child>,
    /// The end of the terminal that a person would use.
    terminal: File,
    /// The end of the terminal that the program uses. While it is open here too, the terminal loses
    /// no output when the program ends.
    other_end: File,
    /// The terminal's settings before the program started.
    settings: Termios,
    output: Receiver<Vec<u8>>,
    /// The output of a frame that is not complete yet.
    undrawn: Vec<u8>,
    drawn: vt100::Parser,
}

impl FullScreen {
    /// Starts a command on a terminal with this number of rows and columns.
    pub(crate) fn start(command: &Command, rows: u16, columns: u16) -> Self {
        let (screen, terminal) = open(rows, columns);
        let settings = tcgetattr(&screen).expect("a terminal");
        // `setsid` makes the terminal the controlling one, which sends signals to the program.
        let mut started = Command::new("setsid");
        started.arg("--ctty").arg(command.get_program()).args(command.get_args());
        started.env("TERM", "xterm").env_remove("NO_COLOR");
        started.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        started
            .stdin(terminal.try_clone().unwrap())
            .stdout(terminal.try_clone().unwrap())
            .stderr(terminal.try_clone().unwrap());
        let child = Some(started.spawn().expect("the program starts"));
        let [rows, columns] = [rows, columns].map(size);
        let drawn = vt100::Parser::new(rows, columns, 0);
        let mut reader = screen.try_clone().unwrap();
        let (sender, output) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Linux reports a closed terminal as an error.
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, terminal: screen, other_end: terminal, settings, output, undrawn: Vec::new(), drawn }
    }

    /// Waits until the screen shows all of these strings, and returns the text on the screen.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, texts: &[&str]) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let shown = self.shown();
            if texts.iter().all(|text| shown.contains(text)) {
                return shown;
            }
            // The program may draw other frames all the time.
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(self.next_frame(left), "the screen does not show {texts:?}:\n{shown}");
        }
    }

    /// Draws the next frame completely. Returns `false` if the program has not drawn one within
    /// this time.
    fn next_frame(&mut self, time: Duration) -> bool {
        self.draw_until(END, time)
    }

    /// Draws the output up to the end of this mark. Returns `false` if it has not arrived within
    /// this time.
    fn draw_until(&mut self, mark: &[u8], time: Duration) -> bool {
        loop {
            if let Some(at) = self.undrawn.windows(mark.len()).position(|bytes| bytes == mark) {
                let part: Vec<u8> = self.undrawn.drain(..at + mark.len()).collect();
                self.drawn.process(&part);
                return true;
            }
            let Ok(part) = self.output.recv_timeout(time) else { return false };
            self.undrawn.extend(part);
        }
    }

    /// Returns the text on the screen, without the spaces at the ends of the lines.
    fn shown(&self) -> String {
        let text = self.drawn.screen().contents();
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n") + "\n"
    }

    /// Returns the cell in which this text begins on the screen.
    #[track_caller]
    pub(crate) fn cell(&self, text: &str) -> &vt100::Cell {
        let (screen, lines) = (self.drawn.screen(), self.shown());
        let (row, line) = (0..).zip(lines.lines()).find(|(_, line)| line.contains(text)).expect(text);
        let column = line[..line.find(text).expect(text)].chars().count();
        screen.cell(row, column.try_into().expect("a column")).expect("a cell")
    }

    /// Types these keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).expect("the program runs");
    }

    /// Changes the size of the terminal.
    pub(crate) fn resize(&mut self, rows: u16, columns: u16) {
        self.drawn.screen_mut().set_size(size(rows), size(columns));
        resize(&self.terminal, rows, columns);
    }

    fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().expect("the program runs"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the program runs");
    }

    /// Waits until the program has ended. The terminal must then be as before. Returns the exit
    /// code, and the text on the screen.
    #[track_caller]
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let pid = self.pid();
        let mut child = self.child.take().expect("the program runs");
        let (sender, ended) = mpsc::channel();
        thread::spawn(move || sender.send(child.wait().expect("it can be waited for").code()));
        let Ok(code) = ended.recv_timeout(PATIENCE) else {
            let _ = kill_process(pid, Signal::KILL);
            panic!("the program does not end:\n{}", self.shown());
        };
        self.other_end.write_all(LAST).expect("a terminal");
        assert!(self.draw_until(LAST, PATIENCE));
        let (screen, shown) = (self.drawn.screen(), self.shown());
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "{shown}");
        let modes = |settings: &Termios| (settings.input_modes, settings.output_modes, settings.local_modes);
        assert_eq!(modes(&tcgetattr(&self.terminal).expect("a terminal")), modes(&self.settings));
        (code, shown)
    }
}

fn size(cells: u16) -> NonZero<u16> {
    NonZero::new(cells).expect("a size")
}

/// Ends the program if the test fails, so that the program is not left running.
impl Drop for FullScreen {
    fn drop(&mut self) {
        if let Some(child) = self.child.as_mut().filter(|_| thread::panicking()) {
            let _ = child.kill();
        }
    }
}
