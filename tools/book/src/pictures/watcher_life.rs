//! Draws a watcher's life, with the registration, the offers, the gaps, and every way in which the
//! watcher can end.

use crate::palette::Meaning::{self, Bus, Caller, End, Gap, Loss, Queue, Reader};
use crate::svg::{Anchor, Area, Font, Svg};

const DESCRIPTION: &str = "A registration waits beside the incoming queue, with a place among the events. The dispatcher carries it out, \
and first offers the watcher the past that the history has. From then on the bus offers it every event. Events \
that are lost appear as a gap in their place. There are five ways to end. Stopped, evicted, and with the bus: \
the reader receives what is queued, and then the end with its reason. Dropped: the queue is emptied at once. A \
shutdown by deadline abandons what handlers have not handled, and events that wait for space.";

/// A way in which a watcher can end, with the cause, what happens to the queue, and what the reader
/// receives.
struct Ending {
    name: &'static str,
    cause: &'static [&'static str],
    queue: &'static [&'static str],
    loses: bool,
    reader: &'static [&'static str],
}

const ENDINGS: [Ending; 5] = [
    Ending {
        name: "stopped",
        cause: &["`stop()` on the watcher", "or on a handle of it,", "or its filter panics."],
        queue: &["The bus offers it", "nothing more.", "What is queued", "stays readable."],
        loses: false,
        reader: &["reads the rest, then", "`Stopped`"],
    },
    Ending {
        name: "evicted",
        cause: &["An event does not", "fit, and the policy", "is `Evict`."],
        queue: &["The event counts as", "dropped: `evicted`.", "What is queued", "stays readable."],
        loses: false,
        reader: &["reads the rest, then", "`Evicted`"],
    },
    Ending {
        name: "bus closed",
        cause: &["`close()`, a shutdown,", "or the drop of the", "last `Broadcaster`."],
        queue: &["The bus offers all", "that it accepted.", "What is queued", "stays readable."],
        loses: false,
        reader: &["reads the rest, then", "`Closed`"],
    },
    Ending {
        name: "dropped",
        cause: &["The reader is dropped,", "or a handler panics", "with `stop_on_panic`."],
        queue: &["The queue is emptied", "at once. Its events", "count as dropped:", "`stopped`."],
        loses: true,
        reader: &["gets nothing more", "no reason"],
    },
    Ending {
        name: "abandoned",
        cause: &["A shutdown comes to", "its deadline, and a", "handler has not ended."],
        queue: &["The handler finishes", "its event. The rest", "counts as dropped:", "`abandoned`."],
        loses: true,
        reader: &["gets nothing more", "no reason"],
    },
];

pub(crate) fn draw() -> String {
    let mut svg = Svg::new(732, "The life of a watcher", DESCRIPTION);
    beginning(&mut svg);
    stream(&mut svg);
    for (x, ending) in (16..).step_by(155).zip(&ENDINGS) {
        end(&mut svg, x, ending);
    }
    departure(&mut svg);
    svg.legend(708, &[Caller, Bus, Queue, Reader, Loss, Gap, End]);
    svg.finish()
}

/// Draws the registration and its position among the events.
fn beginning(svg: &mut Svg) {
    svg.boxed(Area::new(16, 48, 168, 60), Caller, &["`watch()`", "adds a registration,", "and returns"]);
    svg.area(Area::new(216, 42, 250, 44), Queue);
    svg.text((341, 56), Anchor::Middle, Font::Plain, "incoming queue");
    for (text, x) in [("6", 256), ("5", 352), ("4", 384)] {
        svg.boxed(Area::new(x, 62, 26, 20), Queue, &[text]);
    }
    svg.arrow(&[(184, 100), (268, 100)], Bus);
    svg.boxed(Area::new(270, 90, 92, 20), Bus, &["registration"]);
    svg.arrow(&[(316, 90), (316, 68)], Bus);
    svg.arrow(&[(466, 78), (496, 78)], Queue);
    svg.boxed(
        Area::new(498, 48, 286, 60),
        Bus,
        &[
            "the dispatcher registers it",
            "after event 5. With a start in the past,",
            "it first offers what the history has.",
        ],
    );
    svg.lines((16, 128), Anchor::Start, &["After the close: `WatchError::Closed`"]);
    svg.arrow(&[(640, 108), (640, 140)], Queue);
}

/// Draws a watcher's stream, which contains events, a gap, and further events.
fn stream(svg: &mut Svg) {
    svg.area(Area::new(16, 142, 768, 96), Bus);
    svg.text((30, 161), Anchor::Start, Font::Bold, "registered");
    svg.text(
        (112, 161),
        Anchor::Start,
        Font::Plain,
        "The bus offers it every event from its place in the order on.",
    );
    let text =
        "If its queue is full, the policy decides. Lost events become a gap, and the watcher reads on:";
    svg.text((30, 179), Anchor::Start, Font::Plain, text);
    svg.text((30, 211), Anchor::Start, Font::Plain, "the reader gets");
    let items = [
        ("Lagged(3)", Gap),
        ("4", Reader),
        ("5", Reader),
        ("6", Reader),
        ("7", Reader),
        ("Lagged(2)", Gap),
        ("10", Reader),
        ("11", Reader),
    ];
    let mut x = 150;
    for (text, meaning) in items {
        let width = if meaning == Gap { 74 } else { 30 };
        svg.boxed(Area::new(x, 196, width, 22), meaning, &[text]);
        x += width + 4;
    }
    svg.arrow(&[(x + 2, 207), (x + 34, 207)], Reader);
    svg.text((150, 232), Anchor::Start, Font::Plain, "older than the history");
    svg.text((364, 232), Anchor::Start, Font::Plain, "lost: the queue was full");
}

/// Draws one way to end as a column.
fn end(svg: &mut Svg, x: i32, ending: &Ending) {
    let (width, middle) = (148, x + 74);
    let queue_meaning: Meaning = if ending.loses { Loss } else { Queue };
    svg.arrow(&[(middle, 238), (middle, 262)], Bus);
    svg.boxed(Area::new(x, 264, width, 24), End, &[ending.name]);
    svg.frame(Area::new(x, 288, width, 66));
    svg.lines((middle, 309), Anchor::Middle, ending.cause);
    svg.arrow(&[(middle, 354), (middle, 380)], queue_meaning);
    svg.area(Area::new(x, 382, width, 84), queue_meaning);
    svg.lines((middle, 404), Anchor::Middle, ending.queue);
    svg.arrow(&[(middle, 466), (middle, 492)], if ending.loses { Bus } else { Reader });
    let reader = Area::new(x, 494, width, 50);
    if ending.loses {
        svg.frame(reader);
    } else {
        svg.area(reader, Reader);
    }
    svg.lines((middle, 515), Anchor::Middle, ending.reader);
    svg.arrow(&[(middle, 544), (middle, 570)], Bus);
}

/// Draws the watcher's departure, which follows every way to end.
fn departure(svg: &mut Svg) {
    svg.boxed(
        Area::new(16, 572, 768, 60),
        Bus,
        &[
            "departed",
            "The dispatcher has removed the watcher, and its reader has been dropped. `BusStats::departed` has its counters.",
            "A handler that ends with the bus stays in the list, so that the report names it.",
        ],
    );
    svg.lines(
        (16, 654),
        Anchor::Start,
        &[
            "`end_reason()` returns `Stopped`, `Evicted` or `Closed` once a receive has returned the end.",
            "A handler that panics goes on with its next event, unless `stop_on_panic` is set.",
            "At the deadline of a shutdown, a watcher that you read loses only the events that wait for space.",
        ],
    );
}
