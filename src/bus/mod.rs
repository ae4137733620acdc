//! The event bus, with its publishers, its watchers, and the path that events take between them.
//!
//! - A [`Broadcaster`] starts, flushes and shuts down a bus. [`BusOptions`] configures it. A
//!   [`WeakBroadcaster`] does not keep the bus open.
//! - A [`Publisher`] publishes events. A [`BufferedPublisher`] publishes them in batches.
//!   [`Publisher::has_watchers`] lets a lazy producer skip events that no watcher would receive.
//! - A [`Watcher`] receives events, one [`Delivery`] or one [`Batch`] at a time. A [`WatchBuilder`]
//!   registers a watcher with its own [`OverflowPolicy`]. An [`EventWatcher`] is a watcher that
//!   returns only events.
//! - A handler receives events on one of the bus's threads, or on any thread or task that runs a
//!   [`Runner`]. A [`WatchHandle`] stops the handler.
//!
//! <details>
//! <summary>How the bus works internally, for readers who want to change or verify it</summary>
//!
//! # The path of an event
//!
//! ```text
//! Publisher ─ gate ─> incoming queue ─> fan-out ─────┬─ MailboxSender ─> queue ─> MailboxReceiver ─ Watcher
//!  (any threads)       (crossbeam)  (one at a time)  ├─ MailboxSender ─> queue ─> MailboxReceiver ─ Runner (a handler)
//!                                                    └─ ...
//! ```
//!
//! An inline bus has neither a dispatcher nor an incoming queue. The publishers of an inline bus
//! access the fan-out through the *front*, while holding a single lock:
//!
//! ```text
//! Publisher ─ front ─> fan-out ─────┬─ MailboxSender ─> queue ─> MailboxReceiver ─ Watcher
//!  (any threads)  (one at a time)  └─ ...
//! ```
//!
//! The modules build on each other in the following order: `wait` (parking, timer), `state` (of the
//! bus and of each watcher), `mailbox` (a watcher's queue and its two ends), `dispatch` (entries,
//! fan-out, dispatcher, front), `incoming` (the path into the bus, publishers), `watch` (the
//! readers of a mailbox), and at the top `broadcaster`, `flush`,
//! `presence` and `slow`.
//!
//! # Glossary
//!
//! * **publisher**: a handle that publishes events.
//! * **gate**: the part that counts the publishers that are inside a publish call. Once the bus is
//!   closed, the gate admits no more publishers.
//! * **incoming queue**: the bounded queue between the publishers and the fan-out.
//! * **entry**: an item in the incoming queue, which is an event or a batch.
//! * **control entry**: a registration, a flush, or a gap that a publisher has published. Control
//!   entries wait in a list next to the incoming queue.
//! * **place**: a control entry's place is the number of entries that were pushed into the incoming
//!   queue before the control entry was added.
//! * **fan-out**: the part that offers events to every watcher, and registers and reaps watchers.
//!   Only one thread at a time runs the fan-out, while holding the lock of the intake or the front.
//! * **intake**: the part that takes entries out of the incoming queue for the fan-out.
//! * **dispatcher**: the thread that runs the intake while there is work to do.
//! * **pending**: the state of events that have been offered to a watcher with the policy `Wait` or
//!   `WaitFor`, and are waiting for capacity in that watcher's mailbox.
//! * **blocked**: the dispatcher's state while events are pending. The dispatcher does not process
//!   any entry while it is blocked.
//! * **carried**: the state of an entry that has been taken out of the incoming queue but has not
//!   been processed yet.
//! * **direct delivery**: the mode in which a publisher runs the intake itself if it finds the
//!   dispatcher asleep. If the bus's only reader never sleeps, the mode may end in pulling.
//! * **pull**: to run the intake on the reader's thread while the bus's only reader is busy. While
//!   the reader is pulling, the dispatcher or a publisher has *lent* the fan-out to the reader, and
//!   the dispatcher naps.
//! * **front**: the entry point of an inline bus, which contains the bus's lock.
//! * **owner**: the thread that is inside a call to an inline bus and holds the bus's lock.
//! * **due**: describes work that another thread leaves to the owner, namely reaping a watcher or
//!   closing the bus.
//! * **nested**: describes a call made from inside another call to the same inline bus.
//! * **completion**: an internal function that the dispatcher calls to complete each event before
//!   offering the event. A recorder's bus has a completion function.
//! * **batch**: a group of events that the dispatcher offers together. The events in a batch share
//!   one allocation, and no longer change.
//! * **slice**: a range of the events in a batch, as sent to one watcher.
//! * **mailbox**: one watcher's queue, with a *sender* in the fan-out and a *receiver* on the
//!   reader's thread.
//! * **credit**: the number of events that a mailbox still has capacity for.
//! * **position**: an accepted event's number in the bus's single order of events, starting at 1. A
//!   published gap takes up one position for each missing event.
//! * **offset**: an event's number among the events that have been decided for one watcher (queued,
//!   lost or missing), starting at 0. Events that the filter refused have no offset. A replaced
//!   event shares the offset of the event that replaces it.
//! * **gap**: a run of events that a watcher has lost or that the bus does not have. The watcher's
//!   reader receives the gap as `Lagged`.
//! * **history**: the bus's newest batches, which the fan-out keeps for watchers that start in the
//!   past.
//! * **replay**: to offer a new watcher the events in the history. The fan-out performs the replay.
//! * **current slice**: the slice that the receiver has taken out of the queue but has not finished
//!   reading.
//! * **borrowed**: describes events in the current slice that the caller may read in place until
//!   the caller's next call.
//! * **watcher**: either the reader's handle, or a registration together with everything that
//!   belongs to that registration.
//! * **handler**: a user-supplied function that the library calls for each event.
//! * **bulk reader**: a receiver that takes whole slices out of the queue, and may free their
//!   capacity in any order.
//! * **flush**: to wait until everything accepted before the flush has been offered and handled.
//! * **stop**: to end one watcher. **close**: to refuse all later events. **shutdown**: an
//!   operation that closes the bus and waits until the bus has ended.
//! * **evict**: to stop a watcher with the policy `Evict` before the first event that does not fit
//!   into the watcher's queue. The dispatcher evicts watchers.
//! * **abandon**: to stop waiting for watchers and handlers. A shutdown with a deadline abandons
//!   the bus shortly before that deadline, if the bus has not ended by then.
//! * **wake cell**: the slot in which one thread or task waits. **wait queue**: a queue in which
//!   several threads and tasks wait for their turn.
//! * **timer**: the thread that wakes tasks at their deadlines.
//! * **monitor**: a thread that checks the watchers' counters, and reports slow watchers.
//! * **present**: describes a watcher whose registration has been accepted, and whose reader has
//!   not been dropped.
//! * **reap**: to remove the sender of a watcher that has stopped. The dispatcher or the owner
//!   reaps watchers.
//!
//! # Roles
//!
//! * A **publisher** enters the gate, pushes one entry into the incoming queue, and leaves. If the
//!   dispatcher was about to sleep, the publisher is responsible for its entry, so the publisher
//!   either delivers the entry directly or wakes the dispatcher (`dispatch/direct.rs`). A publisher
//!   waits for a lock only while waiting for capacity.
//! * A **registration**, a **flush** or a **gap** enters the gate, adds a control entry with its
//!   place, leaves, and wakes the dispatcher if the dispatcher was about to sleep
//!   (`dispatch/controls.rs`).
//! * The **dispatcher** takes the waiting entries, up to a batch or the place of a control entry.
//!   The dispatcher turns these entries into one shared batch, offers the batch to every watcher
//!   without waiting, issues a single fence, and wakes the sleeping readers. If there are many
//!   watchers, the dispatcher does this for one group of watchers after the other. The dispatcher
//!   performs one queue operation per watcher and batch, and no queue operation per event. If
//!   events are then pending, the dispatcher is blocked, and sleeps until a reader frees capacity.
//!   Whatever the dispatcher is waiting for, it always sleeps at the same point in the code, and
//!   does not hold the intake's lock while it sleeps (`dispatch/dispatcher.rs`). The only exception
//!   is that the dispatcher naps elsewhere while the fan-out is lent.
//! * A **reader** takes slices out of its queue, reads the events in place, and frees their
//!   capacity with a plain store to `consumed`. If the watcher's policy makes the dispatcher wait,
//!   or if the reader is a handler, the reader then issues a fence, and wakes the waiting threads
//!   and tasks. If the fan-out has been lent to a reader, and the reader has run out of
//!   events, the reader takes the waiting entries out of the incoming queue itself
//!   (`dispatch/pull.rs`).
//!
//! * In an **inline bus**, a publisher takes the lock, offers its events to every watcher, issues a
//!   single fence (one for each group), releases the lock, and wakes the sleeping readers
//!   (`dispatch/inline.rs`). No events are pending between two calls. For an inline bus, read
//!   *owner* instead of *dispatcher* on this page.
//!
//! # Invariants
//!
//! 1. No thread blocks inside a queue. Every wait follows the protocol in `wait/parking.rs`, which
//!    the loom models cover. Apart from these waits, threads wait only for the locks listed below.
//!    Only the dispatcher waits for the intake's lock, which a publisher or a reader holds for at
//!    most one batch. In an inline bus, publishers, registrations, flushes and gaps wait for the
//!    front's lock.
//! 2. Except for `panics`, each of a watcher's counters has a single writer. The dispatcher
//!    publishes its counters in `WatcherState::publish_offered` and `publish_sent`, and the reader
//!    publishes its counters in `set_consumed`, `set_handled` and `count_discarded`. Here and in
//!    the table below, *dispatcher* means the thread that holds the lock of the intake or the
//!    front.
//! 3. For each watcher, every event below the offset `decided` is in the queue, delivered, lost or
//!    missing. If a reader finds its queue empty although it has not reached the decided offset
//!    yet, the reader has found a gap.
//! 4. Not counting replayed events, a watcher's queue and current slice together never hold more
//!    events than the queue's capacity, because the dispatcher sends only as many events as it has
//!    credit for. Queues rely on the credit to stay within their bounds. Only a short queue
//!    allocates a slot for each event up front, because a long queue that did so would cost every
//!    watcher that memory. A watcher with `DropOldest` does not use credit. Instead, the sender
//!    evicts the oldest events from the queue, and events that the reader holds are not counted.
//! 5. After `set_closed`, the dispatcher adds nothing to the queue. After `set_gone`, the reader
//!    removes events from the queue only to discard them. Once the reader is gone, both sides may
//!    empty the queue, and each side counts the events that it removes.
//! 6. User code (filters, hooks, handlers, `Clone`, `Drop`) runs without holding any lock, with two
//!    exceptions. The dispatcher may run user code while it holds the intake's lock, because no
//!    other thread waits for this lock. The owner of an inline bus may run user code while it holds
//!    the bus's lock. Wakers are called without holding an inline bus's lock. `catch_panic` catches
//!    panics in user code. Only a panic in `Clone` during a receive call propagates to the caller.
//! 7. The dispatcher processes a control entry after it has offered all events that precede the
//!    entry, and before it offers any event that follows the entry.
//! 8. While an entry is in the incoming queue, or is carried by the fan-out, at least one thread is
//!    responsible for the entry: the dispatcher if it is awake or blocked, the reader if the
//!    fan-out is lent to it, and otherwise the publisher that saw the idle bit.
//!
//! # Memory orderings
//!
//! The comment at each use of an atomic names the operation that this use pairs with. *Fence*
//! refers to `full_fence`, which is sequentially consistent on both sides. One side arms a wake
//! cell, issues a fence, and checks its condition. The other side changes the condition, issues a
//! fence, and checks the wake cell. At least one of the two sides sees the other side's store.
//!
//! | atomic | written by | ordering | read by | ordering | what it publishes |
//! |---|---|---|---|---|---|
//! | `Cell::word`, enter | publisher | relaxed RMW | `close` | same word | which publishers were inside before the closed bit was set |
//! | `Cell::word`, leave | publisher | acq-rel RMW | `is_quiet`, `set_idle` | acquire | the entries pushed while inside |
//! | `Cell::word`, idle bit | dispatcher, reader; a publisher that lends, which clears it | acq-rel RMW; relaxed RMW | `leave` | acquire | the armed cell |
//! | `Cell::refused_full`, `Cell::refused_closed` | publisher | relaxed RMW | `stats` | relaxed | counts |
//! | `WakeCell::armed` | waiting thread | relaxed, fence after | waker | relaxed, fence before | that a thread or task is waiting |
//! | `WakeCell::armed`, for a task | waiting task | relaxed RMW, fence after | waker | relaxed RMW | no data: `AtomicWaker` does its own synchronisation |
//! | `Owner::word`, the owner | owner | relaxed; acq-rel swap at the end | `ask`, `is_this_thread` | acquire; relaxed | what the owner did |
//! | `Owner::word`, due | stopping or closing thread | release RMW | owner | acq-rel swap | the work that is due |
//! | `NestedEntries::added`, `NestedEntries::waiting`, `NestedEntries::events_left` | owner | relaxed | owner | relaxed | no data: the front's lock orders them |
//! | `WaitQueue::waiting` | under its lock | relaxed, fence after | waker | relaxed, fence before | that a thread or task is waiting |
//! | `WaitQueue::passes_behind` | owner | relaxed | owner, a waiter that has been the owner since | relaxed | no data |
//! | `WatcherState::flags`, stopped | any thread | release RMW, fence after | reader; dispatcher, bulk reader | acquire; relaxed, fence before | the cause: a filter's panic is counted |
//! | `WatcherState::flags`, evicted | dispatcher | release RMW, fence after | reader; dispatcher, bulk reader | acquire; relaxed, fence before | the events queued and counted before |
//! | `WatcherState::flags`, gone | reader | relaxed RMW, fence after | dispatcher | relaxed, fence before | no data |
//! | `WatcherState::flags`, closed | dispatcher | acq-rel RMW | reader | acquire | the queue's last contents |
//! | `WatcherState::flags`, finished | reader | acq-rel RMW | dispatcher, waiters | acquire | the reader's last counts, and what a handler did |
//! | `GotSide::wake_at` | dispatcher | relaxed, fence after | reader | relaxed, fence before | the capacity that the dispatcher wants |
//! | `WatcherState::panics` | caller of user code | relaxed RMW | `stats` | relaxed | a count |
//! | `SentSide::offered` | dispatcher | relaxed, before the queue and the lines below | `stats` | relaxed, after a fence | the total, which includes the other counts |
//! | `SentSide::filtered`, `SentSide::missed`, `SentSide::high_water` | dispatcher | relaxed | `stats` | relaxed | counts |
//! | `SentSide::decided` | dispatcher | relaxed, release fence before | reader | acquire | the queue's contents below the offset |
//! | `SentSide::queued` | dispatcher | relaxed, release fence before | `stats`; `queued` | relaxed, acquire fence after; relaxed | `offered`, which is at least as large; a count |
//! | `SentSide::incoming`, `SentSide::oldest`, `SentSide::conflated`, `SentSide::timed_out` | dispatcher | as `queued` | `stats` | as `queued` | `offered` |
//! | `SentSide::stopped`, `SentSide::abandoned` | dispatcher | as `queued` | `stats` | as `queued` | `offered` |
//! | `GotSide::consumed` | reader | release | dispatcher, `stats` | acquire; relaxed, acquire fence after | the freed slots; `offered` |
//! | `GotSide::stopped`, `GotSide::abandoned` | reader | release | `stats` | relaxed, acquire fence after | `offered` |
//! | `GotSide::handled` | handler | release | flush | acquire | what the handler did |
//! | `BusState::closing` | `close` | relaxed, fence after | dispatcher, handlers | relaxed, fence before | no data: the gate's words publish it |
//! | `BusState::abandoned` | shutdown | relaxed, fence after | dispatcher, handlers | relaxed, fence before | no data |
//! | `BusState::lent` | dispatcher, reader; publisher | relaxed, fence after; relaxed, the woken dispatcher fences | reader, publisher | relaxed; a reader fences before | no data: the lock publishes it |
//! | `Handles::open` | a handle that is cloned, upgraded or dropped | relaxed RMW; release RMW of a drop | the last drop | same word, fence after | everything done before the other drops |
//! | `Popped::word` | dispatcher, or the thread holding its lock | relaxed, release fence after; release | a thread that adds a control entry; `stats` | acquire; relaxed, acquire fence before | the queue's length after the pop |
//! | `Controls::waiting` | under its lock | relaxed, before a `leave` | dispatcher, or the thread holding its lock | relaxed, after a pop or `set_idle` | that a control entry is waiting |
//! | `Registry::reaping` | stopping thread | relaxed, fence after | dispatcher | relaxed, fence before | a list under its own lock |
//! | `Registry::present` | under the lock of `entries` | release RMW | publishers, `watcher_count`; under the lock | acquire | that the watcher's control entry was added, or that an inline bus has carried it out |
//! | `BusState::is_monitored` | a thread that starts a monitor | relaxed | a thread that starts a monitor | relaxed | no data: the first monitor writes the ages |
//! | `BusState::accepted`, `BusState::missed`, `BusState::unheard` | dispatcher | relaxed | `stats`; dispatcher, `missed` | relaxed | counts |
//!
//! # Locks
//!
//! A thread takes a lock in this table only while it holds no other lock, or while it holds a lock
//! that is listed in the *under* column. Comments ("Lock order: ...") state the same orders where
//! the locks are taken, and `tests/docs/locks.rs` compares these comments with the table. A lock is
//! held for only a few instructions, unless the last column lists a longer operation.
//!
//! Only the dispatcher ever waits for the intake's lock, so the dispatcher may hold this lock while
//! it takes other locks, and while it runs user code. User code that runs on the dispatcher may
//! therefore use its own bus and every sink. Publishers of an inline bus wait for the front's lock.
//! User code that runs while this lock is held may use the bus, because the bus knows its owner,
//! but must not take a lock that a publisher holds.
//!
//! | lock | taken by | under | held for |
//! |---|---|---|---|
//! | `InlineFront::core` | publishers, registrations, flushes and gaps; a thread that stops, drops or closes, which only tries | none | one call, including the user code that it runs |
//! | `NestedEntries::list` | owner | `InlineFront::core` | a change to the list |
//! | `SharedIntake::intake` | dispatcher; a publisher or a reader, which only tries | none | as long as the dispatcher is awake; one batch for the others |
//! | `Controls::list` | registrations, flushes, gaps and the drop of a watcher; dispatcher, if there is an entry | `SharedIntake::intake` | searching the list, and waiting for a pop in progress to finish |
//! | `WaitQueue::waiters` | waiting threads and tasks, and the threads that wake them | `SharedIntake::intake` | a change to the list |
//! | `Timer::state` | tasks with a deadline, and the timer's thread | none | a change to the deadlines, and starting the thread |
//! | `SliceQueue::Growing` | owner, and the reader of the watcher | `InlineFront::core` | moving events into the batch, or moving the batch |
//! | `SliceQueue::Ring` | dispatcher, and the reader of the watcher | `SharedIntake::intake`, `InlineFront::core` | a change to the ring |
//! | `SliceQueue::Conflating` | dispatcher, and the reader of the watcher | `SharedIntake::intake`, `InlineFront::core` | a change to the slots |
//! | `FlushTicket::handlers` | dispatcher, and the caller of the flush | `SharedIntake::intake`, `InlineFront::core` | a scan of the handlers |
//! | `Registry::entries` | registration, a watcher's end, `stats`, waiting for the bus to end or for watchers | `SharedIntake::intake`, `InlineFront::core`, `BusState::report`, `TopicMap::shards`, `Shared::past` | a scan of the watchers |
//! | `Registry::reapable` | stopping thread, dispatcher | `SharedIntake::intake`, `InlineFront::core` | a change to the list |
//! | `Threads::started` | a thread that starts a handler, each thread of the bus in its last step, a shutdown | none | a change to the list |
//! | `BusState::report` | a shutdown that has seen the bus end | none | building the report |
//! | `Fake::state` | a thread that reads or moves a `FakeClock` | `SharedIntake::intake`, `InlineFront::core`, `Timer::state`, `MemoryStore::state`, `Warnings::silent` | a scan of the sleeping threads |
//!
//! # The cost of sleeping
//!
//! Before they park, the dispatcher and the readers check for work a few times (`sync::SPINS`,
//! `YIELDS`), so that under load no thread sleeps, and no publish call has to wake a thread. A
//! publisher without a deadline checks a full incoming queue more often (`PUBLISHER_YIELDS`),
//! because many publishers may be waiting for the same capacity, and each one would have to be
//! woken by a system call. If a
//! reader of an inline bus is faster than the publishers, it first lets a few events accumulate
//! (`sync::GATHER`). A reader that pulls does the same (`sync::pull_gather`). While the fan-out is
//! lent to a reader, the dispatcher polls once per millisecond for as long as events arrive. An
//! idle bus uses no CPU time.
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
mod presence;
pub(crate) mod report;
mod shutdown;
pub(crate) mod slow;
mod state;
mod wait;
mod watch;
mod weak;

pub use self::broadcaster::Broadcaster;
pub use self::channel::channel;
#[cfg(feature = "recorder")]
pub(crate) use self::dispatch::Completion;
pub use self::incoming::{BufferedPublisher, Publisher};
pub use self::options::{BusOptions, Start, WatchOptions};
pub use self::policy::OverflowPolicy;
pub use self::state::EndReason;
#[cfg(feature = "topics")]
pub(crate) use self::wait::WakeCell;
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
