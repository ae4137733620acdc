//! Registers watchers, which means creating the mailbox and passing its sender to the fan-out.

use crate::bus::dispatch::Control;
use crate::bus::mailbox::{Hooks, MailboxReceiver, MailboxSender, SliceQueue};
use crate::bus::options::{check_name, check_queue_capacity};
use crate::bus::state::{Name, Refusal, WatcherState};
use crate::error::{BuildError, WatchError};
use crate::sync::Parker;

use super::builder::WatchBuilder;

impl<T: Clone + Send + Sync + 'static> WatchBuilder<'_, T> {
    /// Registers the watcher. `is_handler` indicates whether the library itself runs the reader.
    pub(super) fn register(self, is_handler: bool) -> Result<MailboxReceiver<T>, WatchError> {
        let (incoming, start) = (self.incoming, self.start);
        let (receiver, sender) = self.prepare(is_handler)?;
        let Err((control, refusal)) = incoming.control(Control::Register(sender, start)) else {
            incoming.bus.watcher_came();
            return Ok(receiver);
        };
        incoming.bus.registry.remove(&receiver.state);
        if let Control::Register(sender, _) = control {
            sender.close(&incoming.bus).wake_cell.wake();
        }
        Err(match refusal {
            Refusal::Full => WatchError::WouldDeadlock,
            Refusal::Closed => WatchError::Closed,
        })
    }

    /// Validates the options, and creates both ends of the mailbox. The receiver stays with the
    /// caller, and the sender goes to the fan-out.
    fn prepare(self, is_handler: bool) -> Result<(MailboxReceiver<T>, Box<MailboxSender<T>>), WatchError> {
        check_queue_capacity(self.queue_capacity)?;
        if u32::try_from(self.prefix.len()).is_err() {
            return Err(BuildError::new("prefix", self.prefix.len(), "up to 4294967295 events").into());
        }
        if let Some(name) = &self.name {
            check_name("name", name)?;
        }
        if self.keys.is_some() && self.overflow.waits() {
            let allowed = "a policy that never waits, because the watcher conflates events";
            return Err(BuildError::new("overflow", self.overflow, allowed).into());
        }
        let place = Name::Place(self.place);
        let name = match self.name {
            Some(name) => Name::Given(name.into()),
            // The hook receives the name as text whenever events are lost.
            None if self.on_drop.is_some() => Name::Given(place.text().into()),
            None => place,
        };
        let bus = &self.incoming.bus;
        let parker = Parker::new();
        let state = bus.registry.add(|number| {
            WatcherState::new(number, name, self.queue_capacity, self.overflow, is_handler, &parker)
        });
        let state = state.ok_or(WatchError::Closed)?;
        let is_inline = bus.is_inline();
        let queue = match self.keys {
            Some(_) => SliceQueue::conflating(),
            None => SliceQueue::new(self.queue_capacity, self.history, self.overflow, is_inline),
        };
        let (reader_tells, dispatcher_tells) = self.on_abandon;
        let may_pull = self.overflow.waits() && self.filter.is_none();
        let upstream = if may_pull { self.incoming.way.upstream() } else { None };
        let mut receiver = MailboxReceiver::new(
            state.clone(),
            bus.clone(),
            queue.clone(),
            parker,
            self.prefix,
            reader_tells,
            upstream,
        );
        if let Some(lease) = self.lease {
            receiver.keep(lease);
        }
        // A watcher that conflates events has a filter, so that only the fan-out's slowest path
        // offers events to the watcher.
        let all: fn(&T) -> bool = |_| true;
        let filter = self.filter.or_else(|| self.keys.as_ref().map(|_| Box::new(all) as _));
        let hooks = Hooks::new(self.on_drop, dispatcher_tells, self.keys);
        // If the bus waits for a reader, the reader takes only a few events at a time, so that it
        // frees capacity often.
        let most = if self.overflow.waits() { (self.queue_capacity / 4).max(1) } else { usize::MAX };
        let grows_to = most.min(self.incoming.options.max_batch);
        let sender = MailboxSender::new(state, queue, filter, hooks, grows_to);
        Ok((receiver, Box::new(sender)))
    }
}
