//! The path of events and control entries into the bus. It leads through the gate into the incoming
//! queue or the list next to it, or through the front of an inline bus.

mod gap;
mod handles;
mod publisher;
mod queue;
mod way;

pub use self::publisher::Publisher;
pub(crate) use self::queue::IncomingQueue;
