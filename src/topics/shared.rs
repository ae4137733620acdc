//! The shared state of `Topics`, which creates a topic when its first watcher registers, finds the
//! topic for publishers, and removes the topic together with its last watcher.
//!
//! - A topic's entry is created, changed and removed while holding the lock of its shard. A watcher
//!   is counted before it is registered on the topic's bus, and until the watcher's reader has been
//!   dropped. Therefore no watcher can register on a removed topic.
//! - A topic is removed together with its last watcher. If only readers with a pattern watch a
//!   topic, a sweep may remove it earlier. Each of these readers then receives what is left in the
//!   closed bus.
//! - A publisher looks up the bus, and then publishes without holding the shard's lock. If the
//!   topic was removed in between, the bus is closed and refuses the event, and the publisher
//!   repeats the lookup.
//! - A bus is created while holding the shard's lock, together with a watcher for each reader whose
//!   pattern matches the key. No other thread has access to the new bus yet, so registering a
//!   watcher on the bus does not wait for another thread.

use std::borrow::Borrow;
use std::hash::Hash;

use crate::bus::{Broadcaster, Publisher};
use crate::clock::Clock;
use crate::error::{BuildError, WatchError};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, Tally, unique_id};

use super::inbox::{Arrival, Inbox};
use super::map::TopicMap;
use super::options::TopicsOptions;
use super::past::Past;
use super::stats::TopicsStats;

/// The minimum number of topics without watchers registered by key that makes a sweep worthwhile.
const SWEEP: usize = 64;

pub(super) struct Topic<T> {
    number: u64,
    pub(super) bus: Broadcaster<T>,
    /// The number of watchers that were registered by key.
    watchers: usize,
    /// The ids of the inboxes whose readers have a watcher of this topic.
    inboxes: Vec<u64>,
    /// Whether `Shared::unwatched` counts this topic.
    is_unwatched: bool,
}

impl<T> Topic<T> {
    pub(super) fn all_watchers(&self) -> usize {
        self.watchers + self.inboxes.len()
    }
}

/// A watcher's share in its topic, which the watcher's reader drops last. A topic stays in the map
/// while it has a lease of a watcher that was registered by key. If all its leases belong to
/// readers with a pattern, a sweep may remove the topic earlier.
pub(super) struct Lease<K: Hash + Eq, T> {
    pub(super) shared: Arc<Shared<K, T>>,
    pub(super) key: K,
    pub(super) topic: u64,
    /// The id of the inbox whose reader holds the lease, or `None` if the watcher was registered by
    /// key.
    pub(super) inbox: Option<u64>,
}

impl<K: Hash + Eq, T> Drop for Lease<K, T> {
    fn drop(&mut self) {
        // If no share is left in the topic, the topic is also removed.
        self.shared.change(&self.key, self.topic, |topic| match self.inbox {
            Some(inbox) => topic.inboxes.retain(|other| *other != inbox),
            None => topic.watchers -= 1,
        });
    }
}

/// A reserved place within the limit on topics. The place is released on drop unless `keep` was
/// called, so that a panic while cloning a key does not use up the limit.
struct Place<'c>(&'c AtomicUsize);

impl<'c> Place<'c> {
    fn take(count: &'c AtomicUsize, limit: usize) -> Result<Self, WatchError> {
        let add = |count: usize| (count < limit).then_some(count + 1);
        // Relaxed, both: only the number matters.
        match count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => Ok(Self(count)),
            Err(_) => Err(WatchError::TooManyTopics(limit)),
        }
    }

    fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // Relaxed: only the number matters.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The parts of a topic that a publisher needs.
pub(super) struct Found<T> {
    pub(super) number: u64,
    pub(super) watchers: usize,
    pub(super) publisher: Publisher<T>,
}

impl<T> Found<T> {
    fn of(topic: &Topic<T>) -> Self {
        Self { number: topic.number, watchers: topic.all_watchers(), publisher: topic.bus.publisher() }
    }
}

pub(super) struct Shared<K, T> {
    pub(super) topics: TopicMap<K, Topic<T>>,
    options: TopicsOptions,
    pub(super) clock: Clock,
    closed: AtomicBool,
    /// The number of topics in the map.
    count: AtomicUsize,
    /// The number of topics that are kept only for readers with a pattern.
    unwatched: AtomicUsize,
    /// The number of sweep requests to ignore after a sweep that has freed little.
    sweeps_to_skip: AtomicUsize,
    /// Lock order: `TopicMap::shards` before `Shared::inboxes`.
    inboxes: Mutex<Vec<Arc<Inbox<K, T>>>>,
    /// The length of `inboxes`.
    readers: AtomicUsize,
    /// Lock order: `Shared::past` before `Registry::entries`.
    past: Mutex<Past<T>>,
    pub(super) created: Tally,
    pub(super) unheard: Tally,
    pub(super) rejected_full: Tally,
    pub(super) rejected_closed: Tally,
}

