//! Publish-subscribe by key, with a separate bus for each topic that has watchers.
//!
//! [`Topics`] maps keys to [inline buses](crate::Broadcaster::new_inline). A topic is created when
//! its first watcher registers, and removed when its last watcher is dropped, so a key without
//! watchers has no bus. A topic's watchers have the same policies, exact loss accounting and
//! history as the watchers of any other bus. [`Topics::watch_matching`] watches all topics that
//! match a pattern such as `orders.*.created`, including those that do not exist yet.
//!
//! # Examples
//!
//! ```
//! use eventcast::Delivery;
//! use eventcast::topics::Topics;
//!
//! let topics = Topics::<String, u32>::new();
//! let mut lobby = topics.watch("chat.lobby")?;
//! let mut chats = topics.watch_matching("chat.*")?;
//!
//! assert_eq!(topics.publish("chat.lobby", 1)?, 2);
//! assert_eq!(topics.publish("chat.garden", 2)?, 1);
//! assert_eq!(topics.publish("news", 3)?, 0);
//!
//! assert_eq!(lobby.recv()?, Delivery::Event(1));
//! assert_eq!(chats.recv()?, ("chat.lobby".to_owned(), Delivery::Event(1)));
//! assert_eq!(chats.recv()?, ("chat.garden".to_owned(), Delivery::Event(2)));
//! topics.close();
//! assert!(lobby.recv().is_err() && chats.recv().is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//!
//! - If [`watch`](Topics::watch) has returned a watcher before a publish call for the same key
//!   begins, the watcher is offered the event, even if the key's previous topic is being removed at
//!   the same time.
//! - All watchers of a topic see the topic's events in the same order. This guarantee includes
//!   readers created by [`watch_matching`](Topics::watch_matching), as long as the topic exists
//!   without interruption.
//! - Publishing to a key that has no watchers does not create a topic. The publish call returns 0,
//!   and the event counts as [`unheard`](TopicsStats::unheard).
//! - A topic's history and positions are lost when the topic is removed.
//!
//! # Order across topics
//!
//! There is no order between events of different topics. If a reader needs a single order across
//! several topics, use one bus, and give each watcher a filter that checks whether the event's
//! topic is in the watcher's set of topics:
//!
//! ```
//! use eventcast::Broadcaster;
//! use std::collections::HashSet;
//! use std::sync::{Arc, RwLock};
//!
//! let bus = Broadcaster::new_inline();
//! let topics = Arc::new(RwLock::new(HashSet::from(["a", "b"])));
//! let wanted = topics.clone();
//! let mut watcher =
//!     bus.watch_builder().filter(move |(topic, _)| wanted.read().unwrap().contains(topic)).watch()?;
//! let publisher = bus.publisher();
//! publisher.publish_batch([("b", 1), ("c", 2), ("a", 3)])?;
//! topics.write().unwrap().insert("c");
//! publisher.publish(("c", 4))?;
//! bus.close();
//! assert_eq!(watcher.events().collect::<Vec<_>>(), [("b", 1), ("a", 3), ("c", 4)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Do not hold the set's lock while publishing.
//!
//! # Costs
//!
//! A publish call looks up the topic in a sharded map, and then publishes on the topic's bus
//! without holding a lock of the map. With its first watcher and without events, a topic
//! takes up to 2.5 KiB, if its key is small.
//!
//! # Locks and atomics
//!
//! No user code runs while one of these locks is held, except for the key's implementations of
//! `Clone`, `Drop`, `Hash`, `Eq`, `Borrow` and `AsRef<str>`. These implementations must not call
//! methods of the same `Topics`.
//!
//! | lock | taken by | may be held already | held for |
//! |---|---|---|---|
//! | `TopicMap::shards`, a single lock in models | each call with a key, dropping a watcher, `close`, `stats` | none | a change to an entry, which may include creating a bus |
//! | `Shared::inboxes` | creating a topic, publishing to a key without one, `watchers`, creating or dropping a reader of a pattern, a sweep, `close` | `TopicMap::shards` | a scan of the readers |
//! | `Inbox::news` | creating a topic, a publisher that wakes a reader of a pattern, that reader, a sweep, `close` | `TopicMap::shards`, `Shared::inboxes` | a change to the lists |
//! | `Shared::past` | dropping a topic's last watcher, `stats` | none | a scan of the buses that are ending |
//!
//! A new bus also has locks, which are taken while `TopicMap::shards` and `Shared::inboxes` are
//! held. No other thread can hold the locks of a new bus, because no other thread has access to the
//! bus yet.
//!
//! | atomic | written by | ordering | read by | ordering | what it publishes |
//! |---|---|---|---|---|---|
//! | `Shared::closed` | `close` | relaxed, before each shard's lock | creating a topic, a publish call that finds none | relaxed, under the shard's lock when creating | that no topic may be created |
//! | `Shared::count`, `Shared::unwatched`, `Shared::sweeps_to_skip` | creating and removing topics | relaxed RMW | the same, `len`, `stats` | relaxed | numbers |
//! | `Shared::readers` | creating or dropping a reader of a pattern | relaxed, under the lock | a publish call that finds no topic | relaxed | whether a pattern may match |

mod inbox;
mod map;
mod options;
mod past;
mod pattern;
mod publish;
mod reader;
mod shared;
mod stats;
#[allow(clippy::module_inception, reason = "the file of the type `Topics`")]
mod topics;

pub use self::options::TopicsOptions;
pub use self::pattern::SubjectPattern;
pub use self::reader::TopicsReader;
pub use self::stats::TopicsStats;
#[doc(alias = "channel name")]
#[doc(alias = "pub/sub")]
#[doc(alias = "subject")]
#[doc(alias = "topic")]
#[doc(inline)]
pub use self::topics::Topics;
