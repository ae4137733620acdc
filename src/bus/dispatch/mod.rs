//! The path from an entry to the mailboxes. It consists of the fan-out, which offers events to the
//! watchers, and the two parts that run the fan-out. The dispatcher is a thread that takes entries
//! out of the incoming queue. The front of an inline bus takes entries from the publishing thread.

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
