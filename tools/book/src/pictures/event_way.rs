//! Draws the path of an event from a publisher to the readers, with every exit and its counter.

use crate::palette::Meaning::{self, Bus, Caller, Loss, Queue, Reader, Wait};
use crate::svg::{Anchor, Area, Font, Svg};

/// The x coordinate of the middle of the main path.
const WAY: i32 = 330;
/// The x coordinate of the left edge of the exits.
const EXIT: i32 = 596;

const DESCRIPTION: &str = "Publishers, threads and tasks, publish through the gate into the incoming queue. A closed gate \
and a full queue hand the event back, and the bus counts it as rejected. The dispatcher takes the events out. A publisher \
does it while the dispatcher sleeps (direct delivery), and the only reader does it under load (pull). One of the three at a \
time works with the fan-out, which counts the events as accepted, makes a shared batch of them, and offers the batch to \
every watcher. In each watcher the filter, the overflow policy and the queue follow. Refused events count as filtered, lost \
ones as dropped by reason. A thread, a task or a handler receives the events, which then count as delivered.";

pub(crate) fn draw() -> String {
    let mut svg = Svg::new(938, "The path of an event", DESCRIPTION);
    publishers(&mut svg);
    incoming(&mut svg);
    fan_out(&mut svg);
    watcher(&mut svg);
    readers(&mut svg);
    equations(&mut svg);
    svg.legend(916, &[Caller, Bus, Queue, Reader, Wait, Loss]);
    svg.finish()
}

/// Draws an exit through which an event is lost or handed back, with its counter.
fn exit(svg: &mut Svg, from: (i32, i32), lines: &[&str]) {
    exit_as(svg, from, Loss, lines);
}

/// Draws an exit, the arrow to the exit, and the exit's counter.
fn exit_as(svg: &mut Svg, from: (i32, i32), meaning: Meaning, lines: &[&str]) {
    let height = 12 + 16 * i32::try_from(lines.len()).expect("an exit has few lines");
    svg.arrow(&[from, (EXIT - 2, from.1)], meaning);
    svg.boxed(Area::new(EXIT, from.1 - height / 2, 188, height), meaning, lines);
}

fn publishers(svg: &mut Svg) {
    for (x, text) in [(100, "publisher, thread"), (262, "publisher, thread"), (424, "publisher, task")] {
        svg.boxed(Area::new(x, 44, 136, 28), Caller, &[text]);
        svg.arrow(&[(x + 68, 72), (x + 68, 98)], Caller);
    }
    svg.text((EXIT, 62), Anchor::Start, Font::Bold, "published");
}

/// Draws the gate and the incoming queue.
fn incoming(svg: &mut Svg) {
    svg.boxed(
        Area::new(100, 100, 460, 44),
        Bus,
        &["gate", "counts the publishers inside, refuses more of them after the close"],
    );
    exit(svg, (560, 122), &["`rejected_closed`", "`PublishError::Closed`", "with the event"]);
    svg.arrow(&[(WAY, 144), (WAY, 168)], Queue);
    let queue = Area::new(100, 170, 460, 64);
    svg.boxed(
        Area::new(100, 170, 460, 44),
        Queue,
        &["incoming queue", "`incoming_capacity` entries, in one order"],
    );
    svg.boxed(
        Area::new(100, 214, 460, 22),
        Wait,
        &["if it is full: `publish` waits for space, `try_publish` does not"],
    );
    exit(svg, (560, queue.y + 32), &["`rejected_full`", "`PublishError::Full`", "with the event"]);
}

/// Draws the fan-out and the three threads that may perform it.
fn fan_out(svg: &mut Svg) {
    svg.lines(
        (EXIT, 279),
        Anchor::Start,
        &[
            "One of the three takes the",
            "events out of the queue.",
            "With a history, or with",
            "`direct_delivery(false)`,",
            "only the dispatcher does.",
        ],
    );
    let columns: [(i32, Meaning, &str, [&str; 4]); 3] = [
        (16, Bus, "dispatcher", ["the thread of the bus,", "while it is awake", "", ""]),
        (
            208,
            Caller,
            "direct delivery",
            [
                "a publisher, while the",
                "dispatcher sleeps: at most",
                "4 watchers, all with space,",
                "no filter, no `DropOldest`",
            ],
        ),
        (
            400,
            Reader,
            "pull",
            ["the only reader, while it", "is busy: with `Wait` or", "`WaitFor`, and without", "a filter"],
        ),
    ];
    for (x, meaning, name, lines) in columns {
        let area = Area::new(x, 262, 178, 92);
        svg.arrow(&[(WAY, 236), (WAY, 248), (x + 89, 248), (x + 89, 260)], Queue);
        svg.area(area, meaning);
        svg.text((x + 89, 279), Anchor::Middle, Font::Bold, name);
        let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
        svg.lines((x + 89, 296), Anchor::Middle, &lines);
        svg.arrow(&[(x + 89, 354), (x + 89, 376)], Queue);
    }
    svg.boxed(
        Area::new(16, 378, 562, 44),
        Bus,
        &["fan-out, one thread at a time", "makes a shared batch of up to `max_batch` events"],
    );
    svg.text((EXIT, 396), Anchor::Start, Font::Bold, "`accepted`");
    svg.text((EXIT, 412), Anchor::Start, Font::Plain, "counted before any offer");
}