impl<K: Hash + Eq, T> Shared<K, T> {
    /// The options must already have been validated.
    pub(super) fn new(options: TopicsOptions, clock: Clock) -> Self {
        Self {
            topics: TopicMap::new(),
            options,
            clock,
            closed: AtomicBool::new(false),
            count: AtomicUsize::new(0),
            unwatched: AtomicUsize::new(0),
            sweeps_to_skip: AtomicUsize::new(0),
            inboxes: Mutex::new(Vec::new()),
            readers: AtomicUsize::new(0),
            past: Mutex::new(Past::default()),
            created: Tally::default(),
            unheard: Tally::default(),
            rejected_full: Tally::default(),
            rejected_closed: Tally::default(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        // Relaxed: the shards' locks order this load for a thread that creates a topic. See
        // `close`.
        self.closed.load(Ordering::Relaxed)
    }

    pub(super) fn len(&self) -> usize {
        // Relaxed: only the number matters.
        self.count.load(Ordering::Relaxed)
    }

    /// Closes all buses, and prevents the creation of new topics.
    pub(super) fn close(&self) {
        // Relaxed: a thread that creates a topic reads the flag while holding the shard's lock. If
        // the thread acquires the lock before `for_each` does, `for_each` finds the new bus. If the
        // thread acquires the lock later, the thread sees the flag.
        self.closed.store(true, Ordering::Relaxed);
        let mut buses = Vec::new();
        self.topics.for_each(|_, topic| buses.push(topic.bus.clone()));
        buses.iter().for_each(Broadcaster::close);
        let inboxes = self.inboxes.lock().clone();
        for inbox in &inboxes {
            inbox.close();
        }
    }

    /// Changes a topic if it still exists, and removes the topic if it has no watchers after the
    /// change.
    fn change(&self, key: &K, number: u64, change: impl FnOnce(&mut Topic<T>)) {
        let removed = self.topics.remove_if(key, |topic| {
            if topic.number != number {
                return false;
            }
            change(topic);
            self.set_unwatched(topic, topic.watchers == 0);
            topic.all_watchers() == 0
        });
        self.end(removed);
    }

    fn set_unwatched(&self, topic: &mut Topic<T>, is_unwatched: bool) {
        // Relaxed, both: only the number matters, and the shard's lock protects the topic's flag.
        if is_unwatched && !topic.is_unwatched {
            self.unwatched.fetch_add(1, Ordering::Relaxed);
        } else if !is_unwatched && topic.is_unwatched {
            self.unwatched.fetch_sub(1, Ordering::Relaxed);
        }
        topic.is_unwatched = is_unwatched;
    }

    /// Ends the bus of a topic that was removed from the map. Called without holding the shard's
    /// lock.
    fn end(&self, removed: Option<(K, Topic<T>)>) {
        let Some((_key, mut topic)) = removed else { return };
        self.set_unwatched(&mut topic, false);
        // Relaxed: only the number matters.
        self.count.fetch_sub(1, Ordering::Relaxed);
        topic.bus.close();
        // If another thread is still inside a call of the bus, that thread may still add an event.
        if !topic.inboxes.is_empty() && topic.bus.has_ended() {
            // Without this step, a reader that receives nothing would accumulate the watchers of
            // removed topics.
            let mut readers = self.inboxes.lock().clone();
            readers.retain(|inbox| topic.inboxes.contains(&inbox.id));
            for inbox in readers {
                drop(inbox.forget(topic.number));
            }
        }
        let settled = {
            let mut past = self.past.lock();
            past.add(topic.bus);
            past.settle_if_many()
        };
        // Dropping the last handle of a bus may run user-defined destructors.
        drop(settled);
    }

    /// Returns the counters, summed over all topics.
    pub(super) fn stats(&self) -> TopicsStats {
        let mut buses = Vec::new();
        self.topics.for_each(|_, topic| buses.push(topic.bus.clone()));
        let mut sums = {
            let mut past = self.past.lock();
            let settled = past.settle();
            let sums = past.sums.clone();
            buses.extend(past.leaving().cloned());
            drop(past);
            drop(settled);
            sums
        };
        for bus in &buses {
            sums.add(&bus.stats());
        }
        TopicsStats {
            topics: self.len() as u64,
            created: self.created.get(),
            accepted: sums.accepted,
            unheard: self.unheard.get(),
            rejected_full: self.rejected_full.get(),
            rejected_closed: self.rejected_closed.get(),
            watchers: sums.watchers,
        }
    }

    /// Returns the number of a key's watchers that have not been dropped.
    pub(super) fn watchers<Q>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + Hash + Eq + ?Sized,
    {
        self.topics.get(key, Topic::all_watchers).unwrap_or_else(|| {
            // Relaxed: as in `find`.
            if self.readers.load(Ordering::Relaxed) == 0 {
                return 0;
            }
            let key = key.to_owned();
            self.inboxes.lock().iter().filter(|inbox| inbox.matches(&key)).count()
        })
    }

    pub(super) fn remove_reader(&self, id: u64) {
        let mut inboxes = self.inboxes.lock();
        inboxes.retain(|inbox| inbox.id != id);
        // Relaxed: as in `find`.
        self.readers.store(inboxes.len(), Ordering::Relaxed);
    }

    /// Removes the topics that are kept only for readers with a pattern, and have no queued events
    /// left for these readers. Returns the number of removed topics.
    ///
    /// An event may be accepted after the sweep has checked the event's topic. The readers still
    /// receive that event, because they continue to read the closed bus until it ends.
    fn sweep(&self) -> usize
    where
        K: Clone,
    {
        let mut idle = Vec::new();
        // Lock order: `TopicMap::shards` before `Registry::entries`.
        self.topics.for_each(|key, topic| {
            if topic.watchers == 0 && topic.bus.is_drained() {
                idle.push((key.clone(), topic.number));
            }
        });
        let mut freed = 0;
        for (key, number) in idle {
            let is_idle = |topic: &mut Topic<T>| topic.number == number && topic.watchers == 0;
            let removed = self.topics.remove_if(&key, is_idle);
            freed += usize::from(removed.is_some());
            self.end(removed);
        }
        freed
    }

    /// Runs a sweep if it is likely to free something, and returns whether a topic was removed.
    /// Amortised over the topics created until the next sweep, the cost of a sweep is constant.
    fn sweep_if_due(&self) -> bool
    where
        K: Clone,
    {
        // Relaxed, all: a stale number only makes a sweep run early or late.
        let unwatched = self.unwatched.load(Ordering::Relaxed);
        let count = self.len();
        let is_full = count >= self.options.max_topics && unwatched > 0;
        if !is_full && (unwatched < SWEEP || unwatched < count / 2) {
            return false;
        }
        let skip = |left: usize| left.checked_sub(1);
        if self.sweeps_to_skip.fetch_update(Ordering::Relaxed, Ordering::Relaxed, skip).is_ok() {
            return false;
        }
        let freed = self.sweep();
        // Relaxed: as above.
        let skip = if freed < count / 64 { count / 64 } else { 0 };
        self.sweeps_to_skip.store(skip, Ordering::Relaxed);
        freed > 0
    }
}

impl<K, T> Shared<K, T>
where
    K: Clone + Hash + Eq + Send + Sync + 'static,
    T: Clone + Send + Sync + 'static,
{
    /// Counts a new watcher of a key's topic, and returns the watcher's lease and the topic's bus.
    pub(super) fn lease(this: &Arc<Self>, key: K) -> Result<(Lease<K, T>, Broadcaster<T>), WatchError> {
        let (number, bus) = Self::enter(this, &key, |topic| {
            topic.watchers += 1;
            this.set_unwatched(topic, false);
            (topic.number, topic.bus.clone())
        })?;
        Ok((Lease { shared: this.clone(), key, topic: number, inbox: None }, bus))
    }

    /// Returns a bus that is not in the map, with the same options as each topic's bus.
    pub(super) fn new_bus(&self) -> Result<Broadcaster<T>, BuildError> {
        Broadcaster::with_clock(self.options.bus.clone(), self.clock.clone())
    }

    /// Returns a key's topic. If the topic does not exist and a reader's pattern matches the key,
    /// the topic is created.
    pub(super) fn find<Q>(this: &Arc<Self>, key: &Q) -> Result<Option<Found<T>>, WatchError>
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + Hash + Eq + ?Sized,
    {
        // A topic that has just been created for a reader may have lost it, and has no watchers
        // then.
        if let Some(found) = this.topics.get(key, Found::of).filter(|found| found.watchers > 0) {
            return Ok(Some(found));
        }
        // Relaxed: if `watch_matching` returned before this call began, then the store to `readers`
        // also happened before this load.
        if this.readers.load(Ordering::Relaxed) == 0 {
            return if this.is_closed() { Err(WatchError::Closed) } else { Ok(None) };
        }
        let key = key.to_owned();
        if !this.inboxes.lock().iter().any(|inbox| inbox.matches(&key)) {
            return if this.is_closed() { Err(WatchError::Closed) } else { Ok(None) };
        }
        this.sweep_if_due();
        let found = Self::enter(this, &key, |topic| {
            this.set_unwatched(topic, topic.watchers == 0);
            Found::of(topic)
        })?;
        if found.watchers > 0 {
            return Ok(Some(found));
        }
        // The matching readers were dropped before the topic was created.
        this.change(&key, found.number, |_| ());
        Ok(None)
    }

    /// Calls `change` with a key's topic. If the topic does not exist, the topic is created first.
    fn enter<R>(this: &Arc<Self>, key: &K, change: impl Fn(&mut Topic<T>) -> R) -> Result<R, WatchError> {
        let mut woken = Vec::<Arc<Inbox<K, T>>>::new();
        let make = |woken: &mut Vec<_>| {
            this.topics.enter(key.clone(), |key| Self::create(this, key, woken), &change)
        };
        let mut result = make(&mut woken);
        if matches!(result, Err(WatchError::TooManyTopics(_))) && this.sweep_if_due() {
            result = make(&mut woken);
        }
        for inbox in &woken {
            inbox.wake();
        }
        result
    }

    /// Creates a topic with a watcher for each reader whose pattern matches the key. Called while
    /// holding the shard's lock. The caller must wake the readers in `woken`.
    fn create(this: &Arc<Self>, key: &K, woken: &mut Vec<Arc<Inbox<K, T>>>) -> Result<Topic<T>, WatchError> {
        if this.is_closed() {
            return Err(WatchError::Closed);
        }
        let place = Place::take(&this.count, this.options.max_topics)?;
        let bus = this.new_bus()?;
        this.created.add(1);
        let number = unique_id();
        let mut inboxes = Vec::new();
        // The lock on `inboxes` is held until the watchers have been added. When a reader is
        // dropped, the reader first leaves the list. Its inbox then either already contains the
        // watcher or never receives the watcher.
        for inbox in this.inboxes.lock().iter().filter(|inbox| inbox.matches(key)) {
            let lease =
                Lease { shared: this.clone(), key: key.clone(), topic: number, inbox: Some(inbox.id) };
            if let Ok(arrival) = Self::arrival(inbox, lease, &bus) {
                inbox.add(arrival);
                inboxes.push(inbox.id);
                woken.push(inbox.clone());
            }
        }
        place.keep();
        Ok(Topic { number, bus, watchers: 0, inboxes, is_unwatched: false })
    }

    /// Registers a reader's watcher on a topic's bus.
    fn arrival(
        inbox: &Inbox<K, T>,
        lease: Lease<K, T>,
        bus: &Broadcaster<T>,
    ) -> Result<Arrival<K, T>, WatchError> {
        let (key, topic) = (lease.key.clone(), lease.topic);
        let watcher = bus.watch_builder().options(inbox.options.clone()).lease(lease).watch()?;
        Ok(Arrival { key, topic, watcher })
    }

    /// Adds a reader to the list, and registers its watchers on matching topics that already exist.
    pub(super) fn add_reader(this: &Arc<Self>, inbox: &Arc<Inbox<K, T>>) -> Result<(), WatchError> {
        {
            let mut inboxes = this.inboxes.lock();
            inboxes.push(inbox.clone());
            // Relaxed: as in `find`.
            this.readers.store(inboxes.len(), Ordering::Relaxed);
        }
        // From now on, a matching topic gets a watcher for this reader when the topic is created.
        let mut leased = Vec::new();
        this.topics.for_each(|key, topic| {
            if inbox.matches(key) && !topic.inboxes.contains(&inbox.id) {
                // The topic is not changed until the key has been cloned, because cloning may
                // panic.
                let (shared, key) = (this.clone(), key.clone());
                topic.inboxes.push(inbox.id);
                let lease = Lease { shared, key, topic: topic.number, inbox: Some(inbox.id) };
                leased.push((lease, topic.bus.clone()));
            }
        });
        for (lease, bus) in leased {
            match Self::arrival(inbox, lease, &bus) {
                Ok(arrival) => inbox.add(arrival),
                // The topic has just been removed, or all topics are being closed.
                Err(WatchError::Closed) => {}
                Err(error) => return Err(error),
            }
        }
        if this.is_closed() {
            // `close` may have copied the list of readers before this reader was added.
            inbox.close();
        }
        Ok(())
    }
}
