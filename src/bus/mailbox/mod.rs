//! A watcher's mailbox, which consists of a queue, a sender on the dispatcher, and a receiver on
//! the reader's thread.

mod alone;
mod capacity;
mod conflate;
mod conflating;
mod entry;
mod filter;
mod hooks;
mod newest;
mod queue;
mod receiver;
mod sender;
mod slice;

pub(crate) use self::capacity::{Call, Room};
pub(crate) use self::conflating::{KeyMap, Keys};
pub(crate) use self::entry::Entry;
pub(crate) use self::hooks::{FilterHook, Hooks, OnAbandon, OnDrop};
pub(crate) use self::queue::SliceQueue;
pub(crate) use self::receiver::{KeptByReader, MailboxReceiver, Next, Upstream};
pub(crate) use self::sender::MailboxSender;
pub(crate) use self::slice::{BatchSlice, SharedBatch, discard};
