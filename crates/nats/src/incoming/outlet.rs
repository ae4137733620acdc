//! The destination of a reader's events, which is either a bus or a watcher without a bus.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use eventcast::{Delivery, Publisher};
use tokio::sync::mpsc;

use crate::options::Overflow;
use crate::stop::{Stop, asked};

use super::remote_event::{Chunk, Mark, Remote};

/// A user-supplied function that turns a remote event into a local event.
pub(crate) type Map<T> = Box<dyn Fn(Remote<T>) -> T + Send + Sync>;

/// The result of putting a message's items into the outlet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Put {
    /// The number of events that were accepted.
    pub(crate) accepted: u64,
    /// The number of events that were reported as missing, including dropped events.
    pub(crate) missing: u64,
    pub(crate) dropped: u64,
    pub(crate) panics: u64,
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

/// The destination of a reader's events.
pub(crate) enum Outlet<T> {
    Bus(BusOutlet<T>),
    Watcher(mpsc::Sender<Chunk<T>>),
}

/// A bus that receives the events.
pub(crate) struct BusOutlet<T> {
    pub(crate) publisher: Publisher<T>,
    pub(crate) map: Map<T>,
    pub(crate) overflow: Overflow,
}

impl<T: Clone + Send + Sync + 'static> Outlet<T> {
    /// Puts a message's items into the outlet, in order.
    pub(crate) async fn put(&mut self, items: Vec<Delivery<Remote<T>>>, mark: Mark, stop: &Stop) -> Put {
        match self {
            Self::Bus(bus) => bus.put(items, stop).await,
            Self::Watcher(watcher) => {
                let mut put = Put::default();
                for item in &items {
                    match item {
                        Delivery::Event(_) => put.accepted += 1,
                        Delivery::Lagged(events) => put.lose(*events),
                    }
                }
                let chunk = Chunk { items: VecDeque::from(items), mark: Some(mark) };
                let is_sent = tokio::select! {
                    biased;
                    sent = watcher.send(chunk) => sent.is_ok(),
                    () = asked(stop.clone()) => false,
                };
                if is_sent { put } else { Put { has_ended: true, ..Put::default() } }
            }
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
            Self::Watcher(watcher) => watcher.closed().await,
        }
    }
}

impl<T: Clone + Send + Sync + 'static> BusOutlet<T> {
    async fn put(&mut self, items: Vec<Delivery<Remote<T>>>, stop: &Stop) -> Put {
        let mut put = Put::default();
        let mut events = Vec::with_capacity(items.len());
        for item in items {
            let missing = match item {
                Delivery::Lagged(events) => events,
                Delivery::Event(remote) => {
                    if let Ok(event) = catch_unwind(AssertUnwindSafe(|| (self.map)(remote))) {
                        events.push(event);
                        continue;
                    }
                    put.panics += 1;
                    1
                }
            };
            self.put_events(std::mem::take(&mut events), &mut put, stop).await;
            self.put_gap(missing, &mut put);
            if put.has_ended {
                return put;
            }
        }
        self.put_events(events, &mut put, stop).await;
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
