//! Registers watchers, which means creating the mailbox and passing its sender to the fan-out.

use crate::bus::dispatch::Control;
use crate::bus::mailbox::{MailboxReceiver, MailboxSender, SliceQueue};
use crate::bus::options::{check_name, check_queue_capacity};
use crate::bus::state::{Refusal, WatcherState};
use crate::error::{BuildError, WatchError};
use crate::sync::{Arc, Parker};

use super::builder::WatchBuilder;

impl<T: Clone + Send + Sync + 'static> WatchBuilder<'_, T> {
    /// Registers the watcher. `is_handler` indicates whether the library itself runs the reader.
    pub(super) fn register(self, is_handler: bool) -> Result<MailboxReceiver<T>, WatchError> {
        let incoming = self.incoming;
        let (receiver, sender) = self.prepare(is_handler)?;
        let Err((control, refusal)) = incoming.control(Control::Register(sender)) else {
            incoming.bus.watcher_came();
            return Ok(receiver);
        };
        incoming.bus.registry.remove(&receiver.state);
        if let Control::Register(sender) = control {
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
        let bus = &self.incoming.bus;
        let parker = Parker::new();
        let state = bus.registry.add(|number| {
            let name = self.name.unwrap_or_else(|| format!("watcher-{number}"));
            WatcherState::new(number, &name, self.queue_capacity, self.overflow, is_handler, &parker)
        });
        let state = state.ok_or(WatchError::Closed)?;
        let is_inline = bus.is_inline();
        let queue = Arc::new(SliceQueue::new(self.queue_capacity, self.history, self.overflow, is_inline));
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
        let (filter, on_drop) = (self.filter, self.on_drop);
        // If the bus waits for a reader, the reader takes only a few events at a time, so that it
        // frees capacity often.
        let most = if self.overflow.waits() { (self.queue_capacity / 4).max(1) } else { usize::MAX };
        let grows_to = most.min(self.incoming.options.max_batch);
        let sender =
            MailboxSender::new(state, queue, filter, on_drop, dispatcher_tells, self.start, grows_to);
        Ok((receiver, Box::new(sender)))
    }
}
