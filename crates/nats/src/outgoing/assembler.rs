//! Assembles events into messages. A message holds consecutive events of one subject, up to a
//! maximum number of events and a maximum size.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lru::LruCache;

use crate::codec::{Codec, Framing};
use crate::positions::MEMORY;
use crate::subject::Subject;
use crate::wire::{Head, Origin, Payload};

/// A user-supplied function that chooses the subject of an event.
pub(crate) type SubjectOf<T> = Box<dyn Fn(&T) -> Subject + Send + Sync>;

/// A message that is complete or still growing.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) subject: Arc<str>,
    pub(crate) head: Head,
    pub(crate) payload: Payload,
}

/// The maximum number of events in a message, and the maximum size of a message's payload in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

/// The number of events that could not become part of a message, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unsent {
    pub(crate) too_large: u64,
    pub(crate) encode: u64,
    /// The number of panics in user-supplied functions, which are included in `encode`.
    pub(crate) panics: u64,
}

/// Assembles events into messages, and numbers the events.
pub(crate) struct Assembler<T> {
    origin: Origin,
    codec: Box<dyn Codec<T>>,
    name: String,
    subject_of: SubjectOf<T>,
    limits: Limits,
    /// The position of the next event.
    next: u64,
    /// The number of events that were lost since the last event that became part of a message.
    lost: u64,
    /// The number of the next event of each subject.
    numbers: LruCache<Arc<str>, u64>,
    complete: VecDeque<Message>,
    open: Option<Message>,
    /// The number of events in `complete` and `open`.
    events: u64,
    scratch: Vec<u8>,
    pub(crate) unsent: Unsent,
}

