//! The way into the incoming queue: through the gate, for publishers and control entries.

mod gap;
mod publisher;
mod queue;
mod way;

pub use self::publisher::Publisher;
pub(crate) use self::queue::IncomingQueue;
