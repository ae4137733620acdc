//! The order of events: G1, one order for all watchers. G2, a registration has a place in the
//! order.

mod controls;
mod direct;
mod history;
mod order;
