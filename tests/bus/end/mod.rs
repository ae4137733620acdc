//! G3, G8, G11: the end of a bus, of a watcher and of a handler.

mod deadlines;
mod flush;
mod reaping;
mod registrations;
mod shutdown;
mod stop;
