//! The library's bus behind the twin's trait.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use eventcast::error::{FlushError, PublishError, TryRecvError, WatchError};
use eventcast::stats::{DropReason, WatcherStats};
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, Delivery, Publisher, Watcher};
use futures::FutureExt;

use super::api::{Bus, Event, Figures, How, Item, Nothing, Reader, Received, Refused, Spec, Totals};

pub struct Real {
    pub bus: Broadcaster<Event>,
    clock: FakeClock,
}

impl Real {
    pub fn new(incoming_len: usize, max_batch: usize) -> Self {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH).drive_the_end();
        let options = BusOptions::default().incoming_len(incoming_len).max_batch(max_batch);
        Self { bus: Broadcaster::with_clock(options, clock.clock()).unwrap(), clock }
    }

    /// Builds a bus without a thread.
    pub fn inline(incoming_len: usize, max_batch: usize) -> Self {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH).drive_the_end();
        let options = BusOptions::default().incoming_len(incoming_len).max_batch(max_batch).inline(true);
        Self { bus: Broadcaster::with_clock(options, clock.clock()).unwrap(), clock }
    }
}

/// Publishes in the given way.
pub fn publish(publisher: &Publisher<Event>, events: Vec<Event>, how: How) -> Result<(), Refused> {
    match how {
        How::Try => publisher.try_publish(events[0]).map_err(refused_one),
        How::Wait => publisher.publish(events[0]).map_err(refused_one),
        How::Timeout => publisher.publish_timeout(events[0], Duration::ZERO).map_err(refused_one),
        How::Batch => publisher.publish_batch(events).map_err(refused),
        How::TryBatch => publisher.try_publish_batch(events).map_err(refused),
        How::Async => match publisher.publish_async(events[0]).now_or_never() {
            Some(result) => result.map_err(refused_one),
            None => Err(Refused::Waiting),
        },
    }
}

fn refused(error: PublishError<Vec<Event>>) -> Refused {
    match error {
        PublishError::Full(events) => Refused::Full(events),
        PublishError::Closed(events) => Refused::Stopped(events),
        _ => unreachable!("the twin knows all refusals"),
    }
}

fn refused_one(error: PublishError<Event>) -> Refused {
    match error {
        PublishError::Full(event) => Refused::Full(vec![event]),
        PublishError::Closed(event) => Refused::Stopped(vec![event]),
        _ => unreachable!("the twin knows all refusals"),
    }
}

pub fn figures(stats: &WatcherStats) -> Figures {
    let dropped = &stats.dropped;
    Figures {
        offered: stats.offered,
        delivered: stats.delivered,
        dropped: [dropped.incoming, dropped.oldest, dropped.timed_out, dropped.stopped, dropped.abandoned],
        filtered: stats.filtered,
        missed: stats.missed,
        queued: Some(stats.queued),
        high_water: stats.high_water,
        evictions: stats.evictions,
        panics: stats.panics,
    }
}

impl Bus for Real {
    type Reader = RealReader;

    fn publish(&self, events: Vec<Event>, how: How) -> Result<(), Refused> {
        publish(&self.bus.publisher(), events, how)
    }

    fn watch(&self, spec: &Spec) -> Option<RealReader> {
        let told = Arc::new(Mutex::new(Vec::new()));
        let (hook, filter) = (told.clone(), spec.filter);
        let builder = self
            .bus
            .watch_builder()
            .queue_len(spec.queue_len)
            .overflow(spec.policy)
            .prefix(spec.prefix.clone())
            .on_drop(move |reason, events| {
                hook.lock().unwrap().extend(events.iter().map(|event| (reason, *event)));
            });
        // Without a filter the bus takes another path than with a filter that keeps all events.
        let builder = match filter {
            super::api::Filter::None => builder,
            // A panic without a message, so that nothing is written for it.
            _ => builder
                .filter(move |event| filter.keeps(*event).unwrap_or_else(|| resume_unwind(Box::new(())))),
        };
        match builder.watch() {
            Ok(watcher) => Some(RealReader { watcher, told }),
            Err(WatchError::Closed) => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn flush(&self) -> bool {
        match self.bus.flush(Duration::MAX) {
            Ok(()) => true,
            Err(FlushError::Abandoned) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn close(&self) {
        self.bus.close();
    }

    fn shutdown(&self, give_up: bool) -> bool {
        if give_up {
            self.bus.shutdown_timeout(Duration::ZERO).complete
        } else {
            self.bus.shutdown().complete
        }
    }

    fn totals(&self) -> Totals {
        let stats = self.bus.stats();
        let mut watchers = Figures { queued: Some(0), ..Figures::default() };
        stats.watchers.iter().chain([&stats.departed]).for_each(|stats| watchers.add(&figures(stats)));
        Totals {
            accepted: stats.accepted,
            rejected_full: stats.rejected_full,
            rejected_closed: stats.rejected_closed,
            watchers,
            listed: Some(stats.watchers.len()),
        }
    }
}

pub struct RealReader {
    pub watcher: Watcher<Event>,
    pub told: Arc<Mutex<Vec<(DropReason, Event)>>>,
}

impl From<TryRecvError> for Nothing {
    fn from(error: TryRecvError) -> Self {
        match error {
            TryRecvError::Empty => Self::Yet,
            TryRecvError::Ended => Self::Ever,
        }
    }
}

impl From<Delivery<Event>> for Item {
    fn from(delivery: Delivery<Event>) -> Self {
        delivery.as_ref().into()
    }
}

impl From<Delivery<&Event>> for Item {
    fn from(delivery: Delivery<&Event>) -> Self {
        match delivery {
            Delivery::Event(event) => Self::Event(*event),
            Delivery::Lagged(count) => Self::Lagged(count),
        }
    }
}

impl Reader for RealReader {
    fn receive(&mut self) -> Received {
        Ok(self.watcher.try_recv()?.into())
    }

    /// Waits for an event. The program calls it only where there is one.
    fn receive_ref(&mut self) -> Received {
        self.watcher.recv_ref().map(Item::from).map_err(|_| Nothing::Ever)
    }

    /// Receives everything that there is, whatever `most` says.
    fn receive_batch(&mut self, _most: usize) -> Result<(u64, Vec<Event>), Nothing> {
        let batch = self.watcher.try_recv_batch()?;
        Ok((batch.lagged, batch.to_vec()))
    }

    fn stop(&self) {
        self.watcher.stop();
    }

    fn figures(&self) -> Figures {
        figures(&self.watcher.stats())
    }

    fn told(&self) -> Vec<(DropReason, Event)> {
        self.told.lock().unwrap().clone()
    }
}
