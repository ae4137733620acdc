//! Draws the five overflow policies on one timeline, as recorded by `run`.

use std::error::Error;

use eventcast::OverflowPolicy;

use crate::palette::Meaning;
use crate::run::{self, Item, LIMIT, QUEUE, RETURN, Run, STEP_MS, STEPS, Step};
use crate::svg::{Anchor, Area, Font, Svg};

/// The left edge of the first step.
const LEFT: i32 = 136;
/// The width of a step.
const STEP: i32 = 43;
/// The width of the step in which the reader returns and reads the whole queue.
const WIDE: i32 = 218;
/// The width of an event.
const CELL: i32 = 24;
/// The height of an event.
const ROW: i32 = 18;
/// The height of a queue.
const SLOTS: i32 = QUEUE as i32 * ROW;

const DESCRIPTION: &str = "Five buses, one for each overflow policy. Each publishes ten events to a watcher with a queue \
of four events. The reader pauses until seven events are published, and then reads each event immediately. With \
DropIncoming the reader gets 1 2 3 4, the gap Lagged(3), 8 9 10. With DropOldest it gets Lagged(3), then 4 to 10. With \
Evict it gets 1 2 3 4 and the end. With WaitFor it gets 1 2 3 4, Lagged(1), 6 to 10. With Wait it gets all ten.";

pub(crate) fn draw() -> Result<String, Box<dyn Error>> {
    let runs = run::all()?;
    let mut y = 116;
    let height = y + runs.iter().map(height).sum::<i32>() + 24;
    let mut svg = Svg::new(height, "Five policies for a full queue, on one timeline", DESCRIPTION);
    svg.text((784, 27), Anchor::End, Font::Plain, "A column shows the end of a step.");
    axis(&mut svg, &runs[0]);
    for run in &runs {
        panel(&mut svg, run, y);
        y += self::height(run);
    }
    let meanings = [
        Meaning::Caller,
        Meaning::Queue,
        Meaning::Wait,
        Meaning::Loss,
        Meaning::Gap,
        Meaning::Reader,
        Meaning::End,
    ];
    svg.legend(height - 20, &meanings);
    Ok(svg.finish())
}

/// Returns the left edge of a step, or of the position after the last step.
fn left(step: u64) -> i32 {
    let steps = i32::try_from(step).expect("there are few steps") - 1;
    LEFT + STEP * steps + if step > RETURN { WIDE - STEP } else { 0 }
}

fn middle(step: u64) -> i32 {
    i32::midpoint(left(step), left(step + 1))
}

fn waits(run: &Run) -> bool {
    matches!(run.policy, OverflowPolicy::Wait | OverflowPolicy::WaitFor(_))
}

/// Returns the height of a policy's part of the picture.
fn height(run: &Run) -> i32 {
    let waiting = if waits(run) { 2 * (ROW + 4) } else { 0 };
    let losing = if run.policy == OverflowPolicy::Wait { 0 } else { ROW + 4 };
    24 + waiting + losing + SLOTS + 10 + ROW + 20
}

/// Draws the steps, with the time, the published events, and whether the reader is present.
fn axis(svg: &mut Svg, run: &Run) {
    for (at, text) in [(52, "time in ms"), (74, "published"), (97, "the reader")] {
        svg.text((16, at), Anchor::Start, Font::Plain, text);
    }
    for (number, step) in (1..).zip(&run.steps) {
        svg.text((middle(number), 52), Anchor::Middle, Font::Plain, &(number * STEP_MS).to_string());
        if let Some(event) = step.published {
            cell(svg, middle(number) - CELL / 2, 61, Meaning::Caller, event);
        }
    }
    grid(svg, 40, 80);
    let bar = |from: u64, to: u64| Area::new(left(from) + 2, 84, left(to) - left(from) - 4, ROW);
    svg.frame(bar(1, RETURN));
    svg.text((bar(1, RETURN).middle().0, 97), Anchor::Middle, Font::Plain, "pauses");
    svg.boxed(bar(RETURN, RETURN + 1), Meaning::Reader, &["drains the queue"]);
    svg.boxed(bar(RETURN + 1, STEPS + 1), Meaning::Reader, &["reads each"]);
}

/// Draws the borders of the steps.
fn grid(svg: &mut Svg, top: i32, bottom: i32) {
    for step in 1..=STEPS + 1 {
        svg.guide((left(step), top), (left(step), bottom));
    }
}

fn cell(svg: &mut Svg, x: i32, y: i32, meaning: Meaning, event: u64) {
    svg.boxed(Area::new(x, y, CELL, ROW), meaning, &[&event.to_string()]);
}

/// Draws one policy, from the incoming queue at the top to the reader at the bottom.
fn panel(svg: &mut Svg, run: &Run, top: i32) {
    svg.guide((16, top), (784, top));
    let (name, rule) = rule(run.policy);
    svg.text((16, top + 16), Anchor::Start, Font::Bold, &format!("`{name}`"));
    svg.text((LEFT, top + 16), Anchor::Start, Font::Plain, rule);
    let counts = format!("dropped {}", run.stats.dropped);
    svg.text((784, top + 16), Anchor::End, Font::Plain, &counts);

    grid(svg, top + 24, top + height(run) - 14);

    let mut y = top + 24;
    if waits(run) {
        y = waiting(svg, run, y);
    }
    if run.policy != OverflowPolicy::DropOldest {
        y = lost(svg, run, y);
    }
    let is_evicted = run.stats.evictions > 0;
    for (number, step) in (1..).zip(&run.steps).filter(|(number, _)| *number < RETURN || !is_evicted) {
        slots(svg, number, step, y);
    }
    label(svg, y, "the queue,");
    label(svg, y + 16, "newest on top");
    let queue = y;
    y += SLOTS + 4;
    if run.policy == OverflowPolicy::DropOldest {
        y = lost(svg, run, y);
    }
    svg.arrow(&[(left(RETURN) + 8, queue + SLOTS / 2), (left(RETURN) + 8, y + 4)], Meaning::Reader);
    received(svg, run, y + 6);
}

