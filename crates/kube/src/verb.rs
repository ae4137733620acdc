//! The verbs of the API.

/// An operation on an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Create,
    Update,
    Patch,
}
