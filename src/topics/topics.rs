//! The `Topics` type, which maps keys to buses.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;

use crate::bus::{BusOptions, OverflowPolicy, WatchBuilder, WatchOptions, Watcher};
use crate::clock::Clock;
use crate::error::{BuildError, WatchError};
use crate::stats::BusStats;
use crate::sync::{Arc, Parker, unique_id};

use super::inbox::Inbox;
use super::options::TopicsOptions;
use super::pattern::SubjectPattern;
use super::reader::TopicsReader;
use super::shared::Shared;
use super::stats::TopicsStats;

/// A set of topics, each with its own [inline bus](crate::Broadcaster::new_inline). See the [module
/// documentation](crate::topics) for guarantees and costs.
///
/// Keys must implement `Clone + Hash + Eq`. Methods that take a key also accept a borrowed form
/// that [`ToOwned`] converts into the key, such as `&str` for a `String`. For keys of other types,
/// pass a reference to the key, such as `&7` or `&"a"`.
///
/// `Hash` and `Eq` of a key must not panic.
///
/// To share a `Topics` between threads, wrap it in an [`Arc`]. Dropping a `Topics`
/// [closes](Self::close) all its topics.
///
/// # Examples
///
/// ```
/// use eventcast::topics::Topics;
/// use eventcast::{Delivery, OverflowPolicy};
///
/// let topics = Topics::<String, &str>::new();
/// let mut room = topics.watch_with("room/7", |watcher| {
///     watcher.name("client").queue_capacity(16).overflow(OverflowPolicy::DropOldest).watch()
/// })?;
/// assert_eq!(topics.publish("room/7", "hello")?, 1);
/// assert_eq!(room.recv()?, Delivery::Event("hello"));
/// drop(room);
/// assert_eq!((topics.len(), topics.publish("room/7", "anybody?")?), (0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Topics<K: Hash + Eq, T> {
    pub(super) shared: Arc<Shared<K, T>>,
}

impl<K: Hash + Eq, T> Topics<K, T> {
    /// Creates topics with the default options. No memory is allocated for a topic until it is
    /// watched.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::topics::Topics;
    ///
    /// assert!(Topics::<String, u8>::new().is_empty());
    /// ```
    #[must_use = "dropping the topics closes them"]
    pub fn new() -> Self {
        let options = TopicsOptions::default().bus(BusOptions::default().inline(true));
        Self { shared: Arc::new(Shared::new(options, Clock::system())) }
    }

    /// Creates topics with the given options.
    ///
    /// # Errors
    ///
    /// Returns a [`BuildError`] that names the option if an option is out of range or cannot be
    /// used on an inline bus.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::topics::{Topics, TopicsOptions};
    ///
    /// let error = Topics::<String, u8>::with_options(TopicsOptions::default().max_topics(0)).unwrap_err();
    /// assert_eq!(error.to_string(), "max_topics must be at least 1, got 0");
    /// ```
    pub fn with_options(options: TopicsOptions) -> Result<Self, BuildError> {
        Self::with_clock(options, Clock::system())
    }

