//! The two paths that an entry can take into a bus. One path leads through the gate into the
//! incoming queue, and the other path leads through the front of an inline bus to the watchers.

use crate::bus::dispatch::{Control, FlushTicket, InlineFront, Refused, SharedIntake};
use crate::bus::mailbox::{Call, Entry, Upstream};
use crate::bus::state::{BusState, Duty, Refusal};
use crate::sync::{Arc, LOOKS, Sender, hint};

pub(crate) enum Way<T> {
    Queue { entries: Sender<Entry<T>>, shared: Arc<SharedIntake<T>> },
    Inline(Arc<InlineFront<T>>),
}

impl<T> Way<T> {
    /// Returns the fan-out for use by a reader, or `None` if the fan-out may not be lent.
    pub(crate) fn upstream(&self) -> Option<Box<dyn Upstream>>
    where
        T: Clone + Send + Sync + 'static,
    {
        match self {
            Self::Queue { shared, .. } if shared.is_direct() => {
                Some(Box::new(shared.clone()) as Box<dyn Upstream>)
            }
            Self::Queue { .. } | Self::Inline(_) => None,
        }
    }

    /// Returns the number of events that have been accepted but not offered yet. These events are
    /// either in the incoming queue, or have been taken out of the queue and are carried.
    pub(crate) fn pending(&self, bus: &BusState, accepted: u64) -> u64 {
        let Self::Queue { entries, .. } = self else { return 0 };
        let pushed = entries.pushed().wrapping_add(bus.surplus.get());
        // The counts are read one after another, so while the bus is running, `pushed` may be less
        // than `accepted`.
        let pending = pushed.wrapping_sub(accepted);
        if pending > u64::MAX / 2 { 0 } else { pending }
    }

    /// Removes a flush after its caller has stopped waiting for it.
    pub(crate) fn forget(&self, ticket: &Arc<FlushTicket>) {
        if let Self::Queue { shared, .. } = self {
            shared.controls.forget(ticket);
        }
    }
}

/// Checks a few times whether the queue has capacity. During a burst of events, the dispatcher has
/// often taken an entry out of the queue by the last check, so the newest event need not be
/// refused.
#[cold]
fn has_room_soon<T>(entries: &Sender<Entry<T>>) -> bool {
    (0..LOOKS).any(|round| {
        (0..1 << round).for_each(|_| hint::spin_loop());
        !entries.is_full()
    })
}

impl<T: Clone + Send + Sync + 'static> Way<T> {
    /// Pushes an entry if there is capacity. Does not wait for capacity.
    ///
    /// A single function handles both kinds of bus, because each additional function would copy a
    /// large event on the stack.
    #[inline]
    pub(super) fn try_push(
        &self,
        entry: Entry<T>,
        call: &mut Call,
        bus: &BusState,
    ) -> Result<(), Refused<T>> {
        let (entries, shared) = match self {
            Self::Queue { entries, shared } => (entries, shared),
            Self::Inline(front) => return front.push(entry, call, bus),
        };
        match bus.gate.enter() {
            Ok(pass) => {
                let surplus = (entry.len() as u64).wrapping_sub(1);
                count_surplus(bus, surplus);
                let sent = entries.try_send(entry);
                if sent.is_err() {
                    count_surplus(bus, surplus.wrapping_neg());
                }
                match pass.leave() {
                    // A refused entry does not need to be delivered.
                    Duty::Deliver if sent.is_ok() => shared.deliver(),
                    duty => wake_for(duty, bus),
                }
                match sent {
                    Ok(()) => Ok(()),
                    Err(entry) => Err(Refused(entry, Refusal::Full)),
                }
            }
            Err(duty) => {
                wake_for(duty, bus);
                Err(Refused(entry, Refusal::Closed))
            }
        }
    }

    /// Adds a control entry after all entries pushed so far. Does not wait for capacity.
    ///
    /// # Errors
    ///
    /// Returns the entry and the reason why it was refused.
    pub(super) fn control(&self, control: Control<T>, bus: &BusState) -> Result<(), (Control<T>, Refusal)> {
        let (entries, shared) = match self {
            Self::Queue { entries, shared } => (entries, shared),
            Self::Inline(front) => return front.control(control, bus),
        };
        match bus.gate.enter() {
            Ok(pass) => {
                shared.controls.add(control, || entries.pushed());
                let duty = pass.leave();
                // While the reader is pulling, a control entry would have to wait for the reader.
                // No fence is needed, because if the dispatcher is just beginning to lend the
                // fan-out, it checks again after its nap.
                wake_for(if shared.is_lent() { Duty::Wake } else { duty }, bus);
                Ok(())
            }
            Err(duty) => {
                wake_for(duty, bus);
                Err((control, Refusal::Closed))
            }
        }
    }

    /// If the incoming queue is full while the reader is pulling, tries to free capacity in the
    /// queue. Otherwise, if the dispatcher is awake, gives the dispatcher a little time to free
    /// capacity.
    /// Returns whether another attempt may find capacity. Never waits.
    #[inline]
    pub(super) fn relieve(&self, bus: &BusState) -> bool {
        match self {
            Self::Queue { shared, .. } if shared.is_lent() => {
                shared.relieve();
                true
            }
            // If the queue is full and the dispatcher is asleep, the dispatcher is blocked.
            Self::Queue { entries, .. } if LOOKS > 0 && !bus.dispatcher.is_armed() => has_room_soon(entries),
            Self::Queue { .. } | Self::Inline(_) => false,
        }
    }

    /// Returns whether there is capacity for an entry.
    pub(super) fn has_room(&self, call: &mut Call, bus: &BusState) -> bool {
        match self {
            Self::Queue { entries, .. } => !entries.is_full(),
            Self::Inline(front) => front.has_room(call, bus),
        }
    }
}

#[inline]
fn count_surplus(bus: &BusState, events: u64) {
    // A single event has no surplus, so publishing a single event does not access the count.
    if events != 0 {
        bus.surplus.add(events);
    }
}

/// Wakes the dispatcher if a caller has a duty after leaving the gate.
fn wake_for(duty: Duty, bus: &BusState) {
    if duty != Duty::Nothing {
        bus.dispatcher.wake();
    }
}
