//! The bus: how an event gets from a publisher to the watchers.
//!
//! ```text
//! Publisher ─ gate ─> incoming ─> Dispatcher ─┬─ Outbox ─> Queue ─> Inbox ─ Watcher
//!  (any threads)      (crossbeam)  (one thread) ├─ Outbox ─> Queue ─> Inbox ─ Runner (a handler)
//!                                             └─ ...
//! ```
//!
//! # Roles
//!
//! * A **publisher** enters the gate, pushes one entry into the incoming queue, leaves, and wakes the dispatcher if that
//!   was about to sleep. It takes no lock and meets nobody else. Registrations and flushes take the same way, so they
//!   have a place in the one order of events.
//! * The **dispatcher** takes what waits, up to a batch or a control entry; freezes it into one shared allocation; offers
//!   it to every watcher without waiting; fences once; wakes who sleeps; and only then waits, for those watchers that
//!   must be waited for. One queue operation per watcher and batch, none per event.
//! * A **reader** takes slices of batches out of its queue, reads them in place, and gives room back by a plain store of
//!   `consumed`. If it is one that may be waited for, it fences and tells the dispatcher whether that waits for room.
//!
//! # Invariants
//!
//! 1. Nobody blocks in a queue: every wait is the one protocol of `sleeper.rs`, which the models see.
//! 2. Each counter has one writer. What the dispatcher counts, it publishes in `Core::publish_sent`; what the reader
//!    counts, in `set_consumed` and `count_discarded`.
//! 3. For each watcher, `decided` is a position below which every event is in the queue, delivered or lost. A reader that
//!    finds its queue empty behind a position that is decided has found a gap.
//! 4. What is in a queue or in its reader's hand never is more than its length: the dispatcher sends what it has credit
//!    for. The credit is the bound, the queue itself has none: slots for all would cost every idle watcher their memory.
//! 5. After its last word to a watcher (`set_closed`) the dispatcher puts nothing into its queue; after `set_gone` the
//!    reader takes nothing out except to throw it away. Both may empty the queue of one that has gone: what each takes
//!    out, it counts.
//! 6. User code (filters, hooks, handlers, `Clone`, `Drop`) runs outside every lock, and its panic ends in `guarded`.
//! 7. A control entry is carried out after all events before it were offered, and before any event behind it is.
//!
//! # Memory orderings
//!
//! Each use carries a line that names its partner. *Fence* is `sleeper::full_fence`, sequentially consistent on both
//! sides: of a sleeper that arms and then looks, and a waker that changes something and then looks for the armed, at
//! least one sees the other.
//!
//! | atomic | written by | ordering | read by | ordering | what it carries |
//! |---|---|---|---|---|---|
//! | `Cell::word`, enter | publisher | relaxed RMW | `close` | same word | who was in before the closed bit |
//! | `Cell::word`, leave | publisher | acq-rel RMW | `is_quiet`, `set_idle` | acquire | what was pushed inside |
//! | `Cell::word`, idle bit | dispatcher | acquire RMW, fence before | `leave` | acquire | the armed sleeper |
//! | `Cell::refused_full`, `Cell::refused_stopped` | publisher | relaxed RMW | `stats` | relaxed | counts |
//! | `Sleeper::armed` | sleeper | relaxed, fence after | waker | relaxed, fence before | that somebody sleeps |
//! | `Sleeper::armed`, for a task | sleeper | relaxed, fence after | waker | relaxed RMW | no data: the waker's cell orders itself |
//! | `WaitList::waiting` | under its lock | relaxed, fence after | waker | relaxed, fence before | that somebody waits |
//! | `Core::state`, stopped | anybody | release RMW, fence after | reader; dispatcher, feed | acquire; relaxed, fence before | what led to it: a filter's panic is counted |
//! | `Core::state`, gone | reader | relaxed RMW, fence after | dispatcher | relaxed, fence before | no data |
//! | `Core::state`, closed | dispatcher | acq-rel RMW | reader | acquire | the queue's last contents |
//! | `Core::state`, finished | reader | acq-rel RMW | dispatcher, waiters | acquire | the reader's last counts, a handler's deeds |
//! | `Core::wake_at` | dispatcher | relaxed, fence after | reader | relaxed, fence before | the room that is wanted |
//! | `Core::panics` | who calls user code | relaxed RMW | `stats` | relaxed | a count |
//! | `SentSide::offered` | dispatcher | relaxed, before the queue and the lines below | `stats` | relaxed, behind a fence | what the others are parts of |
//! | `SentSide::filtered`, `SentSide::high_water` | dispatcher | relaxed | `stats` | relaxed | counts |
//! | `SentSide::decided` | dispatcher | relaxed, release fence before | reader | acquire | the queue's contents below the position |
//! | `SentSide::queued` | dispatcher | relaxed, release fence before | `stats` | relaxed, acquire fence after | `offered`, which is at least as much |
//! | `SentSide::incoming`, `SentSide::oldest`, `SentSide::timed_out` | dispatcher | as `queued` | `stats` | as `queued` | `offered` |
//! | `SentSide::stopped`, `SentSide::abandoned` | dispatcher | as `queued` | `stats` | as `queued` | `offered` |
//! | `GotSide::consumed` | reader | release | dispatcher, `stats` | acquire; relaxed, acquire fence after | the freed slots; `offered` |
//! | `GotSide::stopped`, `GotSide::abandoned` | reader | release | `stats` | relaxed, acquire fence after | `offered` |
//! | `GotSide::handled` | handler | release | flush | acquire | what the handler did |
//! | `Hub::closing` | `close` | relaxed, fence after | dispatcher, handlers | relaxed, fence before | no data: the gate's words tell |
//! | `Hub::abandoned` | shutdown | relaxed, fence after | dispatcher, handlers | relaxed, fence before | no data |
//! | `Hub::reaping` | who stops | relaxed, fence after | dispatcher | relaxed, fence before | a list under its own lock |
//! | `Hub::accepted` | dispatcher | relaxed | `stats` | relaxed | a count |
//!
//! # How little is lost to sleeping
//!
//! The dispatcher and the readers look a few times before they park (`sync::SPINS`, `YIELDS`), so that under load
//! nobody sleeps and a publish costs no wake-up. Nothing polls: an idle bus uses no processor time.

#[cfg(feature = "async")]
mod alarm;
mod batch;
mod broadcaster;
mod builder;
mod core;
mod current;
mod dispatcher;
#[cfg(any(feature = "recorder", eventcast_loom))]
mod feed;
mod gate;
mod handler;
mod hub;
mod inbox;
mod options;
mod outbox;
mod publisher;
mod queue;
mod sleeper;
#[cfg(feature = "async")]
mod task;
mod watcher;

pub use self::broadcaster::Broadcaster;
pub use self::builder::WatchBuilder;
#[cfg(eventcast_loom)]
pub use self::feed::{Bell, Fed, Feed, Portion, Stage};
#[cfg(all(feature = "recorder", not(eventcast_loom)))]
pub(crate) use self::feed::{Bell, Fed, Feed, Stage};
pub use self::handler::{Runner, WatchHandle};
pub use self::options::{BusOptions, WatchOptions};
pub use self::publisher::Publisher;
pub use self::watcher::{Batch, Delivery, Events, IntoIter, Iter, StopHandle, Watcher};
