//! The verbs of the API.

/// An operation on an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Create,
    Update,
    Patch,
}
