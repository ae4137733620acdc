//! Services whose clients are watchers at the other end of a TCP connection.

mod clients;
mod resume;