impl<T: 'static> Assembler<T> {
    pub(crate) fn new(
        origin: Origin,
        codec: Box<dyn Codec<T>>,
        subject_of: SubjectOf<T>,
        limits: Limits,
    ) -> Self {
        let name = codec.name().to_owned();
        let numbers = LruCache::new(MEMORY);
        let (complete, scratch) = (VecDeque::new(), Vec::new());
        let (next, lost, open, events, unsent) = (0, 0, None, 0, Unsent::default());
        Self {
            origin,
            codec,
            name,
            subject_of,
            limits,
            next,
            lost,
            numbers,
            complete,
            open,
            events,
            scratch,
            unsent,
        }
    }

    /// Records events that the bus lost before the next event.
    pub(crate) fn lose(&mut self, events: u64) {
        if events > 0 {
            self.seal();
            self.next = self.next.saturating_add(events);
            self.lost = self.lost.saturating_add(events);
        }
    }

    /// Encodes an event, and adds it to a message.
    pub(crate) fn push(&mut self, event: &T) {
        self.scratch.clear();
        let (subject_of, codec, scratch) = (&self.subject_of, &self.codec, &mut self.scratch);
        // The scratch buffer is cleared after a panic. User-supplied functions are responsible for
        // their own state.
        let encoded = catch_unwind(AssertUnwindSafe(|| {
            let subject = subject_of(event);
            codec.encode(event, scratch).map(|()| subject)
        }));
        let framing = self.framing();
        let subject = match encoded {
            Ok(Ok(subject)) if Payload::fits(framing, &self.scratch) => subject,
            Ok(_) => return self.fail(|unsent| unsent.encode += 1),
            Err(_) => {
                return self.fail(|unsent| {
                    unsent.encode += 1;
                    unsent.panics += 1;
                });
            }
        };
        let size = Payload::alone(framing, self.scratch.len());
        if size > self.limits.bytes {
            return self.fail(|unsent| unsent.too_large += 1);
        }
        // The size must be less than the limit, because the line feed takes one more byte.
        let fits = |open: &Message| {
            *open.subject == *subject.as_str()
                && open.payload.events() < self.limits.events
                && open.payload.len() + size < self.limits.bytes
        };
        if !self.open.as_ref().is_some_and(fits) {
            self.seal();
            self.open = Some(self.begin(subject.as_str()));
        }
        if let Some(open) = &mut self.open {
            open.payload.push(&self.scratch);
            open.head.count += 1;
            self.events += 1;
            self.next += 1;
        }
    }

    fn framing(&self) -> Framing {
        self.codec.framing()
    }

    fn fail(&mut self, count: impl FnOnce(&mut Unsent)) {
        count(&mut self.unsent);
        self.lose(1);
    }

    /// Returns an empty message that begins at the next position.
    fn begin(&mut self, subject: &str) -> Message {
        let known = self.numbers.get_key_value(subject).map(|(subject, number)| (subject.clone(), *number));
        let (subject, number) = known.unwrap_or_else(|| {
            let subject: Arc<str> = subject.into();
            self.numbers.put(subject.clone(), 0);
            (subject, 0)
        });
        let head = Head { subject_first: Some(number), ..self.head(false) };
        self.lost = 0;
        Message { subject, head, payload: Payload::new(self.framing()) }
    }

    fn head(&self, is_end: bool) -> Head {
        Head {
            origin: self.origin.clone(),
            first: self.next,
            count: 0,
            lost: self.lost,
            subject_first: None,
            codec: self.name.clone(),
            is_end,
        }
    }

    /// Completes the open message.
    pub(crate) fn seal(&mut self) {
        if let Some(message) = self.open.take() {
            self.numbers
                .put(message.subject.clone(), message.head.subject_first.unwrap_or(0) + message.head.count);
            self.complete.push_back(message);
        }
    }

    pub(crate) fn has_complete(&self) -> bool {
        !self.complete.is_empty()
    }

    pub(crate) fn has_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the next message, even if it is not complete.
    pub(crate) fn take(&mut self) -> Option<Message> {
        if self.complete.is_empty() {
            self.seal();
        }
        let message = self.complete.pop_front()?;
        self.events -= message.head.count;
        Some(message)
    }

    /// Returns a message without events, which states the origin's position. The message reports
    /// the losses that no event has followed.
    pub(crate) fn control(&self, subject: Arc<str>, is_end: bool) -> Message {
        Message { subject, head: self.head(is_end), payload: Payload::new(self.framing()) }
    }

    /// Returns the number of lost events that no message has reported yet.
    pub(crate) fn unreported(&self) -> u64 {
        self.lost
    }

    /// Records that a message without events has reported this many losses.
    pub(crate) fn reported(&mut self, lost: u64) {
        self.lost = self.lost.saturating_sub(lost);
    }

    /// Puts the second half of a split message before the other messages.
    pub(crate) fn put_back(&mut self, message: Message) {
        self.events += message.head.count;
        self.complete.push_front(message);
    }

    /// Takes back the events of an abandoned message. The next message reports these events as
    /// lost.
    pub(crate) fn give_up(&mut self, message: &Message) {
        let events = message.head.count;
        if events == 0 {
            // A message without events only reports losses, and another message must still report
            // these losses.
            return;
        }
        let lost = events.saturating_add(message.head.lost);
        match self.complete.front_mut().or(self.open.as_mut()) {
            Some(next) => next.head.lost += lost,
            None => self.lost += lost,
        }
        // The losses have no subject, so later events of this subject take over the numbers of the
        // lost events.
        let behind = self.complete.iter_mut().chain(self.open.as_mut());
        for later in behind.filter(|later| later.subject == message.subject) {
            later.head.subject_first = later.head.subject_first.map(|first| first.saturating_sub(events));
        }
        if let Some(number) = self.numbers.get_mut(&message.subject) {
            *number = number.saturating_sub(events);
        }
    }

    /// Returns the number of events in the complete messages and in the open message.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// Removes all messages, and returns the number of events in these messages.
    pub(crate) fn abandon(&mut self) -> u64 {
        self.complete.clear();
        self.open = None;
        std::mem::take(&mut self.events)
    }

    pub(crate) fn set_max_bytes(&mut self, bytes: usize) {
        self.limits.bytes = bytes;
    }
}

