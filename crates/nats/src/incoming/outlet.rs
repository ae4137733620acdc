//! The destination of a reader's events, which is either a bus or a watcher without a bus.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use eventcast::{Delivery, Publisher};
use tokio::sync::mpsc;

use crate::options::Overflow;
use crate::positions::Step;
use crate::stop::{Stop, asked};
use crate::wire::Head;

use super::decode::Decoder;
use super::items::Items;
use super::remote_event::{Chunk, Mark, Remote};
use super::session::Stored;

/// The number of staged events from which on no further message is staged.
const EVENTS: usize = 256;

/// A user-supplied function that turns a remote event into a local event.
pub(crate) type Map<T> = Box<dyn Fn(Remote<T>) -> T + Send + Sync>;

/// The result of putting the staged items into the outlet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Put {
    /// The number of events that were accepted.
    pub(crate) accepted: u64,
    /// The number of events that were reported as missing, including dropped events.
    pub(crate) missing: u64,
    pub(crate) dropped: u64,
    /// Whether the outlet or the reader has ended. If this is true, the items after the accepted
    /// and missing events were not put into the outlet.
    pub(crate) has_ended: bool,
}

impl Put {
    /// Adds events that were reported as missing. A hostile message may specify the number of these
    /// events, so the addition saturates.
    fn lose(&mut self, events: u64) {
        self.missing = self.missing.saturating_add(events);
    }

    /// Returns the number of events that were accepted or reported as missing.
    pub(crate) fn handled(&self) -> u64 {
        self.accepted.saturating_add(self.missing)
    }
}

/// The destination of a reader's events, with the items that are staged for the next `put`.
pub(crate) enum Outlet<T> {
    Bus(BusOutlet<T>),
    Watcher(WatcherOutlet<T>),
}

/// A bus that receives the events.
pub(crate) struct BusOutlet<T> {
    publisher: Publisher<T>,
    /// Without a function, the local event is the remote event's `event` field.
    map: Option<Map<T>>,
    overflow: Overflow,
    staged: Items<T>,
}

/// A watcher without a bus, which receives the items of each message separately.
pub(crate) struct WatcherOutlet<T> {
    chunks: mpsc::Sender<Chunk<T>>,
    staged: Items<Remote<T>>,
}

impl<T: Clone + Send + Sync + 'static> Outlet<T> {
    pub(crate) fn bus(publisher: Publisher<T>, map: Option<Map<T>>, overflow: Overflow) -> Self {
        Self::Bus(BusOutlet { publisher, map, overflow, staged: Items::new() })
    }

    pub(crate) fn watcher(chunks: mpsc::Sender<Chunk<T>>) -> Self {
        Self::Watcher(WatcherOutlet { chunks, staged: Items::new() })
    }

    /// Stages a gap.
    pub(crate) fn stage_gap(&mut self, events: u64) {
        match self {
            Self::Bus(bus) => bus.staged.lose(events),
            Self::Watcher(watcher) => watcher.staged.lose(events),
        }
    }

    /// Stages a message's new events.
    pub(crate) fn stage(&mut self, decoder: &Decoder<'_, T>, stored: &Stored, judged: (&Head, Step)) {
        let origin = judged.0.origin.shared();
        let remote =
            |event, position| Remote::new(event, origin.clone(), position, stored.sequence, stored.at);
        match self {
            Self::Bus(BusOutlet { map: None, staged, .. }) => {
                decoder.decode(stored, judged, staged, |event, _| Some(event));
            }
            Self::Bus(BusOutlet { map: Some(map), staged, .. }) => {
                decoder.decode(stored, judged, staged, |event, position| {
                    catch_unwind(AssertUnwindSafe(|| map(remote(event, position)))).ok()
                });
            }
            Self::Watcher(watcher) => {
                decoder.decode(stored, judged, &mut watcher.staged, |event, position| {
                    Some(remote(event, position))
                });
            }
        }
    }

    /// Returns whether the items of another message may be staged before the next `put`.
    pub(crate) fn has_space(&self) -> bool {
        match self {
            Self::Bus(bus) => bus.staged.len() < EVENTS,
            Self::Watcher(_) => false,
        }
    }

    /// Puts the staged items into the outlet, in order. If the outlet is a watcher, the watcher
    /// sends back the mark once it has received the items.
    pub(crate) async fn put(&mut self, mark: Mark, stop: &Stop) -> Put {
        match self {
            Self::Bus(bus) => bus.put(stop).await,
            Self::Watcher(watcher) => watcher.put(mark, stop).await,
        }
    }

    /// Returns true if a message is finished once the outlet has accepted it, and false if the
    /// reader must wait for a mark.
    pub(crate) fn is_done_at_once(&self) -> bool {
        matches!(self, Self::Bus(_))
    }

    /// Waits until the outlet has ended.
    pub(crate) async fn ended(&mut self) {
        match self {
            Self::Bus(_) => std::future::pending().await,
            Self::Watcher(watcher) => watcher.chunks.closed().await,
        }
    }
}

impl<T> WatcherOutlet<T> {
    async fn put(&mut self, mark: Mark, stop: &Stop) -> Put {
        let mut put = Put::default();
        let mut items = VecDeque::with_capacity(self.staged.len() + 1);
        for run in self.staged.take() {
            if run.missing > 0 {
                put.lose(run.missing);
                items.push_back(Delivery::Lagged(run.missing));
            }
            put.accepted += run.events.len() as u64;
            items.extend(run.events.into_iter().map(Delivery::Event));
        }
        if items.is_empty() && mark.reached.is_none() {
            // The message contains nothing for the watcher.
            return put;
        }
        let chunk = Chunk { items, mark: Some(mark) };
        let is_sent = tokio::select! {
            biased;
            sent = self.chunks.send(chunk) => sent.is_ok(),
            () = asked(stop.clone()) => false,
        };
        if is_sent { put } else { Put { has_ended: true, ..Put::default() } }
    }
}

impl<T: Clone + Send + Sync + 'static> BusOutlet<T> {
    async fn put(&mut self, stop: &Stop) -> Put {
        let mut put = Put::default();
        for run in self.staged.take() {
            if run.missing > 0 {
                self.put_gap(run.missing, &mut put);
            }
            self.put_events(run.events, &mut put, stop).await;
            if put.has_ended {
                break;
            }
        }
        put
    }

    async fn put_events(&mut self, mut rest: Vec<T>, put: &mut Put, stop: &Stop) {
        if put.has_ended || rest.is_empty() {
            return;
        }
        loop {
            let before = rest.len() as u64;
            let refused = match self.publisher.try_publish_batch(rest) {
                Ok(()) => {
                    put.accepted += before;
                    return;
                }
                Err(refused) => refused,
            };
            put.has_ended = refused.is_closed();
            rest = refused.into_inner();
            put.accepted += before - rest.len() as u64;
            if put.has_ended {
                return;
            }
            if self.overflow == Overflow::Drop {
                let before = put.missing;
                self.put_gap(rest.len() as u64, put);
                put.dropped += put.missing - before;
                return;
            }
            tokio::select! {
                biased;
                // The next attempt shows whether the bus has ended.
                _ = self.publisher.ready() => {}
                () = asked(stop.clone()) => {
                    put.has_ended = true;
                    return;
                }
            }
        }
    }

    /// Publishes a gap, which requires no capacity on the bus.
    fn put_gap(&self, events: u64, put: &mut Put) {
        if !put.has_ended {
            match self.publisher.publish_gap(events) {
                Ok(()) => put.lose(events),
                Err(_) => put.has_ended = true,
            }
        }
    }
}
