//! Draws the book's pictures into `docs/book/pictures`.
//!
//! ```sh
//! cargo run -p eventcast-book --bin pictures
//! cargo run -p eventcast-book --bin pictures -- --check
//! ```
//!
//! With `--check`, the program does not write anything. The program fails if a picture in the
//! repository differs from the generated picture.
//!
//! - `event_way`: the path of an event from its publisher to the readers, with every exit.
//! - `watcher_life`: the life of a watcher, with every way in which it can end.
//! - `overview`: the path of an event in five boxes.
//! - `policies`: the five overflow policies on one timeline. The `run` module records the timeline
//!   from five real buses.
//! - `shutdown`: a shutdown as a sequence.

mod event_way;
mod overview;
mod palette;
mod policies;
mod run;
mod shutdown;
mod svg;
mod watcher_life;

use std::error::Error;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let checks = match env::args().nth(1).as_deref() {
        None => false,
        Some("--check") => true,
        Some(other) => return Err(format!("the argument must be --check, got {other}").into()),
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/pictures");
    for (name, picture) in [
        ("event-way.svg", event_way::draw()),
        ("five-minutes.svg", overview::draw()),
        ("watcher-life.svg", watcher_life::draw()),
        ("policies.svg", policies::draw()?),
        ("shutdown.svg", shutdown::draw()),
    ] {
        let file = folder.join(name);
        if !checks {
            fs::create_dir_all(&folder)?;
            fs::write(&file, picture)?;
        } else if fs::read_to_string(&file).ok().as_ref() != Some(&picture) {
            let hint = "run `cargo run -p eventcast-book --bin pictures`";
            return Err(format!("docs/book/pictures/{name} is not what the program draws: {hint}").into());
        }
    }
    Ok(())
}