impl Message {
    /// Splits the message in two, and returns the second half. A message with only one event is not
    /// split.
    pub(crate) fn split_off_half(&mut self) -> Option<Self> {
        if self.payload.events() < 2 {
            return None;
        }
        let payload = self.payload.split_off_half();
        let count = self.payload.events() as u64;
        let head = Head {
            first: self.head.first + count,
            count: self.head.count - count,
            lost: 0,
            subject_first: self.head.subject_first.map(|first| first + count),
            ..self.head.clone()
        };
        self.head.count = count;
        Some(Self { subject: self.subject.clone(), head, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Json;

    fn assembler(events: usize, bytes: usize) -> Assembler<String> {
        let subject = |event: &String| {
            assert!(event != "panics", "on purpose");
            Subject::new("p").token(&event[..1])
        };
        let origin = Origin::parse("o").unwrap();
        Assembler::new(origin, Box::new(Json), Box::new(subject), Limits { events, bytes })
    }

    /// Returns the subject, first position, count, losses and number of each message.
    fn drain(assembler: &mut Assembler<String>) -> Vec<(String, u64, u64, u64, u64)> {
        let row = |message: Message| {
            let Head { first, count, lost, subject_first, .. } = message.head;
            (message.subject.to_string(), first, count, lost, subject_first.unwrap())
        };
        std::iter::from_fn(|| assembler.take()).map(row).collect()
    }

    fn push(assembler: &mut Assembler<String>, events: &[&str]) {
        for event in events {
            assembler.push(&(*event).to_owned());
        }
    }

    #[test]
    fn messages_hold_consecutive_events_of_a_subject() {
        let mut assembler = assembler(2, 1000);
        push(&mut assembler, &["a1", "a2", "a3", "b1", "a4"]);
        let row = |subject: &str, first, count, number| (subject.to_owned(), first, count, 0, number);
        let expected = [row("p.a", 0, 2, 0), row("p.a", 2, 1, 2), row("p.b", 3, 1, 0), row("p.a", 4, 1, 3)];
        assert_eq!(assembler.events(), 5);
        assert_eq!(drain(&mut assembler), expected);
        assert_eq!(assembler.events(), 0);
    }

    #[test]
    fn losses_stand_before_the_next_event() {
        let mut assembler = assembler(9, 20);
        push(&mut assembler, &["a1"]);
        assembler.lose(3);
        push(&mut assembler, &["a2", "panics", &"x".repeat(30), "a3"]);
        let unsent = Unsent { too_large: 1, encode: 1, panics: 1 };
        assert_eq!(assembler.unsent, unsent);
        let row = |first, count, lost, number| ("p.a".to_owned(), first, count, lost, number);
        assert_eq!(drain(&mut assembler), [row(0, 1, 0, 0), row(4, 1, 3, 1), row(7, 1, 2, 2)]);
        assembler.lose(2);
        let control = assembler.control("p.a".into(), false);
        assert_eq!((control.head.first, control.head.count, control.head.lost), (10, 0, 2));
        assembler.reported(2);
        assert_eq!(assembler.unreported(), 0);
    }

    #[test]
    fn an_abandoned_message_becomes_a_loss_of_the_next() {
        let mut assembler = assembler(1, 1000);
        push(&mut assembler, &["a1", "a2"]);
        let first = assembler.take().unwrap();
        assembler.give_up(&first);
        assert_eq!(drain(&mut assembler), [("p.a".to_owned(), 1, 1, 1, 0)]);
        push(&mut assembler, &["a3"]);
        let third = assembler.take().unwrap();
        assert_eq!(third.head.subject_first, Some(1));
        assembler.give_up(&third);
        assert_eq!(assembler.unreported(), 1);
    }

    #[test]
    fn halves_keep_positions() {
        let mut assembler = assembler(9, 1000);
        assembler.lose(1);
        push(&mut assembler, &["a1", "a2", "a3"]);
        let mut first = assembler.take().unwrap();
        let second = first.split_off_half().unwrap();
        assert!(first.split_off_half().is_none());
        assembler.put_back(second);
        assembler.put_back(first);
        assert_eq!(assembler.events(), 3);
        let row = |first, count, lost, number| ("p.a".to_owned(), first, count, lost, number);
        assert_eq!(drain(&mut assembler), [row(1, 1, 1, 0), row(2, 2, 0, 1)]);
    }
}
