//! Determines a terminal's width.

/// Returns the width of a stream's terminal, in columns. Returns `None` if the stream is not a
/// terminal or the terminal does not report its width.
#[cfg(unix)]
pub(crate) fn width(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then(|| size.ws_col.into())
}

#[cfg(windows)]
pub(crate) fn width(stream: impl std::os::windows::io::AsHandle) -> Option<usize> {
    terminal_size::terminal_size_of(stream).map(|(columns, _)| columns.0.into())
}
