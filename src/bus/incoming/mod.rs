//! The incoming queue: its entries, the way through the gate into it, and the publishers.

mod entry;
mod publisher;
mod queue;

pub(crate) use self::entry::{Entry, FlushTicket};
pub use self::publisher::Publisher;
pub(crate) use self::queue::{IncomingQueue, Refused};
