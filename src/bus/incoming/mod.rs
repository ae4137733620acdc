//! The path into the bus, for events and control entries: through the gate into the incoming queue
//! or beside it, or through the front of an inline bus.

mod gap;
mod handles;
mod publisher;
mod queue;
mod way;

pub use self::publisher::Publisher;
pub(crate) use self::queue::IncomingQueue;
