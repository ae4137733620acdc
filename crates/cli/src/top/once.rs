//! Reads the input to its end, and prints the newest state as a table.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Read;

use super::lines::Lines;
use super::source::read;
use super::state::State;
use super::table::{Order, Table, heads};
use crate::support::bad_input::BadInput;
use crate::support::output::say;

/// Reads the input, whose name is used in errors, and prints the state.
pub(crate) fn print(mut input: impl Read, name: &str, mut state: State) -> Result<bool, Box<dyn Error>> {
    let mut lines = Lines::default();
    loop {
        let part = read(&mut input).map_err(|error| BadInput(format!("cannot read {name}: {error}")))?;
        if part.is_empty() {
            break;
        }
        lines.push(&part, |line| state.add(line, None));
    }
    lines.finish(|line| state.add(line, None));
    if state.counts.read == 0 {
        return Err(nothing(name, &state).into());
    }
    say(&text(&state)).map(|()| true)
}

fn text(state: &State) -> String {
    let mut text = heads(state).join("\n") + "\n";
    let table = Table::new(state, Order::Slow, usize::MAX);
    if !table.lines.is_empty() {
        let _ = writeln!(text, "\n{}", table.title);
    }
    for (_, line) in &table.lines {
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(text, "\n{}", state.counts);
    if state.buses.values().all(|bus| bus.meter.rates.is_none()) {
        text += "no rates: they require two lines of a bus with different values of `time`\n";
    }
    text
}

/// Returns the error for an input without statistics.
fn nothing(name: &str, state: &State) -> BadInput {
    let cause = match state.counts.skipped() {
        0 => "the input is empty".to_owned(),
        _ => format!("no line is a bus's statistics: {}", state.counts),
    };
    BadInput(format!(
        "cannot show {name}: {cause}; let the program write serde_json::to_string(&bus.stats()) and a newline once \
         a second"
    ))
}
