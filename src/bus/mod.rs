//! The bus: publishers, watchers, and the path of an event between them.
//!
//! - [`Broadcaster`] starts a bus, flushes it and shuts it down. [`BusOptions`] are its options. A
//!   [`WeakBroadcaster`] does not keep the bus open.
//! - [`Publisher`] publishes.
//! - [`Watcher`] receives, one [`Delivery`] or one [`Batch`] at a time. [`WatchBuilder`] registers
//!   it, with its own [`OverflowPolicy`]. An [`EventWatcher`] returns only events.
//! - A handler receives on a thread of the bus, or on any thread or task that runs a [`Runner`]. A
//!   [`WatchHandle`] stops the handler.
//!
//! <details>
//! <summary>How the bus works inside, for readers who want to change or verify it</summary>
//!
//! # The path of an event
//!
//! ```text
//! Publisher ─ gate ─> incoming queue ─> fan-out ─────┬─ MailboxSender ─> queue ─> MailboxReceiver ─ Watcher
//!  (any threads)       (crossbeam)  (one at a time)  ├─ MailboxSender ─> queue ─> MailboxReceiver ─ Runner (a handler)
//!                                                    └─ ...
//! ```
//!
//! An inline bus has no dispatcher and no incoming queue. Its publishers reach the fan-out
//! through the *front*, under one lock:
//!
//! ```text
//! Publisher ─ front ─> fan-out ─────┬─ MailboxSender ─> queue ─> MailboxReceiver ─ Watcher
//!  (any threads)  (one at a time)  └─ ...
//! ```
//!
//! The modules build on each other in this order: `wait` (parking, timer), `state` (of the bus and
//! of one watcher), `mailbox` (a watcher's queue with its two ends), `dispatch` (the entries, the
//! fan-out, the dispatcher, the front), `incoming` (the path into the bus, the publishers), `watch`
//! (the readers of a mailbox), and above all of them the `broadcaster` and the `flush`.
//!
//! # Glossary
//!
//! * **publisher**: a handle that publishes events.
//! * **gate**: counts the publishers that are inside a publish, and admits no more of them after
//!   the close.
//! * **incoming queue**: the bounded queue between the publishers and the fan-out.
//! * **entry**: an item of the incoming queue: an event or a batch.
//! * **control entry**: a registration, a flush, or a gap that a publisher has published. It waits
//!   beside the incoming queue.
//! * **place**: of a control entry, the number of entries that had been pushed into the incoming
//!   queue before it.
//! * **fan-out**: the part that offers events to every watcher, and registers and reaps watchers.
//!   Only one thread at a time runs it, under the lock of the intake or of the front.
//! * **intake**: the part that takes entries out of the incoming queue for the fan-out.
//! * **dispatcher**: the thread that runs the intake while there is something to do.
//! * **pending**: the state of events that have been offered to a watcher with `Wait` or `WaitFor`,
//!   and that wait for capacity in its mailbox.
//! * **blocked**: the state of the dispatcher while events are pending. It then carries out no
//!   entry.
//! * **carried**: the state of an entry that has been taken out of the incoming queue, and has not
//!   been carried out.
//! * **direct delivery**: a publisher that finds the dispatcher asleep runs the intake itself.
//! * **pull**: while the bus's only reader is busy, it runs the intake itself. The dispatcher has
//!   *lent* it the fan-out, and naps.
//! * **front**: the entry point of an inline bus. It contains the bus's lock.
//! * **owner**: the thread that is inside a call of an inline bus, and has its lock.
//! * **due**: the state of work that another thread leaves to the owner: a watcher to reap, or the
//!   close.
//! * **nested**: describes a call from inside a call of the same inline bus.
//! * **completion**: an internal function with which the dispatcher completes each event before it
//!   offers the event. The bus of a recorder has one.
//! * **batch**: events that the dispatcher offers together. They share one allocation and no longer
//!   change.
//! * **slice**: a range of a batch, on its way to one watcher.
//! * **mailbox**: the queue of one watcher, with a *sender* in the fan-out and a *receiver* on the
//!   reader's thread.
//! * **credit**: the number of events for which a mailbox has capacity.
//! * **position**: the number of an accepted event in the single order of the bus, starting at 1. A
//!   gap that a publisher has published takes one position for each missing event.
//! * **offset**: the number of an event among those that were decided for one watcher (queued, lost
//!   or missing), starting at 0. Events that the filter refused have none.
//! * **gap**: events that a watcher lost, or that were missing for it. The reader receives it as
//!   `Lagged`.
//! * **history**: the newest batches of the bus, which the fan-out keeps for watchers that start in
//!   the past.
//! * **replay**: the fan-out offers a new watcher the events in the history.
//! * **current slice**: the slice that the receiver has taken out of the queue and has not finished
//!   reading.
//! * **borrowed**: the state of events in the current slice that the caller reads in place, until
//!   its next call.
//! * **watcher**: the reader's handle, or a registration with everything that belongs to it.
//! * **handler**: a user-supplied function that the library calls for each event.
//! * **bulk reader**: a receiver that takes whole slices, and frees their capacity in any order.
//! * **flush**: a wait until everything accepted before it has been offered and handled.
//! * **stop**: ends one watcher. **close**: refuses all later events. **shutdown**: closes the bus,
//!   and waits until it has ended.
//! * **evict**: the dispatcher stops a watcher with the policy `Evict` before the first event that
//!   does not fit into its queue.
//! * **abandon**: a shutdown by deadline no longer waits for watchers and handlers.
//! * **wake cell**: the slot in which one thread or task waits. **wait queue**: the same for many,
//!   in turn.
//! * **timer**: the thread that wakes tasks at their deadlines.
//! * **reap**: the dispatcher or the owner removes the sender of a watcher that has stopped.
//!
//! # Roles
//!
//! * A **publisher** enters the gate, pushes one entry into the incoming queue, and leaves. If the
//!   dispatcher was about to sleep, the publisher is responsible for its entry: it delivers
//!   directly, or wakes the dispatcher (`dispatch/direct.rs`). It waits for no lock unless it waits
//!   for capacity.
//! * A **registration**, a **flush** or a **gap** enters the gate, adds a control entry with its
//!   place, leaves, and wakes a dispatcher that was about to sleep (`dispatch/controls.rs`).
//! * The **dispatcher** takes the waiting entries, up to a batch or the place of a control entry.
//!   It makes one shared batch of them, offers it to every watcher without waiting, fences once,
//!   and wakes the readers that sleep. It does one queue operation per watcher and batch, and none
//!   per event. If events are pending then, it is blocked, and sleeps until a reader frees
//!   capacity. Whatever it waits for, it always sleeps at the same point in the code, and without
//!   the lock (`dispatch/dispatcher.rs`). It naps elsewhere only while it has lent the fan-out.
//! * A **reader** takes slices out of its queue, reads the events in place, and frees their
//!   capacity with a plain store of `consumed`. If its policy makes the dispatcher wait, or if it
//!   is a handler, the reader then fences and wakes the waiting threads and tasks. If the
//!   dispatcher has lent the fan-out, a reader without events takes the waiting entries out of the
//!   incoming queue itself (`dispatch/pull.rs`).
//!
//! * In an **inline bus**, a publisher takes the lock, offers its events to every watcher, fences
//!   once, releases the lock, and wakes the readers that sleep (`dispatch/inline.rs`). Between two
//!   calls nothing is pending. For an inline bus, read *owner* for *dispatcher* on this page.
//!
//! # Invariants
//!
//! 1. No thread blocks in a queue: every wait follows the one protocol of `wait/parking.rs`, which
//!    the models see. The only other waits are for the locks below. Only the dispatcher waits for
//!    the intake, which a publisher or a reader holds for one batch at most. In an inline bus,
//!    publishers, registrations, flushes and gaps wait for the front.
//! 2. Each counter of a watcher has one writer, except `panics`. The dispatcher publishes its
//!    counters in `WatcherState::publish_offered` and `publish_sent`, the reader in `set_consumed`,
//!    `set_handled` and `count_discarded`. Here and in the table, the dispatcher is the thread that
//!    has the lock of the intake, or of the front.
//! 3. For each watcher, every event below the offset `decided` is in the queue, delivered, lost or
//!    missing. A reader that finds its queue empty below a decided offset has found a gap.
//! 4. The queue and the current slice together never hold more events than the queue's length, not
//!    counting replayed events: the dispatcher sends only as many as it has credit for. The credit
//!    is the bound, and a queue relies on it. Only a short queue has a slot for each event, because
//!    slots for all events of a long queue would cost every watcher their memory. With `DropOldest`
//!    there is no credit: the sender evicts the oldest events from the queue, and the events that
//!    the reader holds are not counted.
//! 5. After `set_closed` the dispatcher puts nothing into the queue. After `set_gone` the reader
//!    takes events out only to discard them. Both may empty the queue of a reader that is gone, and
//!    each counts the events that it takes out.
//! 6. User code (filters, hooks, handlers, `Clone`, `Drop`) runs outside every lock, with two
//!    exceptions: the lock of the intake while the dispatcher holds it, for which no other thread
//!    waits, and the lock of an inline bus. Wakers run outside the lock of an inline bus, too.
//!    `catch_panic` catches the panics of such code. Only a panic in `Clone` during a receive
//!    propagates to the caller.
//! 7. The dispatcher carries out a control entry after it has offered all events before the entry,
//!    and before it offers any event after it.
//! 8. While an entry is in the incoming queue, or carried by the fan-out, at least one thread is
//!    responsible for it: the dispatcher while it is awake or blocked, the reader while the fan-out
//!    is lent to it, and otherwise the publisher that saw the idle bit.
//!
//! # Memory orderings
//!
//! The comment at each use names its partner. *Fence* is `full_fence`, sequentially consistent on
//! both sides. One side arms a wake cell, fences and checks its condition. The other side changes
//! the condition, fences and checks the cell. At least one of the two sees the other's store.
//!
//! | atomic | written by | ordering | read by | ordering | what it carries |
//! |---|---|---|---|---|---|
//! | `Cell::word`, enter | publisher | relaxed RMW | `close` | same word | who was in before the closed bit |
//! | `Cell::word`, leave | publisher | acq-rel RMW | `is_quiet`, `set_idle` | acquire | the entries pushed inside |
//! | `Cell::word`, idle bit | dispatcher, reader | acq-rel RMW | `leave` | acquire | the armed cell |
//! | `Cell::refused_full`, `Cell::refused_closed` | publisher | relaxed RMW | `stats` | relaxed | counts |
//! | `WakeCell::armed` | waiting thread | relaxed, fence after | waker | relaxed, fence before | that a thread or task waits |
//! | `WakeCell::armed`, for a task | waiting task | relaxed RMW, fence after | waker | relaxed RMW | no data: `AtomicWaker` orders itself |
//! | `Owner::word`, the owner | owner | relaxed; acq-rel swap at the end | `ask`, `is_this_thread` | acquire; relaxed | what the owner did |
//! | `Owner::word`, due | stopping or closing thread | release RMW | owner | acq-rel swap | the due work |
//! | `NestedEntries::added`, `NestedEntries::waiting`, `NestedEntries::events_left` | owner | relaxed | owner | relaxed | no data: the lock of the front |
//! | `WaitQueue::waiting` | under its lock | relaxed, fence after | waker | relaxed, fence before | that a thread or task waits |
//! | `WaitQueue::passes_behind` | owner | relaxed | owner, a waiter that has been the owner since | relaxed | no data |
//! | `WatcherState::flags`, stopped | any thread | release RMW, fence after | reader; dispatcher, bulk reader | acquire; relaxed, fence before | the cause: a filter's panic is counted |
//! | `WatcherState::flags`, evicted | dispatcher | release RMW, fence after | reader; dispatcher, bulk reader | acquire; relaxed, fence before | the events queued and counted before |
//! | `WatcherState::flags`, gone | reader | relaxed RMW, fence after | dispatcher | relaxed, fence before | no data |
//! | `WatcherState::flags`, closed | dispatcher | acq-rel RMW | reader | acquire | the queue's last contents |
//! | `WatcherState::flags`, finished | reader | acq-rel RMW | dispatcher, waiters | acquire | the reader's last counts, a handler's deeds |
//! | `WatcherState::wake_at` | dispatcher | relaxed, fence after | reader | relaxed, fence before | the capacity that is wanted |
//! | `WatcherState::panics` | caller of user code | relaxed RMW | `stats` | relaxed | a count |
//! | `SentSide::offered` | dispatcher | relaxed, before the queue and the lines below | `stats` | relaxed, after a fence | the total of which the other counts are parts |
//! | `SentSide::filtered`, `SentSide::missed`, `SentSide::high_water` | dispatcher | relaxed | `stats` | relaxed | counts |
//! | `SentSide::decided` | dispatcher | relaxed, release fence before | reader | acquire | the queue's contents below the offset |
//! | `SentSide::queued` | dispatcher | relaxed, release fence before | `stats`; `queued` | relaxed, acquire fence after; relaxed | `offered`, which is at least as much; a count |
//! | `SentSide::incoming`, `SentSide::oldest`, `SentSide::timed_out` | dispatcher | as `queued` | `stats` | as `queued` | `offered` |
//! | `SentSide::stopped`, `SentSide::abandoned` | dispatcher | as `queued` | `stats` | as `queued` | `offered` |
//! | `GotSide::consumed` | reader | release | dispatcher, `stats` | acquire; relaxed, acquire fence after | the freed slots; `offered` |
//! | `GotSide::stopped`, `GotSide::abandoned` | reader | release | `stats` | relaxed, acquire fence after | `offered` |
//! | `GotSide::handled` | handler | release | flush | acquire | what the handler did |
//! | `BusState::closing` | `close` | relaxed, fence after | dispatcher, handlers | relaxed, fence before | no data: the gate's words carry it |
//! | `BusState::abandoned` | shutdown | relaxed, fence after | dispatcher, handlers | relaxed, fence before | no data |
//! | `BusState::lent` | dispatcher, reader | relaxed, fence after | reader, publisher | relaxed; a reader fences before | no data: the lock publishes it |
//! | `Handles::open` | a handle that is cloned, upgraded or dropped | relaxed RMW; release RMW of a drop | the last drop | same word, fence after | everything done before the other drops |
//! | `Popped::word` | dispatcher, or who has its lock | relaxed, release fence after; release | who adds a control entry; `stats` | acquire; relaxed, acquire fence before | the queue's length after the pop |
//! | `Controls::waiting` | under its lock | relaxed, before a `leave` | dispatcher, or who has its lock | relaxed, after a pop or `set_idle` | that there is an entry |
//! | `Registry::reaping` | stopping thread | relaxed, fence after | dispatcher | relaxed, fence before | a list under its own lock |
//! | `BusState::accepted`, `BusState::missed` | dispatcher | relaxed | `stats` | relaxed | counts |
//!
//! # Locks
//!
//! A thread takes a lock of this table only while it holds no other lock, or one that the column
//! *under* names. Comments ("Lock order: ...") name the same orders where the locks are taken, and
//! `tests/docs/locks.rs` compares the two. A lock is held for a few instructions unless the last
//! column names something longer.
//!
//! Only the dispatcher ever waits for the intake, so it may hold that lock while it takes any other
//! one, and while it runs user code. User code may therefore use this bus and every sink.
//! Publishers of an inline bus wait for its front. The code that runs there may use this bus, which
//! knows its owner, and must take no lock that a publisher holds.
//!
//! | lock | taken by | under | held for |
//! |---|---|---|---|
//! | `InlineFront::core` | publishers, registrations, flushes and gaps; a thread that stops, drops or closes, which only tries | none | one call, including the user code in it |
//! | `NestedEntries::list` | owner | `InlineFront::core` | a change to the list |
//! | `SharedIntake::intake` | dispatcher; a publisher or a reader, which only tries | none | as long as the dispatcher is awake; one batch for the others |
//! | `Controls::list` | registrations, flushes, gaps and the drop of a watcher; dispatcher, if there is an entry | `SharedIntake::intake` | a search of the list, and until a pop in progress has finished |
//! | `WaitQueue::waiters` | threads and tasks that wait, and those that wake them | `SharedIntake::intake` | a change to the list |
//! | `Timer::state` | tasks with a deadline, and the timer's thread | none | a change to the deadlines, and the start of the thread |
//! | `SliceQueue::Growing` | owner, and the reader of the watcher | `InlineFront::core` | moving events into the batch, or moving the batch |
//! | `SliceQueue::Ring` | dispatcher, and the reader of the watcher | `SharedIntake::intake`, `InlineFront::core` | a change to the ring |
//! | `FlushTicket::handlers` | dispatcher, and the caller of the flush | `SharedIntake::intake`, `InlineFront::core` | a scan of the handlers |
//! | `Registry::entries` | registration, end of a watcher, `stats`, a wait for the end | `SharedIntake::intake`, `InlineFront::core`, `BusState::report` | a scan of the watchers |
//! | `Registry::reapable` | stopping thread, dispatcher | `SharedIntake::intake`, `InlineFront::core` | a change to the list |
//! | `Threads::started` | a thread that starts a handler, each thread of the bus at its last step, a shutdown | none | a change to the list |
//! | `BusState::report` | a shutdown that has seen the end | none | building the report |
//! | `Fake::state` | a thread that reads or moves a `FakeClock` | `SharedIntake::intake`, `InlineFront::core`, `Timer::state`, `MemoryStore::state`, `Warnings::silent` | a scan of the sleeping threads |
//!
//! # The cost of sleeping
//!
//! The dispatcher and the readers check a few times before they park (`sync::SPINS`, `YIELDS`), so
//! that under load no thread sleeps and a publish costs no wake-up. A reader of an inline bus that
//! is faster than the publishers first lets a few events accumulate (`sync::GATHER`). A dispatcher
//! that has lent the fan-out polls once a millisecond for as long as events arrive. An idle bus
//! uses no CPU time.
//!
//! </details>

