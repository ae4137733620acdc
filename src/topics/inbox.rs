//! The part of a [`TopicsReader`](super::TopicsReader) that other threads access. These threads add
//! watchers of new topics to the inbox, and report which topics have something to receive.

use std::collections::{BTreeMap, VecDeque};

use crate::bus::{WakeCell, WatchOptions, Watcher};
use crate::sync::{Mutex, Parker};

/// A watcher of one topic, passed to the reader through the inbox.
pub(super) struct Arrival<K, T> {
    pub(super) key: K,
    /// The topic's number, which is greater than the number of any earlier topic with the same key.
    pub(super) topic: u64,
    pub(super) watcher: Watcher<T>,
}

pub(super) struct Inbox<K, T> {
    pub(super) id: u64,
    pub(super) options: WatchOptions,
    matches: Box<dyn Fn(&K) -> bool + Send + Sync>,
    /// Lock order: `TopicMap::shards` and `Shared::inboxes` before `Inbox::news`.
    news: Mutex<News<K, T>>,
    pub(super) wake_cell: WakeCell,
}

/// Changes that the reader has not processed yet.
struct News<K, T> {
    /// The watchers of new topics, keyed by topic number.
    arrivals: BTreeMap<u64, Arrival<K, T>>,
    /// The indices of the reader's slots that may have something to receive.
    ready: Vec<usize>,
    /// Whether no more watchers will arrive, because the topics are closed.
    is_closed: bool,
}

impl<K, T> Inbox<K, T> {
    pub(super) fn new(
        id: u64,
        options: WatchOptions,
        parker: &Parker,
        matches: impl Fn(&K) -> bool + Send + Sync + 'static,
    ) -> Self {
        let news = News { arrivals: BTreeMap::new(), ready: Vec::new(), is_closed: false };
        Self {
            id,
            options,
            matches: Box::new(matches),
            news: Mutex::new(news),
            wake_cell: WakeCell::new(parker),
        }
    }

    pub(super) fn matches(&self, key: &K) -> bool {
        (self.matches)(key)
    }

    /// Adds a watcher. If the reader may be waiting, the caller must then call [`wake`](Self::wake)
    /// without holding a lock.
    pub(super) fn add(&self, arrival: Arrival<K, T>) {
        self.news.lock().arrivals.insert(arrival.topic, arrival);
    }

    /// Reports to the reader that a slot may have something to receive.
    pub(super) fn set_ready(&self, slot: usize) {
        self.news.lock().ready.push(slot);
        self.wake();
    }

    /// Reports to the reader that no more watchers will arrive.
    pub(super) fn close(&self) {
        self.news.lock().is_closed = true;
        self.wake();
    }

    /// Wakes the reader after a change to its inbox.
    ///
    /// The `news` lock orders the change and the reader's check. If the reader checked first, the
    /// reader had already armed the wake cell. This thread acquired the lock after the reader, and
    /// therefore finds the wake cell armed.
    pub(super) fn wake(&self) {
        self.wake_cell.wake();
    }

    /// Moves the inbox's contents to the reader. Returns whether no more watchers will arrive.
    pub(super) fn take(&self, arrivals: &mut VecDeque<Arrival<K, T>>, ready: &mut Vec<usize>) -> bool {
        let mut news = self.news.lock();
        ready.append(&mut news.ready);
        arrivals.extend(std::mem::take(&mut news.arrivals).into_values());
        news.is_closed
    }

    /// Returns the watcher of a topic that was removed, if the reader has not taken the watcher,
    /// and there is nothing to receive. The caller must drop the returned watcher without holding a
    /// lock.
    pub(super) fn forget(&self, topic: u64) -> Option<Arrival<K, T>> {
        let mut news = self.news.lock();
        let is_idle = |arrival: &Arrival<K, T>| arrival.watcher.is_empty();
        if news.arrivals.get(&topic).is_some_and(is_idle) { news.arrivals.remove(&topic) } else { None }
    }
}
