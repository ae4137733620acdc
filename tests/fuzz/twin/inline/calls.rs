//! The model's publish call, and what filters and hooks publish inside it.

use crate::twin::api::{Event, How, Place, Refused, Says};

use super::model::{Asked, Call, Inline, Nested};

/// The reason for a refusal.
#[derive(Clone, Copy)]
enum Why {
    Full,
    Stopped,
}

impl Inline {
    /// Publishes without waiting.
    pub(super) fn accept(&mut self, mut events: Vec<Event>, how: How) -> Result<(), Refused> {
        while !events.is_empty() {
            let rest = events.split_off(events.len().min(self.max_batch));
            if let Err((mut back, why)) = self.publish_piece(events) {
                back.extend(rest);
                return Err(self.refuse(back, why, how));
            }
            events = rest;
        }
        Ok(())
    }

    fn refuse(&mut self, events: Vec<Event>, why: Why, how: How) -> Refused {
        match why {
            Why::Full if how == How::Async => Refused::Waiting,
            Why::Full => {
                self.rejected_full += events.len() as u64;
                Refused::Full(events)
            }
            Why::Stopped => {
                self.rejected_closed += events.len() as u64;
                Refused::Stopped(events)
            }
        }
    }

    /// Performs one call, which accepts the leading events of a piece that fit, in as many parts as
    /// necessary.
    fn publish_piece(&mut self, mut piece: Vec<Event>) -> Result<(), (Vec<Event>, Why)> {
        if self.is_closed {
            return Err((piece, Why::Stopped));
        }
        self.call = Call::default();
        let mut is_full = false;
        while !piece.is_empty() && !is_full {
            // If the bus is closed inside a part, the close may or may not happen before the next
            // part.
            self.is_undetermined |= self.is_closed;
            is_full = !self.publish_part(&mut piece);
            self.offer_nested();
        }
        self.end_if_closed();
        if is_full { Err((piece, Why::Full)) } else { Ok(()) }
    }

    /// Removes the events that fit from the front and offers them. Returns whether any events
    /// fitted.
    fn publish_part(&mut self, events: &mut Vec<Event>) -> bool {
        self.call.left = 0;
        let space = self.space();
        let (fits, asked) = if space.full.is_empty() {
            (space.free.min(events.len() as u64), Vec::new())
        } else if self.is_wanted_by_none(&space.full, events[0]) {
            (1, space.full)
        } else {
            return false;
        };
        let rest = events.split_off(usize::try_from(fits).unwrap());
        let part = std::mem::replace(events, rest);
        self.call.left = if asked.is_empty() { space.free - fits } else { 0 };
        self.offer(&part, &asked);
        true
    }

    /// Calls the filters of full watchers with an event. Returns whether all of these filters
    /// refuse the event.
    fn is_wanted_by_none(&mut self, full: &[usize], event: Event) -> bool {
        self.call.speaker = None;
        let wants = |number: &usize| {
            let spec = &self.watchers[*number].mailbox.spec;
            !spec.has_filter() || spec.filter.keeps(event) == Some(true)
        };
        let is_refused = full.iter().any(wants);
        for number in full {
            let spec = &self.watchers[*number].mailbox.spec;
            let panics = spec.filter.keeps(event).is_none();
            if !spec.has_filter() {
                continue;
            }
            if is_refused && full.len() > 1 {
                self.is_undetermined |= panics || spec.says(Place::Filter, event).is_some();
                self.watchers[*number].asked.push(Asked::Perhaps(event));
                continue;
            }
            self.ask(*number, event);
            if panics {
                self.watchers[*number].mailbox.panic();
            }
        }
        // If a filter closes the bus, the close happens before the event is accepted or refused.
        self.is_undetermined |= self.is_closed;
        !is_refused
    }

    // ── inside a call ──

    /// Calls the filter of a watcher, if it has one.
    pub(super) fn ask(&mut self, number: usize, event: Event) {
        let watched = &mut self.watchers[number];
        if watched.mailbox.spec.has_filter() {
            watched.asked.push(Asked::Surely(event));
        }
        if let Some(says) = watched.mailbox.spec.says(Place::Filter, event) {
            self.speak(number, says);
        }
    }

    /// Calls the hook of a watcher.
    pub(super) fn report(&mut self, number: usize, event: Event) {
        if let Some(says) = self.watchers[number].mailbox.spec.says(Place::Hook, event) {
            self.speak(number, says);
        }
    }

    fn speak(&mut self, number: usize, says: Says) {
        // The order in which watchers are offered an event is unspecified.
        self.is_undetermined |= self.call.speaker.is_some_and(|other| other != number);
        self.call.speaker = Some(number);
        let heard = match says {
            Says::Publish(how, count) => self.publish_nested(number, count, how),
            Says::Gap(events) => match self.refusal() {
                Some(Why::Stopped) => Err(Refused::Stopped(Vec::new())),
                Some(Why::Full) => Err(Refused::Full(Vec::new())),
                None => {
                    self.take_nested(Nested::Gap(events));
                    Ok(())
                }
            },
            Says::Close => {
                let before = self.publish_nested(number, 1, How::Try);
                self.watchers[number].heard.push(before);
                self.is_closed = true;
                self.publish_nested(number, 1, How::Wait)
            }
        };
        self.watchers[number].heard.push(heard);
    }

    /// Returns the reason why the call takes no further entries, if there is one.
    fn refusal(&self) -> Option<Why> {
        let is_full = self.call.taken >= self.incoming_capacity;
        if self.is_closed { Some(Why::Stopped) } else { is_full.then_some(Why::Full) }
    }

    fn take_nested(&mut self, entry: Nested) {
        self.call.taken += 1;
        self.call.nested.push_back(entry);
    }

    /// Publishes from inside the call, where no form of publish waits.
    fn publish_nested(&mut self, number: usize, count: usize, how: How) -> Result<(), Refused> {
        let mut events = self.watchers[number].numbers.take(count);
        let how = if how == How::Async { How::Try } else { how };
        while !events.is_empty() {
            let refusal = self.refusal().or_else(|| (self.call.left == 0).then_some(Why::Full));
            if let Some(why) = refusal {
                return Err(self.refuse(events, why, how));
            }
            let left = usize::try_from(self.call.left).unwrap_or(usize::MAX);
            let fits = events.len().min(self.max_batch).min(left);
            let rest = events.split_off(fits);
            self.call.left -= fits as u64;
            self.take_nested(Nested::Events(events));
            events = rest;
        }
        Ok(())
    }

    fn offer_nested(&mut self) {
        while let Some(entry) = self.call.nested.pop_front() {
            match entry {
                Nested::Events(events) => self.offer(&events, &[]),
                Nested::Gap(events) => self.show_gap(events),
            }
        }
    }
}
