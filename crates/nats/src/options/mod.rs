//! The options as they appear in configuration files.

mod connection;
mod publisher;
mod stream;
mod subscriber;

pub use connection::{Auth, ConnectionOptions, TlsOptions};
pub use publisher::{OnFull, PublisherOptions, RetryOptions};
pub use stream::{Discard, Storage, StreamOptions};
pub use subscriber::{Overflow, Start, SubscriberOptions};
