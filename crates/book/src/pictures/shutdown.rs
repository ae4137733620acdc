//! A shutdown as a sequence, and what a deadline changes.

use crate::palette::Meaning::{self, Bus, Caller, End, Loss, Queue, Reader, Wait};
use crate::svg::{Anchor, Area, Font, Svg};

/// The lifelines, from left to right.
const CALLER: i32 = 72;
const PUBLISHER: i32 = 204;
const GATE: i32 = 336;
const DISPATCHER: i32 = 466;
const HANDLER: i32 = 596;
const READER: i32 = 728;

const DESCRIPTION: &str = "The caller of shutdown closes the gate and waits. A publisher inside the gate finishes and its \
event counts as accepted. Later publishes get their event back. The dispatcher takes everything out of the incoming queue, \
offers it, closes every mailbox, and ends. A handler handles what is queued and ends. Then the caller gets the report, with \
complete true. A watcher that is read by the program keeps its queued events, and the caller does not wait for it. With a \
deadline, the caller gives up shortly before: the dispatcher loses the events that wait for room, a handler ends its \
current event and gives up the rest, and the report says complete false.";

pub(crate) fn draw() -> String {
    let mut svg = Svg::new(884, "A shutdown as a sequence", DESCRIPTION);
    lifelines(&mut svg);
    close(&mut svg);
    drain(&mut svg);
    finish(&mut svg);
    deadline(&mut svg);
    svg.legend(860, &[Caller, Bus, Queue, Reader, Wait, Loss, End]);
    svg.finish()
}

fn lifelines(svg: &mut Svg) {
    for (x, meaning, lines) in [
        (CALLER, Caller, ["caller of", "`shutdown`"]),
        (PUBLISHER, Caller, ["publishers", ""]),
        (GATE, Queue, ["gate and", "incoming queue"]),
        (DISPATCHER, Bus, ["dispatcher", ""]),
        (HANDLER, Reader, ["watcher with", "a handler"]),
        (READER, Reader, ["watcher that", "you read"]),
    ] {
        svg.area(Area::new(x - 56, 44, 112, 42), meaning);
        let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
        let first = if lines.len() == 1 { 69 } else { 61 };
        svg.lines((x, first), Anchor::Middle, &lines);
        svg.guide((x, 86), (x, 846));
    }
}

/// Draws a message between two lifelines, with its text above the line.
fn message(svg: &mut Svg, y: i32, from: i32, to: i32, meaning: Meaning, text: &str) {
    let side = (to - from).signum();
    svg.arrow(&[(from + 5 * side, y), (to - 6 * side, y)], meaning);
    svg.text((i32::midpoint(from, to), y - 6), Anchor::Middle, Font::Plain, text);
}

/// Draws the time in which a lifeline does something.
fn active(svg: &mut Svg, x: i32, from: i32, to: i32, meaning: Meaning) {
    svg.area(Area::new(x - 5, from, 10, to - from), meaning);
}

/// Draws the close, and its effect on the publishers.
fn close(svg: &mut Svg) {
    active(svg, PUBLISHER, 96, 152, Caller);
    message(svg, 112, PUBLISHER, GATE, Caller, "enters the gate");
    message(svg, 132, CALLER, PUBLISHER, Caller, "");
    message(svg, 150, PUBLISHER, GATE, Queue, "pushes, leaves");
}

fn drain(_: &mut Svg) {}
fn finish(_: &mut Svg) {}
fn deadline(_: &mut Svg) {}