mod broadcaster;
mod channel;
pub(crate) mod counters;
mod dispatch;
mod flush;
mod incoming;
mod mailbox;
mod options;
pub(crate) mod policy;
pub(crate) mod report;
mod shutdown;
mod state;
mod wait;
mod watch;
mod weak;

pub use self::broadcaster::Broadcaster;
pub use self::channel::channel;
#[cfg(feature = "recorder")]
pub(crate) use self::dispatch::Completion;
pub use self::incoming::Publisher;
pub use self::options::{BusOptions, Start, WatchOptions};
pub use self::policy::OverflowPolicy;
pub use self::state::EndReason;
#[cfg(feature = "recorder")]
pub(crate) use self::wait::{Timer, TimerEntry};
pub use self::watch::{
    Batch, Delivery, EventWatcher, Events, IntoIter, Iter, Runner, TryIter, WatchBuilder, WatchHandle,
    Watcher,
};
#[cfg(eventcast_loom)]
pub use self::watch::{BulkEvents, BulkNext, BulkReader, EndStage, wake_reader};
#[cfg(all(feature = "recorder", not(eventcast_loom)))]
pub(crate) use self::watch::{BulkNext, BulkReader, EndStage, wake_reader};
#[doc(inline)]
pub use self::weak::WeakBroadcaster;
