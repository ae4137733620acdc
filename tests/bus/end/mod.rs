//! G3, G8, G11: what shutdown, close, drop and stop promise.

mod abandoned;
mod flushes;
mod given_up;
mod reaping;
mod reports;
mod shutdown;
mod stop;
mod waits;
