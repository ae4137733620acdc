//! The watchers of a round, and what the round knows about a watcher and about a publisher at the
//! end.

use std::panic::panic_any;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use eventcast::{Broadcaster, OverflowPolicy, WatchBuilder, WatchHandle, Watcher};
use test_support::Rng;

use super::event::{Ident, Item, Payload};
use super::running::Running;

pub(crate) const FOREVER: Duration = Duration::MAX;

/// The numbers of the events that a watcher is offered. These are all events, or all events except
/// every n-th.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted(pub(crate) Option<u32>);

impl Wanted {
    pub(crate) fn has(self, ident: Ident) -> bool {
        self.0.is_none_or(|n| ident.number % n != 0)
    }
}

/// How a watcher was created, and between which events of the registering publisher.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    pub(crate) policy: OverflowPolicy,
    pub(crate) queue_capacity: u64,
    pub(crate) wanted: Wanted,
    /// The publisher that registered the watcher, and the number of that publisher's events
    /// accepted before the registration. `None` if the watcher was registered before the first
    /// publish.
    pub(crate) by: Option<(u32, usize)>,
    /// Whether the watcher may end before the bus because its filter panics once, its policy evicts
    /// it, or a thread stops it.
    pub(crate) ends_itself: bool,
}

/// A reader that has ended.
pub(crate) struct Read {
    pub(crate) made: Made,
    pub(crate) log: Vec<Item>,
    /// The watcher, if the reader has read to the end of the bus. `None` if the reader left before
    /// that, or if the watcher itself ended.
    pub(crate) kept: Option<Watcher<Payload>>,
}

pub(crate) struct Handled {
    pub(crate) made: Made,
    pub(crate) handle: WatchHandle,
    pub(crate) log: Arc<Mutex<Vec<Item>>>,
    pub(crate) position: Arc<AtomicU64>,
    pub(crate) thrown: Arc<AtomicU64>,
    pub(crate) was_stopped: bool,
}

/// The counts that a publisher kept itself.
#[derive(Default)]
pub(crate) struct Published {
    pub(crate) accepted: Vec<Ident>,
    pub(crate) full: u64,
    pub(crate) stopped: u64,
    pub(crate) readers: Vec<Running<Read>>,
    /// The flushes that succeeded: for each one, the number of this publisher's events accepted
    /// before the flush, and the position that each handler had reached after it.
    pub(crate) flushes: Vec<(usize, Vec<u64>)>,
}

impl Published {
    pub(crate) fn refused(&mut self, is_full: bool, events: u64) {
        *(if is_full { &mut self.full } else { &mut self.stopped }) += events;
    }
}

pub(crate) fn random_watcher<'b>(
    bus: &'b Broadcaster<Payload>,
    rng: &mut Rng,
    by: Option<(u32, usize)>,
    lossless: bool,
) -> (WatchBuilder<'b, Payload>, Made) {
    let policy = if lossless {
        OverflowPolicy::Wait
    } else {
        rng.pick(&[
            OverflowPolicy::DropIncoming,
            OverflowPolicy::DropOldest,
            OverflowPolicy::Evict,
            OverflowPolicy::Wait,
            OverflowPolicy::WaitFor(Duration::ZERO),
            OverflowPolicy::WaitFor(Duration::from_micros(50)),
            OverflowPolicy::WaitFor(FOREVER),
        ])
    };
    let queue_capacity = rng.pick(&[1, 1, 2, 3, 5, 8, 16, 64]);
    let wanted = Wanted(if rng.once_in(3) { Some(rng.pick(&[1, 2, 3, 7])) } else { None });
    let bomb = (!lossless && rng.once_in(10)).then(|| rng.below(60));
    let ends_itself = bomb.is_some() || policy == OverflowPolicy::Evict;
    let mut seen = 0;
    let mut builder = bus.watch_builder().queue_capacity(queue_capacity).overflow(policy);
    if wanted.0.is_some() || bomb.is_some() {
        builder = builder.filter(move |event: &Payload| {
            event.noise(3);
            seen += 1;
            if bomb.is_some_and(|at| seen > at) {
                panic_any(event.ident);
            }
            wanted.has(event.ident)
        });
    }
    if rng.once_in(4) {
        let panics = rng.once_in(2);
        builder = builder.on_drop(move |_, events| {
            assert!(!events.is_empty());
            if panics {
                panic_any(events[0].ident);
            }
        });
    }
    (builder, Made { policy, queue_capacity: queue_capacity as u64, wanted, by, ends_itself })
}
