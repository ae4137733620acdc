//! An inline bus: an event is in every queue when its publish returns (G13).
//!
//! Most tests of the other modules run on both kinds of bus. The tests here cover only the
//! behaviour of an inline bus: `offered` and `alone` (what a publish has done when it returns),
//! `capacity`, `turns` and `limits` (full queues), `nested`, `nested_calls` and `destructors`
//! (calls from user code that the bus runs), `held` (calls while another thread is inside the bus),
//! `wakers`, `threads` and `churn`.

mod alone;
mod capacity;
mod churn;
mod destructors;
mod held;
mod limits;
mod nested;
mod nested_calls;
mod offered;
mod threads;
mod turns;
mod wakers;
