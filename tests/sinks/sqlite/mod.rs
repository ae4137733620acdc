//! The store in a file of SQLite.

mod crash;
mod files;
mod processes;
mod store;
