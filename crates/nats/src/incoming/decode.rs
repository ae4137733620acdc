//! Converts messages to events and gaps.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::positions::Step;
use crate::wire::{Head, split};

use super::items::Items;
use super::parts::{Parts, Shared};
use super::session::Stored;

/// Decodes messages, and counts and reports the events that cannot be decoded.
pub(super) struct Decoder<'a, T> {
    pub(super) parts: &'a Parts<T>,
    pub(super) shared: &'a Shared,
}

impl<T: 'static> Decoder<'_, T> {
    /// Appends a message's new events to `items`, and a gap for each event that cannot be decoded.
    /// The `make` function receives each event with its position, and returns the item for the
    /// outlet, or `None` if a user-supplied function has panicked.
    pub(super) fn decode<U>(
        &self,
        stored: &Stored,
        (head, step): (&Head, Step),
        items: &mut Items<U>,
        mut make: impl FnMut(T, u64) -> Option<U>,
    ) {
        if step.new == 0 {
            return;
        }
        let codec = &self.parts.codec;
        let payload = &stored.message.payload;
        let events = split(payload, codec.framing(), head.count).filter(|_| codec.name() == head.codec);
        let Some(events) = events else {
            let text = format!(
                "message {}: its payload is not {} events of {}",
                stored.sequence,
                head.count,
                codec.name()
            );
            self.undecodable(&text, step.new);
            items.lose(step.new);
            return;
        };
        let repeated = usize::try_from(step.repeated).unwrap_or(usize::MAX);
        items.reserve(events.len().saturating_sub(repeated));
        for (bytes, position) in events.into_iter().zip(head.first..).skip(repeated) {
            // A user-supplied codec may panic.
            match catch_unwind(AssertUnwindSafe(|| codec.decode(bytes))) {
                Ok(Ok(event)) => {
                    if let Some(item) = make(event, position) {
                        items.push(item);
                    } else {
                        self.shared.stats.lock().panics += 1;
                        items.lose(1);
                    }
                }
                Ok(Err(error)) => {
                    self.undecodable(&format!("message {}: {error}", stored.sequence), 1);
                    items.lose(1);
                }
                Err(_) => {
                    self.shared.stats.lock().panics += 1;
                    self.undecodable(&format!("message {}: the codec panicked", stored.sequence), 1);
                    items.lose(1);
                }
            }
        }
    }

    fn undecodable(&self, text: &str, events: u64) {
        let mut stats = self.shared.stats.lock();
        stats.undecodable = stats.undecodable.saturating_add(events);
        drop(stats);
        self.parts.complain(text);
    }
}