/// Draws one watcher with its filter, policy and queue, and the other watchers next to it.
fn watcher(svg: &mut Svg) {
    svg.arrow(&[(81, 422), (81, 456)], Queue);
    svg.boxed(
        Area::new(16, 458, 130, 92),
        Bus,
        &["other watchers", "the same batch,", "own filter, policy,", "queue, counters"],
    );
    svg.arrow(&[(WAY, 422), (WAY, 456)], Queue);
    svg.text((WAY + 12, 444), Anchor::Start, Font::Plain, "the batch goes to every watcher");
    svg.boxed(Area::new(200, 458, 260, 28), Bus, &["filter of the watcher, if it has one"]);
    exit_as(svg, (460, 472), Bus, &["`filtered`", "refused by the filter"]);
    svg.arrow(&[(WAY, 486), (WAY, 520)], Queue);
    svg.text((WAY + 12, 508), Anchor::Start, Font::Bold, "`offered`");
    svg.boxed(Area::new(200, 522, 260, 44), Bus, &["overflow policy", "is there space for the event?"]);
    svg.boxed(Area::new(200, 566, 260, 22), Wait, &["`Wait`, `WaitFor`: the dispatcher waits"]);
    exit(svg, (460, 554), &["`dropped`", "`incoming` `oldest`", "`timed_out` `conflated`"]);
    svg.arrow(&[(WAY, 588), (WAY, 612)], Queue);
    svg.boxed(
        Area::new(200, 614, 260, 44),
        Queue,
        &["queue of the watcher", "`queue_capacity` events: `queued`"],
    );
    exit(svg, (460, 636), &["`dropped`", "`stopped` `abandoned`", "unread at the end"]);
}

/// Draws the three kinds of readers, and the credit that they return.
fn readers(svg: &mut Svg) {
    let readers = [
        (100, "thread", "`recv`, `recv_ref`"),
        (250, "task", "`recv_async`"),
        (400, "handler", "`spawn`, `runner`"),
    ];
    svg.arrow(&[(WAY, 658), (WAY, 702)], Reader);
    svg.text((WAY + 12, 676), Anchor::Start, Font::Plain, "a reader takes a slice of the batch,");
    svg.text((WAY + 12, 692), Anchor::Start, Font::Plain, "and receives each gap in its place");
    svg.area(Area::new(90, 704, 480, 78), Reader);
    svg.text((WAY, 722), Anchor::Middle, Font::Plain, "one reader for each watcher:");
    for (x, name, calls) in readers {
        svg.boxed(Area::new(x + 10, 732, 140, 42), Reader, &[name, calls]);
    }
    svg.text((EXIT, 746), Anchor::Start, Font::Bold, "`delivered`");
    svg.arrow(&[(170, 704), (170, 544), (198, 544)], Reader);
    svg.lines((160, 620), Anchor::End, &["the reader returns", "capacity: credit"]);
}

/// Draws the equations that hold whenever the bus is quiet.
fn equations(svg: &mut Svg) {
    svg.frame(Area::new(16, 800, 768, 100));
    svg.text((30, 821), Anchor::Start, Font::Bold, "Whenever the bus is quiet:");
    for (y, left, right) in [
        (842, "`published`", "`= accepted + rejected_full + rejected_closed`"),
        (858, "`offered`", "`= delivered + dropped + queued`, for each watcher"),
        (874, "`dropped`", "`= incoming + oldest + conflated + timed_out + stopped + abandoned`"),
    ] {
        svg.text((30, y), Anchor::Start, Font::Plain, left);
        svg.text((102, y), Anchor::Start, Font::Plain, right);
    }
    let gaps = "A reader learns of all reasons but `stopped`, and of `abandoned` for lack of space, by a gap: `Lagged(n)`.";
    svg.text((30, 892), Anchor::Start, Font::Plain, gaps);
}
