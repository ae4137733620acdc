//! The library's bus, with watchers whose filters and hooks may publish on it.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use eventcast::error::{FlushError, PublishError, TryRecvError, WatchError};
use eventcast::stats::{DropReason, WatcherStats};
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, Delivery, Publisher, Watcher};
use futures::FutureExt;

use super::api::{Event, Figures, How, Item, Nothing, Numbers, Place, Received, Refused, Says, Spec, Totals};

pub struct Real {
    pub bus: Broadcaster<Event>,
    clock: FakeClock,
}

impl Real {
    pub fn new(incoming_capacity: usize, max_batch: usize, is_inline: bool) -> Self {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH).drive_the_end();
        let options = BusOptions::default().incoming_capacity(incoming_capacity).max_batch(max_batch);
        let bus = Broadcaster::with_clock(options.inline(is_inline), clock.clock()).unwrap();
        Self { bus, clock }
    }

    pub fn publish(&self, events: Vec<Event>, how: How) -> Result<(), Refused> {
        publish(&self.bus.publisher(), events, how)
    }

    pub fn publish_gap(&self, events: u64) -> Result<(), Refused> {
        publish_gap(&self.bus.publisher(), events)
    }

    /// Registers the watcher with this number. Returns `None` if the bus is closed.
    pub fn watch(&self, spec: &Spec, number: usize) -> Option<RealReader> {
        let closes = spec.speaker.is_some_and(|speaker| matches!(speaker.says, Says::Close));
        let notes = Arc::new(Mutex::new(Notes {
            spec: spec.clone(),
            publisher: self.bus.publisher(),
            bus: closes.then(|| self.bus.clone()),
            numbers: Numbers::new(number),
            told: Vec::new(),
            asked: Vec::new(),
            heard: Vec::new(),
        }));
        let noted = notes.clone();
        let builder = self
            .bus
            .watch_builder()
            .queue_capacity(spec.queue_capacity)
            .overflow(spec.policy)
            .prefix(spec.prefix.clone())
            .on_drop(move |reason, events| {
                let mut notes = noted.lock().unwrap();
                notes.told.extend(events.iter().map(|event| (reason, *event)));
                for event in events {
                    notes.speak(Place::Hook, *event);
                }
            });
        // The bus's code path without a filter differs from the code path with a filter that keeps
        // all events.
        let builder = if spec.has_filter() {
            let (noted, filter) = (notes.clone(), spec.filter);
            builder.filter(move |event| {
                let mut notes = noted.lock().unwrap();
                notes.asked.push(*event);
                notes.speak(Place::Filter, *event);
                drop(notes);
                // Unwinds without invoking the panic hook, so that no message is written.
                filter.keeps(*event).unwrap_or_else(|| resume_unwind(Box::new(())))
            })
        } else {
            builder
        };
        match builder.watch() {
            Ok(watcher) => Some(RealReader { watcher, notes }),
            Err(WatchError::Closed) => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Flushes the bus. Returns `false` if something was abandoned.
    pub fn flush(&self) -> bool {
        match self.bus.flush(Duration::MAX) {
            Ok(()) => true,
            Err(FlushError::Abandoned) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Closes the bus and waits for it to end, or immediately abandons the remaining events if
    /// `give_up` is set. Returns whether everything was offered.
    pub fn shutdown(&self, give_up: bool) -> bool {
        if give_up {
            self.bus.shutdown_timeout(Duration::ZERO).complete
        } else {
            self.bus.shutdown().complete
        }
    }

    pub fn totals(&self) -> Totals {
        let stats = self.bus.stats();
        Totals {
            accepted: stats.accepted,
            rejected_full: stats.rejected_full,
            rejected_closed: stats.rejected_closed,
            watchers: Figures::sum(stats.watchers.iter().chain([&stats.departed]).map(figures)),
            listed: Some(stats.watchers.len()),
        }
    }
}

/// Publishes in the given way.
fn publish(publisher: &Publisher<Event>, events: Vec<Event>, how: How) -> Result<(), Refused> {
    let result = match how {
        How::Try => publisher.try_publish(events[0]),
        How::Wait => publisher.publish(events[0]),
        How::Timeout => publisher.publish_timeout(events[0], Duration::ZERO),
        How::Async => match publisher.publish_async(events[0]).now_or_never() {
            Some(result) => result,
            None => return Err(Refused::Waiting),
        },
        How::Batch | How::TryBatch => {
            let wait = how == How::Batch;
            let result =
                if wait { publisher.publish_batch(events) } else { publisher.try_publish_batch(events) };
            return result.map_err(|error| refused(error, |events| events));
        }
    };
    result.map_err(|error| refused(error, |event| vec![event]))
}

fn refused<E>(error: PublishError<E>, events: impl Fn(E) -> Vec<Event>) -> Refused {
    match error {
        PublishError::Full(refused) => Refused::Full(events(refused)),
        PublishError::Closed(refused) => Refused::Stopped(events(refused)),
        _ => unreachable!("the models know all refusals"),
    }
}

fn publish_gap(publisher: &Publisher<Event>, events: u64) -> Result<(), Refused> {
    publisher.publish_gap(events).map_err(|error| refused(error, |()| Vec::new()))
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

/// A watcher. Dropping it drops its reader.
pub struct RealReader {
    pub watcher: Watcher<Event>,
    notes: Arc<Mutex<Notes>>,
}

/// The arguments passed to a watcher's filter and hook, and the events that they publish.
struct Notes {
    spec: Spec,
    publisher: Publisher<Event>,
    /// The bus, if the watcher closes it.
    bus: Option<Broadcaster<Event>>,
    numbers: Numbers,
    told: Vec<(DropReason, Event)>,
    asked: Vec<Event>,
    heard: Vec<Result<(), Refused>>,
}

impl Notes {
    fn speak(&mut self, place: Place, event: Event) {
        let Some(says) = self.spec.says(place, event) else { return };
        let heard = match says {
            Says::Publish(how, count) => publish(&self.publisher, self.numbers.take(count), how),
            Says::Gap(events) => publish_gap(&self.publisher, events),
            Says::Close => {
                self.heard.push(publish(&self.publisher, self.numbers.take(1), How::Try));
                self.bus.as_ref().unwrap().close();
                publish(&self.publisher, self.numbers.take(1), How::Wait)
            }
        };
        self.heard.push(heard);
    }
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

impl RealReader {
    pub fn receive(&mut self) -> Received {
        Ok(self.watcher.try_recv()?.into())
    }

    /// Receives like `receive`, but the reader borrows the event until its next call. Blocks until
    /// there is an event, so the program calls this method only if there is an event.
    pub fn receive_ref(&mut self) -> Received {
        self.watcher.recv_ref().map(Item::from).map_err(|_| Nothing::Ever)
    }

    /// Receives everything that is available. Returns the number of events lost before the received
    /// events, and the received events.
    pub fn receive_batch(&mut self) -> Result<(u64, Vec<Event>), Nothing> {
        let batch = self.watcher.try_recv_batch()?;
        Ok((batch.lagged, batch.to_vec()))
    }

    pub fn figures(&self) -> Figures {
        figures(&self.watcher.stats())
    }

    /// Returns the events that the watcher's hook was called for, each with the reason for its
    /// loss.
    pub fn told(&self) -> Vec<(DropReason, Event)> {
        self.notes.lock().unwrap().told.clone()
    }

    /// Returns the events that the watcher's filter was called for.
    pub fn asked(&self) -> Vec<Event> {
        self.notes.lock().unwrap().asked.clone()
    }

    /// Returns the results of the publish calls made by the watcher's filter and hook.
    pub fn heard(&self) -> Vec<Result<(), Refused>> {
        self.notes.lock().unwrap().heard.clone()
    }
}
