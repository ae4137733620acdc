//! The verbs of the API.

/// An operation on an event, or a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Create,
    Update,
    Patch,
    /// The query that finds out whether the server has events.k8s.io/v1.
    Discover,
}
