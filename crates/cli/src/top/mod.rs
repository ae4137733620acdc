//! The `top` command, which shows the statistics that a program writes as JSON lines.
//!
//! Without the `top` feature, the command still exists, but only reports that it requires this
//! feature.
#![allow(clippy::cast_precision_loss, reason = "a rate is shown with few digits")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]

mod args;
#[cfg(feature = "top")]
mod feed;
#[cfg(feature = "top")]
mod line;
#[cfg(feature = "top")]
mod lines;
#[cfg(feature = "top")]
mod meter;
#[cfg(feature = "top")]
mod once;
#[cfg(feature = "top")]
mod screen;
#[cfg(feature = "top")]
mod source;
#[cfg(feature = "top")]
mod state;
#[cfg(feature = "top")]
mod table;

use std::error::Error;

pub(crate) use args::Args;

#[cfg(not(feature = "top"))]
pub(crate) fn run(_: &Args) -> Result<bool, Box<dyn Error>> {
    Err(crate::support::feature::missing("eventcast top", "top").into())
}

#[cfg(feature = "top")]
pub(crate) fn run(args: &Args) -> Result<bool, Box<dyn Error>> {
    use std::fs::File;
    use std::io::{self, IsTerminal as _};

    use crate::support::bad_input::BadInput;
    use crate::support::bad_usage::BadUsage;
    use crate::support::color::is_dumb;
    use crate::support::text::quoted;
    use source::Source;
    use state::State;

    let is_once = args.once || !io::stdout().is_terminal() || is_dumb();
    let state = State::new(args.slow);
    if args.file.as_os_str() == "-" {
        if !is_once && io::stdin().is_terminal() {
            return Err(BadUsage("- must be a pipe or a file, but stdin is this terminal".to_owned()).into());
        }
        if is_once {
            return once::print(io::stdin().lock(), "stdin", state);
        }
        return screen::show(Source::pipe(io::stdin()), "stdin", state);
    }
    let name = quoted(&args.file.to_string_lossy());
    let unreadable = |error: io::Error| BadInput(format!("cannot read {name}: {error}"));
    let file = File::open(&args.file).map_err(unreadable)?;
    if is_once {
        return once::print(file, &name, state);
    }
    screen::show(Source::file(args.file.clone(), file).map_err(unreadable)?, &name, state)
}
