//! Tests of topics. These tests cover the lifetimes of topics, publishing by key, pattern readers,
//! threads that create and drop watchers at the same time, user code, and the patterns themselves.

mod churn;
mod keys;
mod lifetime;
mod matching;
mod nested;
mod patterns;
mod publishing;
mod readers;
mod support;
mod sweeps;
mod tasks;
mod user_code;
