//! The publish methods of `Topics`.

use std::borrow::Borrow;
use std::hash::Hash;

use crate::bus::Publisher;
use crate::error::{PublishError, WatchError};
use crate::sync::Tally;

use super::shared::{Found, Shared};
use super::topics::Topics;

/// A constructor of the `PublishError` variant that returns the refused events.
type Refuse<E> = fn(E) -> PublishError<E>;

impl<K, T> Topics<K, T>
where
    K: Clone + Hash + Eq + Send + Sync + 'static,
    T: Clone + Send + Sync + 'static,
{
    /// Publishes an event to a topic, and returns the number of watchers that the topic had when
    /// the call found it (see [`watchers`](Self::watchers)). If the number is 0, the topic does not
    /// exist, and the call does not create it.
    ///
    /// # Errors
    ///
    /// - [`PublishError::Closed`] if the topics are closed.
    /// - [`PublishError::TooManyTopics`] if the key is watched only by a reader created by
    ///   [`watch_matching`](Self::watch_matching), the key's topic does not exist, and
    ///   [`max_topics`](super::TopicsOptions::max_topics) is reached.
    /// - [`PublishError::Full`] only if the call is made from inside another call of an inline bus,
    ///   or on the thread of a handler of this topic, for the reasons listed at
    ///   [`Broadcaster::new_inline`](crate::Broadcaster::new_inline).
    ///
    /// # Blocking
    ///
    /// Waits while a watcher of this topic with the policy `Wait` or `WaitFor` has no capacity,
    /// like [`Publisher::publish`] on an inline bus. Other topics are not affected.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::topics::Topics;
    ///
    /// let topics = Topics::<String, u8>::new();
    /// assert_eq!(topics.publish("a", 1)?, 0);
    /// let watcher = topics.watch("a")?;
    /// assert_eq!((topics.publish("a", 2)?, watcher.len()), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "send")]
    pub fn publish<Q>(&self, key: &Q, event: T) -> Result<usize, PublishError<T>>
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + Hash + Eq + ?Sized,
    {
        self.offer(key, event, |_| 1, Publisher::publish)
    }

    /// Publishes an event like [`publish`](Self::publish), but never waits for capacity.
    ///
    /// # Errors
    ///
    /// Same as [`publish`](Self::publish), and [`PublishError::Full`] if a watcher of this topic
    /// with the policy `Wait` or `WaitFor` has no capacity.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::OverflowPolicy;
    /// use eventcast::topics::Topics;
    ///
    /// let topics = Topics::<String, u8>::new();
    /// let full = |w: eventcast::WatchBuilder<'_, u8>| w.queue_capacity(1).overflow(OverflowPolicy::Wait).watch();
    /// let _watcher = topics.watch_with("a", full)?;
    /// assert_eq!(topics.try_publish("a", 1)?, 1);
    /// assert!(topics.try_publish("a", 2).unwrap_err().is_full());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "try_send")]
    pub fn try_publish<Q>(&self, key: &Q, event: T) -> Result<usize, PublishError<T>>
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + Hash + Eq + ?Sized,
    {
        self.offer(key, event, |_| 1, Publisher::try_publish)
    }

    /// Publishes events to a topic in order. If the topic is removed and created again during the
    /// call, the call returns the greatest number of watchers that some of the events had.
    /// Publishing in batches achieves several times as many events per second as publishing single
    /// events.
    ///
    /// # Errors
    ///
    /// Same as [`publish`](Self::publish). The error contains the events that were not published.
    ///
    /// # Blocking
    ///
    /// Same as [`publish`](Self::publish).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::topics::Topics;
    ///
    /// let topics = Topics::<String, u8>::new();
    /// let watcher = topics.watch("a")?;
    /// assert_eq!((topics.publish_batch("a", [1, 2, 3])?, watcher.len()), (1, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn publish_batch<Q>(
        &self,
        key: &Q,
        events: impl IntoIterator<Item = T>,
    ) -> Result<usize, PublishError<Vec<T>>>
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + Hash + Eq + ?Sized,
    {
        self.offer(key, events.into_iter().collect(), Vec::len, |publisher, events| {
            publisher.publish_batch(events)
        })
    }

    /// Publishes an event like [`publish`](Self::publish), but asynchronously.
    ///
    /// This method is cancel-safe. If the future is dropped before it completes, the event has not
    /// been published.
    ///
    /// # Errors
    ///
    /// Same as [`publish`](Self::publish).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::topics::Topics;
    ///
    /// let topics = Topics::<String, u8>::new();
    /// let watcher = topics.watch("a")?;
    /// let offered = futures::executor::block_on(topics.publish_async("a", 1))?;
    /// assert_eq!((offered, watcher.len()), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn publish_async<Q>(
        &self,
        key: &Q,
        event: T,
    ) -> impl Future<Output = Result<usize, PublishError<T>>> + Send
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + Hash + Eq + Sync + ?Sized,
    {
        async move {
            let (mut event, mut refused_by) = (event, None);
            loop {
                let found = match self.find(key, 1, refused_by) {
                    Ok(Some(found)) => found,
                    Ok(None) => return Ok(0),
                    Err(refusal) => return Err(refusal(event)),
                };
                match found.publisher.publish_async(event).await {
                    Ok(()) => return Ok(found.watchers),
                    Err(PublishError::Closed(refused)) => {
                        (event, refused_by) = (refused, Some(found.number));
                    }
                    Err(error) => {
                        self.shared.rejected_full.add(1);
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Publishes events to a key's topic by calling `push` with the topic's publisher.
    fn offer<Q, E>(
        &self,
        key: &Q,
        mut events: E,
        count: impl Fn(&E) -> usize,
        push: impl Fn(&Publisher<T>, E) -> Result<(), PublishError<E>>,
    ) -> Result<usize, PublishError<E>>
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + Hash + Eq + ?Sized,
    {
        let (mut refused_by, mut offered) = (None, 0);
        loop {
            let before = count(&events);
            let found = match self.find(key, before, refused_by) {
                Ok(Some(found)) => found,
                Ok(None) => return Ok(offered),
                Err(refusal) => return Err(refusal(events)),
            };
            match push(&found.publisher, events) {
                Ok(()) => return Ok(found.watchers.max(offered)),
                Err(PublishError::Closed(refused)) => {
                    if count(&refused) < before {
                        offered = found.watchers.max(offered);
                    }
                    (events, refused_by) = (refused, Some(found.number));
                }
                Err(error) => {
                    let refused = error.into_inner();
                    self.shared.rejected_full.add(count(&refused) as u64);
                    return Err(PublishError::Full(refused));
                }
            }
        }
    }

    /// Finds a key's topic for publishing the given number of events. `refused_by` is the number of
    /// the topic whose closed bus has refused the events. If that topic is still in the map, the
    /// topic was not removed, so all topics are closed.
    ///
    /// # Errors
    ///
    /// Returns the constructor of the error with which the caller must refuse the events.
    fn find<Q, E>(
        &self,
        key: &Q,
        events: usize,
        refused_by: Option<u64>,
    ) -> Result<Option<Found<T>>, Refuse<E>>
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + Hash + Eq + ?Sized,
    {
        let count = |tally: &Tally| tally.add(events as u64);
        match Shared::find(&self.shared, key) {
            Ok(Some(found)) if Some(found.number) != refused_by => Ok(Some(found)),
            Ok(None) => {
                count(&self.shared.unheard);
                Ok(None)
            }
            Err(WatchError::TooManyTopics(_)) => {
                count(&self.shared.rejected_full);
                Err(PublishError::TooManyTopics)
            }
            Ok(Some(_)) | Err(_) => {
                count(&self.shared.rejected_closed);
                Err(PublishError::Closed)
            }
        }
    }
}
