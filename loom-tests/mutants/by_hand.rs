//! Mutants that no rule finds. Each replaces one line of the library with other code.

/// One of these mutants.
pub(crate) struct Replacement {
    pub(crate) file: &'static str,
    /// The function with the line, as `Type::function`.
    pub(crate) place: &'static str,
    pub(crate) code: &'static str,
    /// The fault, as the table names it.
    pub(crate) change: &'static str,
    /// The code that replaces the line. `$ON` stands for whether the mutant is on, and `$CODE` for
    /// the original line.
    pub(crate) written: &'static str,
}

pub(crate) const REPLACEMENTS: &[Replacement] = &[
    Replacement {
        file: "bus/state/gate.rs",
        place: "Gate::is_quiet",
        code: "self.cells.iter().all(|cell| cell.word.load(Ordering::Acquire) & !IDLE == CLOSED)",
        change: "ignores publishers inside",
        written: "if $ON { self.cells.iter().all(|cell| cell.word.load(Ordering::Acquire) & CLOSED != 0) } \
                  else { $CODE }",
    },
    Replacement {
        file: "bus/state/gate.rs",
        place: "Gate::is_quiet",
        code: "self.cells.iter().all(|cell| cell.word.load(Ordering::Acquire) & !IDLE == CLOSED)",
        change: "looks at one cell less",
        written: "if $ON { self.cells.iter().skip(self.cells.len() / 2).all(|cell| cell.word.load(Ordering::Acquire) & !IDLE == CLOSED) \
                  } else { $CODE }",
    },
    Replacement {
        file: "bus/state/gate.rs",
        place: "Gate::enter",
        code: "if pass.cell.word.fetch_add(ONE, Ordering::Relaxed) & CLOSED == 0 {",
        change: "lets in after the close",
        written: "if pass.cell.word.fetch_add(ONE, Ordering::Relaxed) & CLOSED == 0 || $ON {",
    },
    Replacement {
        file: "bus/watch/registration.rs",
        place: "Registering::drop",
        code: "sender.close(self.lifecycle);",
        change: "leaves the mailbox unclosed",
        written: "if !$ON { sender.close(self.lifecycle); }",
    },
    Replacement {
        file: "bus/state/registry.rs",
        place: "Registry::take_reapable",
        code: "self.reaping.store(false, Ordering::Relaxed);",
        change: "clears the flag after taking the list",
        written: "if $ON { let taken = std::mem::take(&mut *self.reapable.lock()); \
                  self.reaping.store(false, Ordering::Relaxed); return taken; } \
                  self.reaping.store(false, Ordering::Relaxed);",
    },
    Replacement {
        file: "bus/dispatch/distributor.rs",
        place: "wake_or_drain",
        code: "let slept = sender.state.wake_cell.wake();",
        change: "without the wake-up",
        written: "let slept = if $ON { sender.state.wake_cell.is_armed() } else { sender.state.wake_cell.wake() };",
    },
    Replacement {
        file: "bus/dispatch/dispatcher.rs",
        place: "Dispatcher::work",
        code: "let Some(last) = distributor.take() else { return };",
        change: "does not look again after the quiet",
        written: "let Some(last) = (if $ON { None } else { distributor.take() }) else { return };",
    },
    Replacement {
        file: "bus/dispatch/distributor.rs",
        place: "Distributor::register",
        code: "if !sender.is_offered() {",
        change: "takes in a watcher that has been stopped",
        written: "if !sender.is_offered() && !$ON {",
    },
    Replacement {
        file: "bus/mailbox/sender.rs",
        place: "MailboxSender::is_offered",
        code: "self.gave_up = self.state.has_given_up();",
        change: "takes one that has given up for stopped",
        written: "self.gave_up = !$ON && self.state.has_given_up();",
    },
    Replacement {
        file: "bus/mailbox/receiver.rs",
        place: "MailboxReceiver::retire",
        code: "queued.extend(self.queue.take_all());",
        change: "does not look again after it is gone",
        written: "if !$ON { queued.extend(self.queue.take_all()); }",
    },
    Replacement {
        file: "bus/mailbox/receiver.rs",
        place: "MailboxReceiver::retire",
        code: "let discarded = in_current + events_in(&queued);",
        change: "forgets the current slice",
        written: "let discarded = if $ON { 0 } else { in_current } + events_in(&queued);",
    },
    Replacement {
        file: "bus/mailbox/sender.rs",
        place: "MailboxSender::credit",
        code: "credit as usize",
        change: "one credit too many",
        written: "$CODE + usize::from($ON)",
    },
    Replacement {
        file: "bus/mailbox/sender.rs",
        place: "MailboxSender::credit",
        code: "credit as usize",
        change: "one credit too few",
        written: "($CODE).saturating_sub(usize::from($ON))",
    },
    Replacement {
        file: "bus/mailbox/sender.rs",
        place: "MailboxSender::send",
        code: "self.queue.push(BatchSlice::new(batch, range.start, range.end, self.sent.decided));",
        change: "publishes the count before the queue",
        written: "if $ON { self.sent.decided += events; self.state.publish_sent(&self.sent); self.sent.decided -= events; } \
                  $CODE",
    },
    Replacement {
        file: "bus/mailbox/receiver.rs",
        place: "MailboxReceiver::next",
        code: "if decided > self.expected {",
        change: "looks at the count behind the queue",
        written: "let decided = if $ON { self.state.decided() } else { decided }; $CODE",
    },
    Replacement {
        file: "bus/mailbox/receiver.rs",
        place: "MailboxReceiver::next",
        code: "if let Some(reason) = end {",
        change: "looks at the end behind the queue",
        written: "if let Some(reason) = end.or_else(|| if $ON { self.state.end() } else { None }) {",
    },
    Replacement {
        file: "bus/mailbox/receiver.rs",
        place: "MailboxReceiver::notify",
        code: "if in_current > 0 || self.ended || self.state.decided() > known || self.state.end().is_some() {",
        change: "forgets the borrowed events",
        written: "if in_current > usize::from($ON) * self.borrowed || self.ended || self.state.decided() > known \
                  || self.state.end().is_some() {",
    },
    Replacement {
        file: "bus/dispatch/dispatcher.rs",
        place: "Dispatcher::sleep",
        code: "distributor.carried = distributor.take();",
        change: "does not look again after it is armed",
        written: "distributor.carried = if $ON { None } else { distributor.take() };",
    },
    Replacement {
        file: "bus/dispatch/direct.rs",
        place: "Distributor::offer_waiting",
        code: "let is_all = !is_stuck && events.len() < room;",
        change: "does not tell that something was left",
        written: "let is_all = $ON || !is_stuck && events.len() < room;",
    },
    Replacement {
        file: "bus/dispatch/pull.rs",
        place: "Arc::hand_back",
        code: "self.lifecycle.gate.set_idle();",
        change: "does not set the idle bits",
        written: "if !$ON { self.lifecycle.gate.set_idle(); }",
    },
    Replacement {
        file: "bus/dispatch/pull.rs",
        place: "Arc::hand_back",
        code: "if distributor.incoming.is_empty() && !self.lifecycle.room.is_waited_for() {",
        change: "does not look again before it sleeps",
        written: "if $ON || distributor.incoming.is_empty() && !self.lifecycle.room.is_waited_for() {",
    },
    Replacement {
        file: "bus/dispatch/pull.rs",
        place: "Dispatcher::lend",
        code: "while !distributor.is_needed() {",
        change: "does not look whether it is needed",
        written: "while $ON || !distributor.is_needed() {",
    },
    Replacement {
        file: "bus/dispatch/pull.rs",
        place: "Dispatcher::lend",
        code: "if !lifecycle.is_lent() || !lifecycle.dispatcher.is_armed() {",
        change: "naps on after it was woken",
        written: "if !lifecycle.is_lent() || !$ON && !lifecycle.dispatcher.is_armed() {",
    },
    Replacement {
        file: "bus/state/gate.rs",
        place: "Pass::leave",
        code: "_ => Duty::Wake,",
        change: "delivers directly behind the close",
        written: "_ if $ON => Duty::Deliver, _ => Duty::Wake,",
    },
    Replacement {
        file: "sync/parker.rs",
        place: "Parker::park",
        code: "if !self.take() {",
        change: "does not look again before it sleeps",
        written: "if $ON || !self.take() {",
    },
    Replacement {
        file: "bus/wait/parking.rs",
        place: "Place::wait",
        code: "clock.park(&parker, deadline);",
        change: "looks at its deadline only before it sleeps",
        written: "clock.park(&parker, if $ON { None } else { deadline });",
    },
    Replacement {
        file: "bus/wait/parking.rs",
        place: "Place::drop",
        code: "if !self.queue.cancel(ticket) {",
        change: "hands its turn on twice",
        written: "if !self.queue.cancel(ticket) { if $ON { self.queue.wake(1); }",
    },
];