    /// Creates topics whose timeouts use the given clock. With a
    /// [`FakeClock`](crate::testing::FakeClock), a test can step through the timeouts.
    ///
    /// # Errors
    ///
    /// Same as [`with_options`](Self::with_options).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Clock;
    /// use eventcast::topics::{Topics, TopicsOptions};
    ///
    /// let topics = Topics::<u64, u8>::with_clock(TopicsOptions::default(), Clock::system())?;
    /// assert_eq!(topics.watchers(&7), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_clock(options: TopicsOptions, clock: Clock) -> Result<Self, BuildError> {
        Ok(Self { shared: Arc::new(Shared::new(options.checked()?, clock)) })
    }

    /// Returns the number of topics that exist.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::topics::Topics;
    ///
    /// let topics = Topics::<u64, u8>::new();
    /// let watcher = topics.watch(&7)?;
    /// assert_eq!(topics.len(), 1);
    /// drop(watcher);
    /// assert_eq!(topics.len(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> usize {
        self.shared.len()
    }

    /// Returns whether no topic exists.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::topics::Topics;
    ///
    /// assert!(Topics::<u64, u8>::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the keys of the topics that exist, in no particular order.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::topics::Topics;
    ///
    /// let topics = Topics::<u64, u8>::new();
    /// let _watchers = [topics.watch(&1)?, topics.watch(&2)?];
    /// let mut keys = topics.keys();
    /// keys.sort_unstable();
    /// assert_eq!(keys, [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "PUBSUB CHANNELS")]
    pub fn keys(&self) -> Vec<K>
    where
        K: Clone,
    {
        let mut keys = Vec::new();
        self.shared.topics.for_each(|key, _| keys.push(key.clone()));
        keys
    }

    /// Returns whether the topics have been closed.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::topics::Topics;
    ///
    /// let topics = Topics::<u64, u8>::new();
    /// topics.close();
    /// assert!(topics.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Closes all topics. The topics' watchers receive everything that is queued, and then end.
    /// Further publish and watch calls return an error.
    ///
    /// # Blocking
    ///
    /// Does not wait for publishers or watchers, like
    /// [`Broadcaster::close`](crate::Broadcaster::close).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Delivery;
    /// use eventcast::topics::Topics;
    ///
    /// let topics = Topics::new();
    /// let mut watcher = topics.watch(&"a")?;
    /// topics.publish(&"a", 1)?;
    /// topics.close();
    /// assert!(topics.publish(&"a", 2).unwrap_err().is_closed());
    /// assert_eq!(watcher.recv()?, Delivery::Event(1));
    /// assert!(watcher.recv().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(&self) {
        self.shared.close();
    }

    /// Returns the number of watchers of a key that have not been dropped, including readers
    /// created by [`watch_matching`](Self::watch_matching). As on any bus, a stopped watcher still
    /// counts.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::topics::Topics;
    ///
    /// let topics = Topics::<String, u8>::new();
    /// let (_one, _all) = (topics.watch("a.b")?, topics.watch_matching("a.>")?);
    /// assert_eq!((topics.watchers("a.b"), topics.watchers("a.c"), topics.watchers("b")), (2, 1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "PUBSUB NUMSUB")]
    pub fn watchers<Q>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + Hash + Eq + ?Sized,
    {
        self.shared.watchers(key)
    }

    /// Returns a snapshot of the counters, summed over all topics.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::topics::Topics;
    ///
    /// let topics = Topics::new();
    /// drop(topics.watch(&"a")?);
    /// topics.publish(&"a", 1)?;
    /// let stats = topics.stats();
    /// assert_eq!((stats.topics, stats.created, stats.unheard), (0, 1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> TopicsStats {
        self.shared.stats()
    }

    /// Returns the statistics of one topic's bus, or `None` if the topic does not exist. The
    /// statistics include watchers of the topic that belong to readers created by
    /// [`watch_matching`](Self::watch_matching).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::topics::Topics;
    ///
    /// let topics = Topics::<String, u8>::new();
    /// let _watcher = topics.watch_with("a", |watcher| watcher.name("view").watch())?;
    /// assert_eq!(topics.stats_of("a").unwrap().watchers[0].name, "view");
    /// assert!(topics.stats_of("b").is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats_of<Q>(&self, key: &Q) -> Option<BusStats>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let bus = self.shared.topics.get(key, |topic| topic.bus.clone())?;
        Some(bus.stats())
    }
}

