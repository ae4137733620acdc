//! The two kinds of bus. A case whose subject is the bus runs on both.

use std::panic::catch_unwind;

use eventcast::BusOptions;
use test_support::watched;

/// A kind of bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A thread of the bus offers the events.
    Dispatcher,
    /// Each publish offers its own event.
    Inline,
}

impl Kind {
    /// Returns the default options of a bus of this kind.
    pub(crate) fn options(self) -> BusOptions {
        BusOptions::default().inline(self == Self::Inline)
    }
}

/// Runs a case on a bus of each kind. A failure names the kind, and a case that hangs fails.
#[track_caller]
pub(crate) fn on_both_kinds(case: fn(Kind)) {
    for kind in [Kind::Dispatcher, Kind::Inline] {
        let outcome = catch_unwind(|| watched(move || case(kind)));
        assert!(outcome.is_ok(), "the case fails on a bus of the kind {kind:?}");
    }
}
