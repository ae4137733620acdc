//! G9: user code that panics stops neither the bus nor another watcher. D27: user code that calls
//! back into the bus never waits for itself.

mod callbacks;
mod events;
mod panics;
mod stop_on_panic;
