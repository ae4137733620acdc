//! The two ways of an entry into a bus: through the gate into the incoming queue, or through the
//! front of an inline bus to the watchers.

use crate::bus::dispatch::{Dispatch, Entry, InlineFront, Refused};
use crate::bus::mailbox::{Call, Upstream};
use crate::bus::state::{Duty, Lifecycle, Refusal};
use crate::sync::{Arc, LOOKS, Sender, hint};

pub(super) enum Way<T> {
    Queue { entries: Sender<Entry<T>>, dispatch: Arc<Dispatch<T>> },
    Inline(Arc<InlineFront<T>>),
}

impl<T> Way<T> {
    pub(super) fn upstream(&self) -> Option<Box<dyn Upstream>>
    where
        T: Send + Sync + 'static,
    {
        match self {
            Self::Queue { dispatch, .. } if dispatch.is_direct() => {
                Some(Box::new(dispatch.clone()) as Box<dyn Upstream>)
            }
            Self::Queue { .. } | Self::Inline(_) => None,
        }
    }

    pub(super) fn pending(&self, lifecycle: &Lifecycle, accepted: u64) -> u64 {
        let Self::Queue { entries, .. } = self else { return 0 };
        let Lifecycle { taken, surplus, .. } = lifecycle;
        let pushed = (entries.len() as u64).wrapping_add(taken.get()).wrapping_add(surplus.get());
        // The counts are read one by one, so a snapshot of a running bus may be behind `accepted`.
        let pending = pushed.wrapping_sub(accepted);
        if pending > u64::MAX / 2 { 0 } else { pending }
    }

    /// Makes capacity in an incoming queue that is full because the reader pulls, or gives an awake
    /// dispatcher a little time to do so. Returns whether another attempt may find capacity. Never
    /// waits.
    #[inline]
    pub(super) fn relieve(&self, lifecycle: &Lifecycle) -> bool {
        match self {
            Self::Queue { dispatch, .. } if dispatch.is_lent() => {
                dispatch.relieve();
                true
            }
            // A dispatcher that sleeps is blocked.
            Self::Queue { entries, .. } if LOOKS > 0 && !lifecycle.dispatcher.is_armed() => {
                has_room_soon(entries)
            }
            Self::Queue { .. } | Self::Inline(_) => false,
        }
    }
}

/// Checks a few times whether the queue has capacity. In a burst, the dispatcher has often taken an
/// entry by the last check, and the newest event is not refused.
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
    /// One function does both, because each further one would copy a large event on the stack.
    #[inline]
    pub(super) fn try_push(
        &self,
        entry: Entry<T>,
        call: &mut Call,
        lifecycle: &Lifecycle,
    ) -> Result<(), Refused<T>> {
        let (entries, dispatch) = match self {
            Self::Queue { entries, dispatch } => (entries, dispatch),
            Self::Inline(front) => return front.push(entry, call, lifecycle),
        };
        let is_control = matches!(entry, Entry::Control(_));
        match lifecycle.gate.enter() {
            Ok(pass) => {
                let surplus = entry.surplus();
                count_surplus(lifecycle, surplus);
                let sent = entries.try_send(entry);
                if sent.is_err() {
                    count_surplus(lifecycle, surplus.wrapping_neg());
                }
                fulfil(pass.leave(), dispatch, lifecycle, is_control, sent.is_ok());
                match sent {
                    Ok(()) => Ok(()),
                    Err(entry) => Err(Refused(entry, Refusal::Full)),
                }
            }
            Err(duty) => {
                fulfil(duty, dispatch, lifecycle, is_control, false);
                Err(Refused(entry, Refusal::Stopped))
            }
        }
    }

    /// Returns whether there is capacity.
    pub(super) fn has_room(&self, call: &mut Call, lifecycle: &Lifecycle) -> bool {
        match self {
            Self::Queue { entries, .. } => !entries.is_full(),
            Self::Inline(front) => front.has_room(call, lifecycle),
        }
    }
}

#[inline]
fn count_surplus(lifecycle: &Lifecycle, events: u64) {
    // A single event has none, so its publish counts nothing.
    if events != 0 {
        lifecycle.surplus.add(events);
    }
}

/// Carries out the duty of a caller that has left the gate. `is_sent` is whether the caller has
/// sent an entry.
#[inline]
fn fulfil<T>(duty: Duty, dispatch: &Dispatch<T>, lifecycle: &Lifecycle, is_control: bool, is_sent: bool) {
    match duty {
        Duty::Nothing if !is_control || !dispatch.is_direct() => {}
        // Only the dispatcher carries out a control entry, and a refused entry needs no delivery.
        Duty::Deliver if !is_control && is_sent => dispatch.deliver(),
        // While the reader pulls, a control entry would wait for the reader. No fence: a dispatcher
        // that lends at this moment looks after its nap.
        Duty::Nothing | Duty::Deliver | Duty::Wake => {
            lifecycle.dispatcher.wake();
        }
    }
}
