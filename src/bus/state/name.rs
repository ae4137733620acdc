//! The name of a watcher.

use std::borrow::Cow;
use std::panic::Location;

/// The name of a watcher. The default name is a place in the program's source, and takes no memory.
pub(crate) enum Name {
    Given(Box<str>),
    Place(&'static Location<'static>),
}

impl Name {
    /// Returns the name as text. At most the last four parts of a place's path are shown, because a
    /// dependency's path begins with the directory in which it was compiled.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Given(name) => Cow::Borrowed(name),
            Self::Place(place) => {
                let file = place.file();
                let start = file.rmatch_indices(['/', '\\']).nth(3).map_or(0, |(slash, _)| slash + 1);
                Cow::Owned(format!("{}:{}", &file[start..], place.line()))
            }
        }
    }
}
