//! The path of events and control entries into the bus. The path leads through the gate into the
//! incoming queue or into the list next to that queue. On an inline bus, the path leads through the
//! front.

mod buffered;
mod gap;
mod handles;
mod publisher;
mod queue;
mod way;

pub use self::buffered::BufferedPublisher;
pub use self::publisher::Publisher;
pub(crate) use self::queue::IncomingQueue;
