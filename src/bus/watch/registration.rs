//! The registration of a watcher: its mailbox, and the way of the sender to the dispatcher.

use crate::bus::dispatch::Control;
use crate::bus::mailbox::{MailboxReceiver, MailboxSender, SliceQueue};
use crate::bus::options::{check_name, check_queue_len};
use crate::bus::state::{Lifecycle, Refusal, WatcherState};
use crate::error::{BuildError, WatchError};
use crate::sync::{Arc, Parker};

use super::builder::WatchBuilder;

/// The sender of a new mailbox, on its way to the dispatcher. If the dispatcher does not get it,
/// the drop closes the mailbox.
struct Registering<'l, T> {
    lifecycle: &'l Lifecycle,
    entry: Option<Control<T>>,
}

impl<T> Drop for Registering<'_, T> {
    fn drop(&mut self) {
        if let Some(Control::Register(sender)) = self.entry.take() {
            sender.close(self.lifecycle).wake_cell.wake();
        }
    }
}

impl<'b, T: Clone + Send + Sync + 'static> WatchBuilder<'b, T> {
    /// Registers a watcher, and waits for room in the incoming queue. `is_handler` says whether the
    /// library runs the reader.
    pub(super) fn register(self, is_handler: bool) -> Result<MailboxReceiver<T>, WatchError> {
        let incoming = self.incoming;
        let (receiver, mut registering) = self.prepare(is_handler)?;
        let pushed = incoming.push_control(&mut registering.entry, None);
        registered(receiver, registering, pushed)
    }

    /// Registers a watcher that its owner reads, as a task.
    pub(super) async fn register_async(self) -> Result<MailboxReceiver<T>, WatchError> {
        let incoming = self.incoming;
        let (receiver, mut registering) = self.prepare(false)?;
        let pushed = incoming.push_async(&mut registering.entry, None).await;
        registered(receiver, registering, pushed)
    }

    /// Checks the options, and creates both ends of the mailbox: the receiver for the caller, and
    /// the sender as a control entry.
    fn prepare(self, is_handler: bool) -> Result<(MailboxReceiver<T>, Registering<'b, T>), WatchError> {
        check_queue_len(self.queue_len)?;
        if u32::try_from(self.prefix.len()).is_err() {
            return Err(BuildError::new("prefix", self.prefix.len(), "up to 4294967295 events").into());
        }
        if let Some(name) = &self.name {
            check_name("name", name)?;
        }
        let lifecycle = &self.incoming.lifecycle;
        let parker = Parker::new();
        let state = lifecycle.registry.add(|number| {
            let name = self.name.unwrap_or_else(|| format!("watcher-{number}"));
            WatcherState::new(number, &name, self.queue_len, self.overflow, is_handler, &parker)
        });
        let state = state.ok_or(WatchError::Stopped)?;
        let queue = Arc::new(SliceQueue::new(self.queue_len, self.history, self.overflow));
        let (reader_tells, dispatcher_tells) = self.on_abandon;
        let may_pull = self.overflow.waits() && self.filter.is_none();
        let upstream = if may_pull { self.incoming.upstream() } else { None };
        let receiver = MailboxReceiver::new(
            state.clone(),
            lifecycle.clone(),
            queue.clone(),
            parker,
            self.prefix,
            reader_tells,
            upstream,
        );
        let (filter, on_drop) = (self.filter, self.on_drop);
        let sender = MailboxSender::new(state, queue, filter, on_drop, dispatcher_tells, self.start);
        let entry = Some(Control::Register(Box::new(sender)));
        Ok((receiver, Registering { lifecycle, entry }))
    }
}

/// Returns the receiver if the sender was pushed. Otherwise undoes the registration and returns an
/// error.
fn registered<T>(
    receiver: MailboxReceiver<T>,
    registering: Registering<'_, T>,
    pushed: Result<(), Refusal>,
) -> Result<MailboxReceiver<T>, WatchError> {
    let Err(refusal) = pushed else { return Ok(receiver) };
    receiver.lifecycle.registry.remove(&receiver.state);
    drop(registering);
    Err(match refusal {
        Refusal::Full => WatchError::WouldDeadlock,
        Refusal::Stopped => WatchError::Stopped,
    })
}
