//! Reads input that is still being written: a file that grows, is truncated or replaced, or a pipe.

use std::fs::{self, File};
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;

use crate::support::file::identity;

/// The maximum number of bytes in a read.
const PART: usize = 64 << 10;

/// The result of a read.
pub(crate) enum Part {
    Bytes(Vec<u8>),
    /// There is nothing to read until more is written.
    Nothing,
    /// The file was truncated or replaced, and is read from its start.
    Restart,
    /// The other end of the pipe was closed.
    End,
}

/// An input that is read without blocking.
pub(crate) enum Source {
    File(Followed),
    Pipe(Receiver<io::Result<Vec<u8>>>),
}

impl Source {
    /// Follows a file. If the path refers to a pipe or a device, it is read until its end instead.
    pub(crate) fn file(path: PathBuf, file: File) -> io::Result<Self> {
        Ok(if file.metadata()?.is_file() {
            Self::File(Followed { path, file, position: 0, is_replaced: false })
        } else {
            Self::pipe(file)
        })
    }

    /// Reads a pipe on a new thread, which blocks while the pipe is empty.
    pub(crate) fn pipe(mut pipe: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = sync_channel(4);
        thread::spawn(move || {
            loop {
                let part = read(&mut pipe);
                let is_last = !matches!(&part, Ok(bytes) if !bytes.is_empty());
                if sender.send(part).is_err() || is_last {
                    return;
                }
            }
        });
        Self::Pipe(receiver)
    }

    /// Reads the next part.
    pub(crate) fn read(&mut self) -> io::Result<Part> {
        match self {
            Self::File(file) => file.read(),
            Self::Pipe(parts) => match parts.try_recv() {
                Ok(part) => part.map(|bytes| if bytes.is_empty() { Part::End } else { Part::Bytes(bytes) }),
                Err(TryRecvError::Empty) => Ok(Part::Nothing),
                Err(TryRecvError::Disconnected) => Ok(Part::End),
            },
        }
    }
}

/// A file that may grow, be truncated, or be replaced by another one.
pub(crate) struct Followed {
    path: PathBuf,
    file: File,
    position: u64,
    /// Whether another file has replaced this one. This file is then read to its end.
    is_replaced: bool,
}

impl Followed {
    fn read(&mut self) -> io::Result<Part> {
        let bytes = read(&mut self.file)?;
        if !bytes.is_empty() {
            self.position += bytes.len() as u64;
            return Ok(Part::Bytes(bytes));
        }
        if self.is_replaced {
            // The new file may have been removed in the meantime.
            let Ok(file) = File::open(&self.path) else { return Ok(Part::Nothing) };
            (self.file, self.position, self.is_replaced) = (file, 0, false);
            return Ok(Part::Restart);
        }
        let found = self.file.metadata()?;
        if found.len() < self.position {
            self.position = self.file.seek(SeekFrom::Start(0))?;
            return Ok(Part::Restart);
        }
        self.is_replaced = fs::metadata(&self.path).is_ok_and(|other| identity(&other) != identity(&found));
        Ok(Part::Nothing)
    }
}

/// Reads a part, which is empty at the end of the input.
pub(crate) fn read(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; PART];
    loop {
        match input.read(&mut bytes) {
            Ok(count) => {
                bytes.truncate(count);
                return Ok(bytes);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
