//! The limits for a document. They are checked before memory is allocated.

/// The maximum length of a document, in bytes. An object in a cluster is much smaller, because etcd
/// accepts requests of up to 1.5 MiB by default. However, an envelope can contain a whole list.
pub(super) const MAX_DOCUMENT: usize = 16 << 20;
/// The maximum length of a string, in bytes of the input.
pub(super) const MAX_STRING: usize = 4 << 20;
/// The maximum number of values in a document. An event has about fifty values, and a parsed value
/// can take a hundred times as much memory as its JSON.
pub(super) const MAX_VALUES: usize = 1_000_000;
/// The maximum nesting depth of a document, and of lists. The parser's own limit is 128.
pub(super) const MAX_DEPTH: usize = 100;
