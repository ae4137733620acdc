//! Splits input that is still being written into lines, with a bound on the memory.

/// The maximum length of a line, in bytes. A thousand watchers need about 400 KB.
pub(crate) const MAX_LINE: usize = 16 << 20;

/// A line without its newline, or `None` if the line exceeds [`MAX_LINE`].
pub(crate) type Piece<'a> = Option<&'a [u8]>;

/// Splits the input into lines. The end of the input may be a line that is not complete yet.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    partial: Vec<u8>,
    /// Whether the current line has exceeded the maximum length.
    is_too_long: bool,
}

impl Lines {
    /// Adds bytes of the input, and calls `each` with each line that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Piece<'_>)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (piece, is_whole) = piece.strip_suffix(b"\n").map_or((piece, false), |piece| (piece, true));
            self.is_too_long |= self.partial.len() + piece.len() > MAX_LINE;
            if self.is_too_long {
                self.partial = Vec::new();
            } else {
                self.partial.extend_from_slice(piece);
            }
            if is_whole {
                self.end(&mut each);
            }
        }
    }

    /// Ends the line at the end of the input, if there is one, although it has no newline.
    pub(crate) fn finish(&mut self, each: impl FnMut(Piece<'_>)) {
        if self.is_too_long || !self.partial.is_empty() {
            self.end(each);
        }
    }

    fn end(&mut self, mut each: impl FnMut(Piece<'_>)) {
        each((!self.is_too_long).then_some(&*self.partial));
        self.partial.clear();
        self.is_too_long = false;
    }
}

#[cfg(test)]
mod tests {
    use super::{Lines, MAX_LINE};

    /// Splits the parts, and returns each line as text. A line that is too long is `-`.
    fn split(parts: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        let mut add =
            |line: Option<&[u8]>| found.push(line.map_or("-".into(), |l| String::from_utf8_lossy(l).into()));
        for part in parts {
            lines.push(part, &mut add);
        }
        lines.finish(add);
        found
    }

    #[test]
    fn a_line_may_arrive_in_parts() {
        assert_eq!(split(&[b"a\nb", b"", b"c", b"\n\nd"]), ["a", "bc", "", "d"]);
        assert_eq!(split(&[b"a\n"]), ["a"]);
        assert!(split(&[b""]).is_empty());
    }

    #[test]
    fn a_line_that_is_too_long_does_not_affect_the_next_one() {
        let most = vec![b'x'; MAX_LINE];
        let whole = split(&[b"a\n", &most, b"\n", b"b\n"]);
        assert_eq!((whole.len(), whole[1].len(), &*whole[2]), (3, MAX_LINE, "b"));
        assert_eq!(split(&[b"a\n", &most, b"x", b"x\nb\n"]), ["a", "-", "b"]);
        assert_eq!(split(&[&most, &most]), ["-"]);
        let mut lines = Lines::default();
        lines.push(&most, |_| ());
        lines.push(&most, |_| ());
        assert_eq!(lines.partial.capacity(), 0);
    }
}
