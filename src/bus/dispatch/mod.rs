//! From the incoming queue to the mailboxes: the entries, the distributor that offers their events
//! to the watchers, and the dispatcher, which is the thread that works with the distributor.

mod direct;
mod dispatcher;
mod distributor;
mod entry;
mod history;
mod inline;
mod intake;
mod later;
mod nested;
mod pull;

pub(crate) use self::direct::Dispatch;
pub(crate) use self::dispatcher::Dispatcher;
pub(crate) use self::distributor::Completion;
pub(crate) use self::entry::{Control, Entry, FlushTicket, IntoEntry, Refused};
pub(crate) use self::inline::InlineFront;
