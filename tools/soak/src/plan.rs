//! The plan for one watcher in the soak test, which determines the watcher's options, how the
//! watcher is read, and how it ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use eventcast::{Broadcaster, OverflowPolicy, WatchBuilder};

use super::checker::Checker;
use super::dice::Dice;
use super::ledger::{Ledger, get};
use super::tick::{CLASSES, Mood, ON_PURPOSE, Tick};

/// The maximum lengths of a queue and a prefix, in events.
pub(crate) const QUEUE: u64 = 256;
pub(crate) const PREFIX: u64 = 6;

/// How a watcher ends when it has seen enough events.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Leave {
    /// The watcher is stopped and then read to the end.
    Stop,
    Drop,
    /// The watcher is dropped by a panic.
    Panic,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    policy: OverflowPolicy,
    queue: u64,
    name: Option<String>,
    class: Option<usize>,
    /// The number of the filter call that panics, counted from 1.
    filter_panics: Option<u64>,
    /// One in this number of hook calls panics.
    hook_panics: Option<u64>,
    prefix: u64,
    prefix_panics: bool,
    pub(crate) stop_on_panic: bool,
    /// The number of the handler call that panics, counted from 1.
    pub(crate) handler_panics: Option<u64>,
    /// The number of events that the watcher wants to see.
    pub(crate) enough: u64,
    pub(crate) leave: Leave,
    /// On average, one in this number of events is followed by a short sleep.
    pub(crate) nap: u64,
}

impl Plan {
    pub(crate) fn new(dice: &mut Dice) -> Self {
        let now_and_then = |dice: &mut Dice, once_in| dice.once_in(once_in).then(|| 1 + dice.roll(300));
        Self {
            policy: match dice.roll(5) {
                0 => OverflowPolicy::DropIncoming,
                1 => OverflowPolicy::DropOldest,
                2 => OverflowPolicy::Wait,
                3 => OverflowPolicy::Evict,
                _ => OverflowPolicy::WaitFor(dice.micros(500)),
            },
            queue: 1 + dice.roll(QUEUE),
            name: dice.once_in(2).then(|| format!("guest-{}", dice.roll(8))),
            class: dice.once_in(3).then(|| dice.roll(CLASSES as u64) as usize),
            filter_panics: now_and_then(dice, 12),
            hook_panics: now_and_then(dice, 8),
            prefix: dice.roll(PREFIX),
            prefix_panics: dice.once_in(40),
            stop_on_panic: dice.once_in(2),
            handler_panics: now_and_then(dice, 3),
            enough: 1 + dice.roll(3000),
            leave: match dice.roll(3) {
                0 => Leave::Drop,
                1 => Leave::Panic,
                _ => Leave::Stop,
            },
            nap: 1 << (4 + dice.roll(12)),
        }
    }

    /// Returns the watcher's builder and checker, or `None` if the prefix panics.
    pub(crate) fn build<'b>(
        &self,
        bus: &'b Broadcaster<Tick>,
        ledger: &Arc<Ledger>,
        who: &str,
    ) -> Option<(WatchBuilder<'b, Tick>, Checker)> {
        let mut builder = bus
            .watch_builder()
            .queue_capacity(self.queue as usize)
            .overflow(self.policy)
            .stop_on_panic(self.stop_on_panic);
        if let Some(name) = &self.name {
            builder = builder.name(name);
        }
        let (class, panics, mut calls) = (self.class, self.filter_panics, 0);
        if class.is_some() || panics.is_some() {
            builder = builder.filter(move |tick: &Tick| {
                calls += 1;
                assert!(panics != Some(calls), "{ON_PURPOSE}: filter");
                class.is_none_or(|class| class == tick.class)
            });
        }
        if let Some(panics) = self.hook_panics {
            let mut calls = 0;
            builder = builder.on_drop(move |_, lost| {
                calls += 1;
                assert!(!lost.is_empty() && calls % panics != 0, "{ON_PURPOSE}: hook");
            });
        }
        let (length, panics) = (self.prefix, self.prefix_panics);
        let prefix = (0..length).map(|number| {
            assert!(!panics || number + 1 < length, "{ON_PURPOSE}: prefix");
            Tick::new(None, number, 0, Mood::Calm)
        });
        let builder = catch_unwind(AssertUnwindSafe(|| builder.prefix(prefix))).ok()?;
        let name = self.name.as_deref().unwrap_or("a guest");
        let name = format!("{who} as {name} ({}, queue of {})", self.policy, self.queue);
        Some((builder, Checker::new(ledger, &name, class, get(&ledger.accepted), length)))
    }

    /// Decides at random whether to sleep now. Returns the duration of the sleep, if any.
    pub(crate) fn nap(&self, dice: &mut Dice) -> Option<Duration> {
        dice.once_in(self.nap).then(|| dice.micros(400))
    }
}
