//! G3, G8, G11: what shutdown, close, drop and stop promise.

mod given_up;
mod abandoned;
mod flushes;
mod reaping;
mod shutdown;
mod stop;
mod waits;
