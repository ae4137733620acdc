//! The two kinds of bus. Test cases that concern the bus itself run on both kinds.

use std::panic::catch_unwind;

use eventcast::BusOptions;
use test_support::watched;

/// A kind of bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The bus has a thread that offers the events.
    Dispatcher,
    /// Each publish call offers its own event.
    Inline,
}

impl Kind {
    /// Returns the default options of a bus of this kind.
    pub(crate) fn options(self) -> BusOptions {
        BusOptions::default().inline(self == Self::Inline)
    }
}

/// Runs a case on each kind of bus. A failure message names the kind, and a case that hangs fails.
#[track_caller]
pub(crate) fn on_both_kinds(case: fn(Kind)) {
    for kind in [Kind::Dispatcher, Kind::Inline] {
        let outcome = catch_unwind(|| watched(move || case(kind)));
        assert!(outcome.is_ok(), "the case fails on a bus of kind {kind:?}");
    }
}
