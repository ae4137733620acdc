//! The verbs of the API.

/// What is done to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Create,
    Update,
    Patch,
}
