//! The `events` command.
//!
//! Without the `sqlite` feature, the command still exists, but only reports that it requires this
//! feature.

mod args;
#[cfg(feature = "sqlite-system")]
mod show;
#[cfg(feature = "sqlite-system")]
mod watch;

use std::error::Error;

pub(crate) use args::Args;

#[cfg(not(feature = "sqlite-system"))]
pub(crate) fn run(_: Args) -> Result<bool, Box<dyn Error>> {
    Err(crate::support::feature::missing("eventcast events", "sqlite").into())
}

#[cfg(feature = "sqlite-system")]
pub(crate) fn run(args: Args) -> Result<bool, Box<dyn Error>> {
    use args::Request;
    use eventcast_sqlite::{SqliteErrorKind, SqliteSink};

    let store = SqliteSink::open_read_only(&args.store).map_err(|error| match error.kind() {
        SqliteErrorKind::Missing => format!(
            "{}: the file does not exist; set the path of a store with --store, or create a store with \
             `eventcast supervise --store`",
            error.path().display()
        ),
        _ => error.to_string(),
    })?;
    match args.request {
        Request::Get(args) => show::get(&store, &args)?,
        Request::Describe(args) => show::describe(&store, &args)?,
        Request::Watch(args) => watch::watch(store, &args)?,
    }
    Ok(true)
}
