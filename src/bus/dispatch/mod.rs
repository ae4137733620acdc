//! The path that entries take to the mailboxes. This path consists of the fan-out, which offers
//! events to the watchers, and the two components that can run the fan-out. One component is the
//! dispatcher, a thread that takes entries out of the incoming queue. The other component is the
//! front of an inline bus, which takes entries from the publishing thread.

mod controls;
mod direct;
mod dispatcher;
mod entry;
mod fan_out;
mod history;
mod inline;
mod intake;
mod later;
mod nested;
mod pull;

pub(crate) use self::controls::Controls;
pub(crate) use self::direct::SharedIntake;
pub(crate) use self::dispatcher::Dispatcher;
pub(crate) use self::entry::{Control, FlushTicket, Refused};
pub(crate) use self::fan_out::Completion;
pub(crate) use self::inline::InlineFront;