impl<K, T> Topics<K, T>
where
    K: Clone + Hash + Eq + Send + Sync + 'static,
    T: Clone + Send + Sync + 'static,
{
    /// Registers a watcher of one topic, with the default settings from
    /// [`TopicsOptions::bus`](TopicsOptions::bus). If the topic does not exist, it is created.
    ///
    /// # Errors
    ///
    /// - [`WatchError::Closed`] if the topics are closed.
    /// - [`WatchError::TooManyTopics`] if the topic does not exist and the number of other topics
    ///   has reached [`max_topics`](TopicsOptions::max_topics).
    /// - [`WatchError::WouldDeadlock`] as for [`WatchBuilder::watch`].
    ///
    /// # Blocking
    ///
    /// Same as [`WatchBuilder::watch`] on an inline bus.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Delivery;
    /// use eventcast::topics::Topics;
    ///
    /// let topics = Topics::new();
    /// let mut watcher = topics.watch(&"a")?;
    /// topics.publish(&"a", 1)?;
    /// assert_eq!(watcher.recv()?, Delivery::Event(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "subscribe")]
    #[track_caller]
    pub fn watch<Q>(&self, key: &Q) -> Result<Watcher<T>, WatchError>
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + Hash + Eq + ?Sized,
    {
        #[allow(clippy::redundant_closure_for_method_calls, reason = "the method is not general enough")]
        self.watch_with(key, |watcher| watcher.watch())
    }

    /// Registers a watcher of one topic like [`watch`](Self::watch), but with the settings that
    /// `build` chooses. `build` may also register a handler with [`spawn`](WatchBuilder::spawn) or
    /// [`runner`](WatchBuilder::runner).
    ///
    /// # Errors
    ///
    /// Same as [`watch`](Self::watch), and any error that `build` returns.
    ///
    /// # Blocking
    ///
    /// Same as [`watch`](Self::watch).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::topics::Topics;
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let topics = Topics::<String, u32>::new();
    /// let (tx, rx) = mpsc::channel();
    /// let handler = topics.watch_with("a", |watcher| {
    ///     watcher.name("handler").spawn(move |delivery| tx.send(delivery.event().copied()).unwrap())
    /// })?;
    /// topics.publish("a", 7)?;
    /// assert_eq!(rx.recv()?, Some(7));
    /// topics.close();
    /// assert!(handler.join(Duration::from_secs(10)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn watch_with<Q, R>(
        &self,
        key: &Q,
        build: impl FnOnce(WatchBuilder<'_, T>) -> Result<R, WatchError>,
    ) -> Result<R, WatchError>
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + Hash + Eq + ?Sized,
    {
        let (lease, bus) = Shared::lease(&self.shared, key.to_owned())?;
        build(bus.watch_builder().lease(lease))
    }

    /// Watches all topics whose keys match a pattern, including topics that are created later. Each
    /// topic's queue has the default settings from [`TopicsOptions::bus`](TopicsOptions::bus).
    ///
    /// See [`SubjectPattern`] for the pattern syntax, which is the syntax of NATS subjects. Glob
    /// patterns such as Redis's `order*` are not supported. While the reader exists, publishing to
    /// a matching key creates the key's topic. If a topic is watched only by such readers, and
    /// these readers have received everything, the topic is eligible for removal. Eligible topics
    /// are removed from time to time, and when the limit on topics is reached. If a search at the
    /// limit has found little to remove, one request for every 64 topics may fail with
    /// [`TooManyTopics`](WatchError::TooManyTopics) before the next search.
    ///
    /// # Errors
    ///
    /// - [`WatchError::Invalid`] if the pattern is invalid, or if the policy is `Evict`.
    /// - [`WatchError::Closed`] if the topics are closed.
    /// - [`WatchError::WouldDeadlock`] as for [`WatchBuilder::watch`].
    ///
    /// # Blocking
    ///
    /// Same as [`watch`](Self::watch), for each matching topic that already exists.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Delivery;
    /// use eventcast::topics::Topics;
    ///
    /// let topics = Topics::<String, u8>::new();
    /// let mut created = topics.watch_matching("orders.*.created")?;
    /// topics.publish("orders.7.created", 1)?;
    /// assert_eq!(created.recv()?, ("orders.7.created".to_owned(), Delivery::Event(1)));
    /// assert!(topics.watch_matching("orders..created").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "PSUBSCRIBE")]
    #[track_caller]
    pub fn watch_matching(&self, pattern: &str) -> Result<TopicsReader<K, T>, WatchError>
    where
        K: AsRef<str>,
    {
        self.watch_matching_with(pattern, WatchOptions::default())
    }

    /// Like [`watch_matching`](Self::watch_matching), watches all topics that match a pattern, but
    /// with the given options for each topic's queue.
    ///
    /// # Errors
    ///
    /// Same as [`watch_matching`](Self::watch_matching), and [`WatchError::Invalid`] if an option
    /// is out of range, or if the policy is [`Evict`](OverflowPolicy::Evict), which would end the
    /// watchers of individual topics.
    ///
    /// # Blocking
    ///
    /// Same as [`watch_matching`](Self::watch_matching).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::topics::Topics;
    /// use eventcast::{Delivery, OverflowPolicy, WatchOptions};
    ///
    /// let topics = Topics::new();
    /// let newest = WatchOptions::default().queue_capacity(1).overflow(OverflowPolicy::DropOldest);
    /// let mut reader = topics.watch_matching_with("price.*", newest)?;
    /// topics.publish_batch(&"price.a", [1, 2, 3])?;
    /// assert_eq!(reader.recv()?, ("price.a", Delivery::Lagged(2)));
    /// assert_eq!(reader.recv()?, ("price.a", Delivery::Event(3)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn watch_matching_with(
        &self,
        pattern: &str,
        options: WatchOptions,
    ) -> Result<TopicsReader<K, T>, WatchError>
    where
        K: AsRef<str>,
    {
        let pattern = SubjectPattern::new(pattern)?;
        if self.is_closed() {
            return Err(WatchError::Closed);
        }
        // The topics' watchers have the same options as this watcher, so none of their
        // registrations fails.
        let stats = self.shared.new_bus()?.watch_builder().options(options.clone()).watch()?.stats();
        let options = options.name(&stats.name);
        if stats.policy == Some(OverflowPolicy::Evict) {
            let allowed = "a policy that does not end the watchers of single topics";
            return Err(BuildError::new("overflow", OverflowPolicy::Evict, allowed).into());
        }
        let parker = Parker::new();
        let matches = move |key: &K| pattern.matches(key.as_ref());
        let inbox = Arc::new(Inbox::new(unique_id(), options, &parker, matches));
        let reader = TopicsReader::new(self.shared.clone(), inbox.clone(), parker);
        Shared::add_reader(&self.shared, &inbox)?;
        Ok(reader)
    }
}

impl<K: Hash + Eq, T> Default for Topics<K, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Hash + Eq, T> Drop for Topics<K, T> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<K: Hash + Eq, T> fmt::Debug for Topics<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topics").field("topics", &self.len()).finish_non_exhaustive()
    }
}
