//! Breakages that no rule finds: each is one line of the library, and what stands there instead.

/// One of them.
pub(crate) struct Replacement {
    pub(crate) file: &'static str,
    /// `Type::function`.
    pub(crate) place: &'static str,
    pub(crate) code: &'static str,
    /// The fault, in the words of the table.
    pub(crate) change: &'static str,
    /// The code that replaces the line. `$ON` says whether the mutant is on, `$CODE` is the original line.
    pub(crate) written: &'static str,
}

pub(crate) const REPLACEMENTS: &[Replacement] = &[
    Replacement {
        file: "bus/gate.rs",
        place: "Gate::is_quiet",
        code: "self.cells.iter().all(|cell| cell.word.load(Ordering::Acquire) & !IDLE == CLOSED)",
        change: "ignores publishers inside",
        written: "if $ON { self.cells.iter().all(|cell| cell.word.load(Ordering::Acquire) & CLOSED != 0) } \
                  else { $CODE }",
    },
    Replacement {
        file: "bus/gate.rs",
        place: "Gate::is_quiet",
        code: "self.cells.iter().all(|cell| cell.word.load(Ordering::Acquire) & !IDLE == CLOSED)",
        change: "looks at one cell less",
        written: "if $ON { self.cells.iter().skip(self.cells.len() / 2).all(|cell| cell.word.load(Ordering::Acquire) & !IDLE == CLOSED) \
                  } else { $CODE }",
    },
    Replacement {
        file: "bus/gate.rs",
        place: "Gate::enter",
        code: "if pass.cell.word.fetch_add(ONE, Ordering::Relaxed) & CLOSED == 0 {",
        change: "lets in after the close",
        written: "if pass.cell.word.fetch_add(ONE, Ordering::Relaxed) & CLOSED == 0 || $ON {",
    },
    Replacement {
        file: "bus/publisher.rs",
        place: "Held::drop",
        code: "dispatcher::close(self.hub, *outbox);",
        change: "leaves the outbox unclosed",
        written: "if !$ON { dispatcher::close(self.hub, *outbox); }",
    },
    Replacement {
        file: "bus/hub.rs",
        place: "Hub::take_reapable",
        code: "self.reaping.store(false, Ordering::Relaxed);",
        change: "clears the flag after taking the list",
        written: "if $ON { let taken = std::mem::take(&mut *self.reapable.lock()); \
                  self.reaping.store(false, Ordering::Relaxed); return taken; } \
                  self.reaping.store(false, Ordering::Relaxed);",
    },
    Replacement {
        file: "bus/dispatcher.rs",
        place: "Dispatcher::next_entry",
        code: "return self.incoming.try_recv();",
        change: "does not look again after the quiet",
        written: "return if $ON { None } else { self.incoming.try_recv() };",
    },
    Replacement {
        file: "bus/dispatcher.rs",
        place: "Dispatcher::register",
        code: "if outbox.core.is_stopped() {",
        change: "takes in a watcher that has been stopped",
        written: "if outbox.core.is_stopped() && !$ON {",
    },
    Replacement {
        file: "bus/inbox.rs",
        place: "Inbox::retire",
        code: "queued.extend(self.queue.take_all());",
        change: "does not look again after it is gone",
        written: "if !$ON { queued.extend(self.queue.take_all()); }",
    },
    Replacement {
        file: "bus/inbox.rs",
        place: "Inbox::retire",
        code: "let discarded = in_hand + events_in(&queued);",
        change: "forgets what is in hand",
        written: "let discarded = if $ON { 0 } else { in_hand } + events_in(&queued);",
    },
];
