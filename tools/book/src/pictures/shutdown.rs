//! Draws a shutdown as a sequence diagram, and shows how a deadline changes the sequence.

use crate::palette::Meaning::{self, Bus, Caller, Loss, Queue, Reader, Wait};
use crate::svg::{Anchor, Area, Font, Svg};

/// The x coordinates of the lifelines, from left to right.
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
deadline, the caller stops waiting shortly before it: the dispatcher drops the events that wait for space, a handler finishes its \
current event and abandons the rest, and the report says complete false.";

pub(crate) fn draw() -> String {
    let mut svg = Svg::new(884, "A shutdown as a sequence", DESCRIPTION);
    lifelines(&mut svg);
    close(&mut svg);
    drain(&mut svg);
    finish(&mut svg);
    deadline(&mut svg);
    svg.legend(860, &[Caller, Bus, Queue, Reader, Wait, Loss]);
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

/// Draws a message between two lifelines. The message's text is above the line, centred at `at`.
fn message(svg: &mut Svg, y: i32, way: (i32, i32), meaning: Meaning, at: i32, text: &str) {
    let (from, to) = way;
    let side = (to - from).signum();
    svg.arrow(&[(from + 5 * side, y), (to - 6 * side, y)], meaning);
    svg.text((at, y - 5), Anchor::Middle, Font::Plain, text);
}

/// Draws a period in which a lifeline is active.
fn active(svg: &mut Svg, x: i32, span: (i32, i32), meaning: Meaning) {
    svg.area(Area::new(x - 5, span.0, 10, span.1 - span.0), meaning);
}

/// Draws how the gate closes and how the closed gate affects the publishers.
fn close(svg: &mut Svg) {
    active(svg, PUBLISHER, (98, 196), Caller);
    active(svg, PUBLISHER, (210, 250), Caller);
    active(svg, CALLER, (136, 500), Wait);
    let at = i32::midpoint(PUBLISHER, GATE);
    message(svg, 116, (PUBLISHER, GATE), Caller, at, "enters the gate");
    message(svg, 144, (CALLER, GATE), Caller, i32::midpoint(CALLER, PUBLISHER), "closes the gate");
    message(svg, 166, (CALLER, DISPATCHER), Caller, i32::midpoint(GATE, DISPATCHER), "wakes it");
    message(svg, 190, (PUBLISHER, GATE), Queue, at, "pushes, leaves");
    message(svg, 222, (PUBLISHER, GATE), Caller, at, "publishes");
    message(svg, 244, (GATE, PUBLISHER), Loss, at, "`Closed(event)`");
    svg.note((484, 110), &["A publisher that is inside the gate", "finishes. Its event is accepted."]);
    svg.note(
        (484, 206),
        &[
            "A publish after the close gets its",
            "event back. So does one that waits",
            "for space in the queue.",
        ],
    );
}

/// Draws the dispatcher, which offers all events and closes the mailboxes.
fn drain(svg: &mut Svg) {
    active(svg, DISPATCHER, (160, 430), Bus);
    active(svg, HANDLER, (310, 476), Reader);
    let (near, far) = (i32::midpoint(DISPATCHER, HANDLER), i32::midpoint(HANDLER, READER));
    message(svg, 294, (GATE, DISPATCHER), Queue, i32::midpoint(GATE, DISPATCHER), "takes all");
    message(svg, 316, (DISPATCHER, HANDLER), Queue, near, "offers");
    message(svg, 338, (DISPATCHER, READER), Queue, far, "offers");
    svg.note(
        (90, 286),
        &["The dispatcher continues until", "no publisher is inside the gate", "and the queue is empty."],
    );
    message(svg, 378, (DISPATCHER, HANDLER), Bus, near, "closes mailbox");
    message(svg, 400, (DISPATCHER, READER), Bus, far, "closes mailbox");
    message(svg, 424, (DISPATCHER, CALLER), Bus, i32::midpoint(CALLER, PUBLISHER), "has ended");
}

/// Draws how the readers end and how the report is returned.
fn finish(svg: &mut Svg) {
    message(svg, 470, (HANDLER, CALLER), Reader, i32::midpoint(DISPATCHER, HANDLER), "handled all");
    svg.note((90, 482), &["returns the report: `complete` is true"]);
    active(svg, READER, (520, 562), Reader);
    svg.note(
        (392, 518),
        &[
            "It reads what is queued, and then the end: `Closed`.",
            "The caller does not wait for this watcher.",
        ],
    );
}

/// Draws how the sequence differs if a shutdown runs out of time.
fn deadline(svg: &mut Svg) {
    svg.frame(Area::new(8, 580, 784, 266));
    svg.note(
        (8, 580),
        &["With a deadline (`shutdown_timeout`, `shutdown_async`), if the time does not suffice"],
    );
    active(svg, CALLER, (620, 830), Wait);
    active(svg, DISPATCHER, (620, 664), Wait);
    active(svg, DISPATCHER, (664, 800), Bus);
    active(svg, HANDLER, (620, 704), Reader);
    active(svg, HANDLER, (704, 728), Loss);
    let (near, far) = (i32::midpoint(DISPATCHER, HANDLER), i32::midpoint(HANDLER, READER));
    svg.text((DISPATCHER - 12, 636), Anchor::End, Font::Plain, "waits for space");
    svg.text((HANDLER + 12, 636), Anchor::Start, Font::Plain, "handles an event");
    message(svg, 660, (CALLER, DISPATCHER), Caller, i32::midpoint(CALLER, PUBLISHER), "times out");
    message(svg, 684, (DISPATCHER, READER), Loss, far, "`abandoned`");
    svg.note(
        (90, 668),
        &[
            "The last tenth of the timeout, at",
            "most 50 ms, is for the end. Events",
            "without space are then lost.",
        ],
    );
    svg.note((610, 704), &["Then it abandons the rest", "of its queue: `abandoned`."]);
    message(svg, 770, (DISPATCHER, HANDLER), Bus, near, "closes mailbox");
    svg.text((far, 765), Anchor::Middle, Font::Plain, "closes mailbox");
    svg.arrow(&[(HANDLER, 770), (READER - 6, 770)], Bus);
    message(svg, 794, (DISPATCHER, CALLER), Bus, i32::midpoint(CALLER, PUBLISHER), "has ended");
    svg.note((90, 812), &["returns the report by the deadline: `complete` is false"]);
}
