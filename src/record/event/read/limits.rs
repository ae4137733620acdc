//! The limits of a document, which are checked before memory is taken.

/// The longest document, in bytes. etcd takes requests of 1.5 MiB by default, and an API server
/// takes 3 MiB, so this is room for a list in a list.
pub(super) const MAX_DOCUMENT: usize = 16 << 20;
/// The longest string of a document, in bytes as written.
pub(super) const MAX_STRING: usize = 4 << 20;
/// The deepest document, and the deepest list of lists. The parser's own limit is 128.
pub(super) const MAX_DEPTH: usize = 100;