fn rule(policy: OverflowPolicy) -> (&'static str, &'static str) {
    match policy {
        OverflowPolicy::DropIncoming => {
            ("DropIncoming", "An event that does not fit is lost. Nothing waits.")
        }
        OverflowPolicy::DropOldest => ("DropOldest", "The oldest event is dropped. Nothing waits."),
        OverflowPolicy::Evict => ("Evict", "The first event that does not fit ends the watcher."),
        OverflowPolicy::WaitFor(limit) => {
            assert_eq!(limit, LIMIT);
            ("WaitFor(20 ms)", "The dispatcher waits for space for at most 20 ms.")
        }
        OverflowPolicy::Wait => ("Wait", "The dispatcher waits for space. Nothing is lost."),
        other => panic!("the picture has no part for {other}"),
    }
}

fn label(svg: &mut Svg, y: i32, text: &str) {
    svg.text((16, y + 13), Anchor::Start, Font::Plain, text);
}

/// Draws the incoming queue, and the event that the dispatcher holds while the dispatcher waits.
fn waiting(svg: &mut Svg, run: &Run, y: i32) -> i32 {
    label(svg, y, "incoming queue");
    label(svg, y + ROW + 4, "dispatcher");
    let mut spans: Vec<(u64, u64, u64)> = Vec::new();
    for (number, step) in (1..).zip(&run.steps) {
        let count = i32::try_from(step.incoming.len()).expect("few events wait");
        let mut x = middle(number) - count * (CELL - 4) / 2;
        for event in &step.incoming {
            svg.boxed(Area::new(x, y, CELL - 4, ROW), Meaning::Queue, &[&event.to_string()]);
            x += CELL - 4;
        }
        match (step.held, spans.last_mut()) {
            (Some(event), Some((held, _, last))) if event == *held => *last = number,
            (Some(event), _) => spans.push((event, number, number)),
            (None, _) => {}
        }
    }
    for (event, first, last) in spans {
        let (x, end) = (left(first) + 2, left(last + 1) - 2);
        let text = if last > first { format!("waits with {event}") } else { event.to_string() };
        svg.boxed(Area::new(x, y + ROW + 4, end - x, ROW), Meaning::Wait, &[&text]);
    }
    y + 2 * (ROW + 4)
}

/// Draws the events that the watcher loses, and the end of a watcher that is evicted.
fn lost(svg: &mut Svg, run: &Run, y: i32) -> i32 {
    if run.policy == OverflowPolicy::Wait {
        return y;
    }
    label(svg, y, if run.stats.evictions > 0 { "not offered" } else { "lost" });
    for (number, step) in (1..).zip(&run.steps) {
        for event in &step.lost {
            cell(svg, middle(number) - CELL / 2, y, Meaning::Loss, *event);
        }
        if let Some(event) = step.published.filter(|_| step.is_evicted) {
            let end = Area::new(left(number) + 2, y - 2, 4, SLOTS + ROW + 6);
            svg.area(end, Meaning::End);
            let text = format!("{event} does not fit. The watcher ends before it, and loses nothing.");
            svg.text((left(number) + 12, y + 13), Anchor::Start, Font::Plain, &text);
        }
    }
    y + ROW + 4
}

/// Draws the queue at the end of a step.
fn slots(svg: &mut Svg, number: u64, step: &Step, y: i32) {
    let x = middle(number) - CELL / 2;
    svg.frame(Area::new(x, y, CELL, SLOTS));
    let mut y = y + SLOTS;
    for event in &step.queue {
        y -= ROW;
        cell(svg, x, y, Meaning::Queue, *event);
    }
}

/// Draws the items that the reader receives, each in the step in which it is received.
fn received(svg: &mut Svg, run: &Run, y: i32) {
    label(svg, y, "the reader gets");
    for (number, step) in (1..).zip(&run.steps) {
        let widths = step.received.iter().map(|item| item_width(*item)).sum::<i32>();
        let mut x = if number == RETURN { left(number) + 4 } else { middle(number) - widths / 2 };
        for item in &step.received {
            let area = Area::new(x, y, item_width(*item), ROW);
            match item {
                Item::Event(event) => svg.boxed(area, Meaning::Reader, &[&event.to_string()]),
                Item::Lagged(events) => svg.boxed(area, Meaning::Gap, &[&format!("Lagged({events})")]),
                Item::End => svg.boxed(area, Meaning::End, &["end: `Evicted`"]),
            }
            x += area.w;
        }
    }
}

fn item_width(item: Item) -> i32 {
    match item {
        Item::Event(_) => CELL,
        Item::Lagged(_) => 66,
        Item::End => 90,
    }
}
