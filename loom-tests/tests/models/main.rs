//! The models. In one program, so that the machine's processors share them evenly.
#![cfg(eventcast_loom)]

mod feeds;
mod shutdown;
mod statistics;
mod stuck;
mod tasks;
mod turns;
mod user_code;
mod watchers;
