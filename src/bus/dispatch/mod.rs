//! From an entry to the mailboxes: the fan-out that offers events to the watchers, and the two
//! parts that run it. The dispatcher is a thread, and takes entries out of the incoming queue. The
//! front of an inline bus takes them from the thread that publishes.

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
