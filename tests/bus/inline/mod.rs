//! A bus without a thread: what is published is in every queue when the publish returns (G13).
//!
//! The other modules of this program test a bus with a dispatcher. These test what is different
//! without one: `offered` and `past` (what a call has done when it returns), `capacity`, `waiting`
//! and `limits` (full queues), `nested` and `nested_calls` (calls from user code that the bus
//! runs), `held` (calls while another thread is inside the bus), `end`, `flushes`, `panics`,
//! `wakers`, `threads`, `churn`, `warnings` and `options`.

mod alone;
mod attacked;
mod capacity;
mod churn;
mod end;
mod flushes;
mod held;
mod limits;
mod nested;
mod nested_calls;
mod offered;
mod options;
mod panics;
mod past;
mod support;
mod threads;
mod waiting;
mod wakers;
mod warnings;
