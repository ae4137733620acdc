//! Reads new lines into the state.

use std::io;
use std::time::{Duration, Instant};

use super::lines::Lines;
use super::source::{Part, Source};
use super::state::State;

/// The maximum time for which lines are read before the keys are checked.
const TURN: Duration = Duration::from_millis(50);

/// An input, and the state according to the lines that have been read.
pub(crate) struct Feed {
    source: Source,
    lines: Lines,
    start: Instant,
    /// Whether the lines that were in a file at the start have been read. They were written at
    /// unknown times.
    is_live: bool,
    pub(crate) state: State,
    /// When the last line that is part of the state arrived.
    pub(crate) newest: Option<Instant>,
    pub(crate) is_at_end: bool,
}

/// The result of a turn.
pub(crate) struct Turn {
    /// Whether anything was read.
    pub(crate) has_read: bool,
    /// Whether there may be more to read now.
    pub(crate) is_behind: bool,
}

impl Feed {
    pub(crate) fn new(source: Source, state: State) -> Self {
        let is_live = matches!(source, Source::Pipe(_));
        let (lines, start) = (Lines::default(), Instant::now());
        Self { source, lines, start, is_live, state, newest: None, is_at_end: false }
    }

    /// Reads new lines, but only for a limited time.
    pub(crate) fn read(&mut self) -> io::Result<Turn> {
        let turn = Instant::now();
        let mut has_read = false;
        while !self.is_at_end && turn.elapsed() < TURN {
            let arrived = self.is_live.then(|| self.start.elapsed().as_secs_f64());
            let (read, state) = (self.state.counts.read, &mut self.state);
            match self.source.read()? {
                Part::Bytes(bytes) => self.lines.push(&bytes, |line| state.add(line, arrived)),
                Part::Restart => self.lines.finish(|line| state.add(line, arrived)),
                Part::End => {
                    self.lines.finish(|line| state.add(line, arrived));
                    self.is_at_end = true;
                }
                Part::Nothing => {
                    self.is_live = true;
                    return Ok(Turn { has_read, is_behind: false });
                }
            }
            has_read = true;
            if self.state.counts.read > read {
                self.newest = Some(Instant::now());
            }
        }
        Ok(Turn { has_read, is_behind: !self.is_at_end })
    }
}
