//! The order of events. G1: all watchers see the same order. G2: a registration has a place in that
//! order.

mod controls;
mod direct;
mod history;
mod order;
mod second_watchers;
