//! G3, G8, G11: how a bus, a watcher and a handler end.

mod deadlines;
mod flush;
mod handlers;
mod reaping;
mod registrations;
mod shutdown;
mod stop;
