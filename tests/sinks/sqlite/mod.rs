//! The store in a file of SQLite.

mod crash;
mod files;
mod processes;
mod series_crash;
mod store;
