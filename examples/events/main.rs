//! Lists, describes and follows the events in a SQLite store. Another program may be writing the
//! store meanwhile.
//!
//! ```sh
//! cargo run --release --features sqlite --example supervise -- --store events.db --for 5s 'sleep 0.3' 'false'
//! cargo run --release --features sqlite --example events -- get --types Warning
//! cargo run --release --features sqlite --example events -- describe process/false
//! cargo run --release --features sqlite --example events -- watch
//! ```
#![cfg_attr(test, allow(dead_code, reason = "the tests include this program and do not call its main"))]

mod args;
mod show;
#[path = "../support/mod.rs"]
mod support;
mod watch;

use std::error::Error;
use std::process::ExitCode;

use eventcast::SqliteSink;

use args::{Request, Settings};
use support::flags;

fn main() -> ExitCode {
    flags::main("events", args::HELP, args::read, run)
}

fn run(settings: &Settings) -> Result<bool, Box<dyn Error>> {
    let store = SqliteSink::open_read_only(&settings.store)?;
    match &settings.request {
        Request::Get(query, form) => show::get(&store, query, *form)?,
        Request::Describe(object) => show::describe(&store, object)?,
        Request::Watch { query, limit, form, interval } => {
            watch::watch(store, query, *limit, *form, *interval)?;
        }
    }
    Ok(true)
}
