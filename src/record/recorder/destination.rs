//! Defines the destinations to which recorders send their events.

use std::collections::VecDeque;

use crate::bus::Publisher;
use crate::error::PublishError;
use crate::record::event::Event;
use crate::sync::{Arc, Mutex};

#[derive(Clone)]
pub(super) enum Destination {
    Bus(Publisher<Event>),
    Fake(Arc<FakeQueue>),
    Disabled,
}

pub(super) struct FakeQueue {
    pub(super) events: Mutex<VecDeque<Event>>,
    pub(super) capacity: usize,
}

impl FakeQueue {
    #[allow(clippy::result_large_err, reason = "the event comes back as it went in, by value")]
    pub(super) fn push(&self, event: Event) -> Result<(), PublishError<Event>> {
        let mut events = self.events.lock();
        if events.len() >= self.capacity {
            return Err(PublishError::Full(event));
        }
        events.push_back(event);
        Ok(())
    }
}
