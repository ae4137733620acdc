//! The limits that apply to a document. The limits are checked before memory is allocated.

/// The maximum length of a document, in bytes. An object stored in a cluster is much smaller,
/// because by default etcd accepts requests of up to 1.5 MiB. However, an envelope can contain a
/// whole list of objects.
pub(super) const MAX_DOCUMENT: usize = 16 << 20;
/// The maximum length of a string, measured in input bytes.
pub(super) const MAX_STRING: usize = 4 << 20;
/// The maximum number of values in a document. An event has about fifty values, and a parsed value
/// can occupy a hundred times as much memory as its JSON.
pub(super) const MAX_VALUES: usize = 1_000_000;
/// The maximum nesting depth of documents and of lists. The parser's own limit is 128.
pub(super) const MAX_DEPTH: usize = 100;
