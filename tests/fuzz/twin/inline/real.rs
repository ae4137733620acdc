//! The inline bus itself, with watchers whose filters and hooks publish.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};

use eventcast::error::{PublishError, WatchError};
use eventcast::stats::DropReason;
use eventcast::{Broadcaster, Publisher};

use crate::twin::api::{Event, Filter, How, Refused};
use crate::twin::real::{RealReader, publish};

use super::speech::{Numbers, Place, Says, Watching};

pub struct SpeakingReader {
    pub reader: RealReader,
    asked: Arc<Mutex<Vec<Event>>>,
    voice: Arc<Mutex<Voice>>,
}

/// The part of a watcher that publishes.
struct Voice {
    watching: Watching,
    publisher: Publisher<Event>,
    numbers: Numbers,
    heard: Vec<Result<(), Refused>>,
}

impl Voice {
    fn speak(&mut self, place: Place, event: Event, bus: Option<&Broadcaster<Event>>) {
        let Some(says) = self.watching.says(place, event) else { return };
        let heard = match says {
            Says::Publish(how, count) => publish(&self.publisher, self.numbers.take(count), how),
            Says::Gap(events) => publish_gap(&self.publisher, events),
            Says::Close => {
                let before = publish(&self.publisher, self.numbers.take(1), How::Try);
                self.heard.push(before);
                bus.expect("a watcher that closes the bus has it").close();
                publish(&self.publisher, self.numbers.take(1), How::Wait)
            }
        };
        self.heard.push(heard);
    }
}

pub fn publish_gap(publisher: &Publisher<Event>, events: u64) -> Result<(), Refused> {
    publisher.publish_gap(events).map_err(|error| match error {
        PublishError::Full(()) => Refused::Full(Vec::new()),
        PublishError::Closed(()) => Refused::Stopped(Vec::new()),
        _ => unreachable!("the model knows all refusals"),
    })
}

/// Registers a watcher, which is the one of this number. Returns `None` if the bus is closed.
pub fn watch(bus: &Broadcaster<Event>, watching: &Watching, number: usize) -> Option<SpeakingReader> {
    let (told, asked) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let voice = Arc::new(Mutex::new(Voice {
        watching: watching.clone(),
        publisher: bus.publisher(),
        numbers: Numbers::new(number),
        heard: Vec::new(),
    }));
    let closes = watching.speaker.is_some_and(|speaker| matches!(speaker.says, Says::Close));
    let handle = closes.then(|| bus.clone());
    let spec = &watching.spec;
    let builder = bus
        .watch_builder()
        .queue_len(spec.queue_len)
        .overflow(spec.policy)
        .prefix(spec.prefix.clone())
        .on_drop(hook(told.clone(), voice.clone(), handle.clone()));
    let builder = if watching.has_filter() {
        builder.filter(filter(spec.filter, asked.clone(), voice.clone(), handle))
    } else {
        builder
    };
    match builder.watch() {
        Ok(watcher) => Some(SpeakingReader { reader: RealReader { watcher, told }, asked, voice }),
        Err(WatchError::Closed) => None,
        Err(error) => panic!("{error}"),
    }
}

type Told = Arc<Mutex<Vec<(DropReason, Event)>>>;

fn hook(
    told: Told,
    voice: Arc<Mutex<Voice>>,
    bus: Option<Broadcaster<Event>>,
) -> impl FnMut(DropReason, &[Event]) + Send + 'static {
    move |reason, events| {
        told.lock().unwrap().extend(events.iter().map(|event| (reason, *event)));
        for event in events {
            voice.lock().unwrap().speak(Place::Hook, *event, bus.as_ref());
        }
    }
}

fn filter(
    filter: Filter,
    asked: Arc<Mutex<Vec<Event>>>,
    voice: Arc<Mutex<Voice>>,
    bus: Option<Broadcaster<Event>>,
) -> impl FnMut(&Event) -> bool + Send + 'static {
    move |event| {
        asked.lock().unwrap().push(*event);
        voice.lock().unwrap().speak(Place::Filter, *event, bus.as_ref());
        // A panic without a message, so that nothing is written for it.
        filter.keeps(*event).unwrap_or_else(|| resume_unwind(Box::new(())))
    }
}

impl SpeakingReader {
    pub fn asked(&self) -> Vec<Event> {
        self.asked.lock().unwrap().clone()
    }

    pub fn heard(&self) -> Vec<Result<(), Refused>> {
        self.voice.lock().unwrap().heard.clone()
    }
}
