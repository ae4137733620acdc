//! The program that contains all models and runs each model in its own process.
//!
//! Without `--cfg eventcast_loom`, the program does not contain any models.

#[cfg(eventcast_loom)]
macro_rules! models {
    ($($name:ident),* $(,)?) => {
        /// Returns the models in this file.
        pub(crate) fn models() -> Vec<eventcast_loom_tests::Model> {
            let file = module_path!().rsplit("::").next().unwrap_or_default();
            vec![$((format!("{file}::{}", stringify!($name)), Box::new($name))),*]
        }
    };
}

#[cfg(eventcast_loom)]
mod blocked;
#[cfg(eventcast_loom)]
mod bulk;
#[cfg(eventcast_loom)]
mod conflate;
#[cfg(eventcast_loom)]
mod controls;
#[cfg(eventcast_loom)]
mod direct;
#[cfg(eventcast_loom)]
mod eviction;
#[cfg(eventcast_loom)]
mod groups;
#[cfg(eventcast_loom)]
mod growing;
#[cfg(eventcast_loom)]
mod handles;
#[cfg(eventcast_loom)]
mod history;
#[cfg(eventcast_loom)]
mod inline;
#[cfg(eventcast_loom)]
mod inline_capacity;
#[cfg(eventcast_loom)]
mod inline_handlers;
#[cfg(eventcast_loom)]
mod matrix;
#[cfg(eventcast_loom)]
mod presence;
#[cfg(eventcast_loom)]
mod pull;
#[cfg(eventcast_loom)]
mod reader;
#[cfg(eventcast_loom)]
mod shutdown;
#[cfg(eventcast_loom)]
mod slow;
#[cfg(eventcast_loom)]
mod statistics;
#[cfg(eventcast_loom)]
mod stuck;
#[cfg(eventcast_loom)]
mod tasks;
#[cfg(eventcast_loom)]
mod topics;
#[cfg(eventcast_loom)]
mod turns;
#[cfg(eventcast_loom)]
mod user_code;
#[cfg(eventcast_loom)]
mod watchers;

#[cfg(eventcast_loom)]
fn main() -> std::process::ExitCode {
    let files = [
        blocked::models(),
        bulk::models(),
        conflate::models(),
        controls::models(),
        direct::models(),
        eviction::models(),
        groups::models(),
        growing::models(),
        handles::models(),
        history::models(),
        inline::models(),
        inline_capacity::models(),
        inline_handlers::models(),
        matrix::models(),
        presence::models(),
        pull::models(),
        reader::models(),
        shutdown::models(),
        slow::models(),
        statistics::models(),
        stuck::models(),
        tasks::models(),
        topics::models(),
        turns::models(),
        user_code::models(),
        watchers::models(),
    ];
    eventcast_loom_tests::main(&files.into_iter().flatten().collect::<Vec<_>>())
}

#[cfg(not(eventcast_loom))]
fn main() {
    println!("no models without `--cfg eventcast_loom`: cargo loom");
}
