//! Draws the path of an event in five boxes, for the first chapter.

use crate::palette::Meaning::{Bus, Caller, Queue, Reader};
use crate::svg::{Area, Svg};

const WIDTH: i32 = 136;
const DISTANCE: i32 = 160;

const DESCRIPTION: &str = "Publishers, which are threads and tasks, publish events into the bus's incoming queue. The \
dispatcher, the bus's own thread, copies each event to one bounded queue for each watcher. A watcher is read by a thread, a \
task or a handler.";

pub(crate) fn draw() -> String {
    let mut svg = Svg::new(148, "The path of an event", DESCRIPTION);
    let boxes = [
        (Caller, ["publishers", "threads and tasks"]),
        (Queue, ["incoming queue", "one order for all"]),
        (Bus, ["dispatcher", "the bus's thread"]),
        (Queue, ["watcher's queue", "bounded, own policy"]),
        (Reader, ["watcher", "thread, task, handler"]),
    ];
    for (number, (meaning, lines)) in (0..).zip(boxes) {
        let area = Area::new(12 + number * DISTANCE, 48, WIDTH, 56);
        svg.boxed(area, meaning, &lines);
        if number > 0 {
            let y = area.middle().1;
            svg.arrow(&[(area.x - DISTANCE + WIDTH, y), (area.x - 2, y)], Queue);
        }
    }
    svg.legend(132, &[Caller, Bus, Queue, Reader]);
    svg.finish()
}
