//! Draws a sweep, with the loss in the upper panel and the latency in the lower panel.

use super::load::Load;
use super::shown::name;
use super::sweep::{Point, Sweep, Swept};
use crate::plot::{Axis, Drawing, Line, Mark, Panel, Scale};
use crate::support::number::grouped;

/// The lowest latency to draw, in milliseconds.
const LEAST: f64 = 0.001;
/// The lowest utilisation to draw.
const IDLE: f64 = 1e-6;
/// The library's default length of a watcher's queue.
const QUEUE_CAPACITY: u64 = 1000;

pub(super) fn of(sweep: &Sweep, points: &[Point], load: &Load) -> Drawing {
    let title = match sweep.swept {
        Swept::Queue => format!("Loss and latency by length of the queue: {load}"),
        Swept::Handler => format!("Loss and latency by utilisation: {load}"),
    };
    let panel = |label: &str, scale: Scale, lines: Vec<Line>| Panel {
        x: across(sweep.swept),
        y: Axis { label: label.to_owned(), scale },
        lines,
        marks: marks(sweep.swept, load),
    };
    Drawing {
        title,
        panels: vec![
            panel("lost, % of the offered events", Scale::Linear, losses(sweep, points)),
            panel("latency, ms", Scale::Log, latencies(sweep, points)),
        ],
    }
}

fn across(swept: Swept) -> Axis {
    let label = match swept {
        Swept::Queue => "length of the queue, events",
        Swept::Handler => "utilisation: offered load / capacity, as a share of the handler's time",
    };
    Axis { label: label.to_owned(), scale: Scale::Log }
}

/// Returns the reference values to mark on the x axis.
fn marks(swept: Swept, load: &Load) -> Vec<Mark> {
    match swept {
        Swept::Queue => {
            let label = format!("default: {}", grouped(QUEUE_CAPACITY));
            let default = Mark { at: QUEUE_CAPACITY as f64, label };
            let burst = Mark { at: load.burst as f64, label: format!("burst: {}", grouped(load.burst)) };
            if load.burst > 0 { vec![burst, default] } else { vec![default] }
        }
        Swept::Handler => vec![Mark { at: 1.0, label: "1: the handler is always busy".to_owned() }],
    }
}

fn losses(sweep: &Sweep, points: &[Point]) -> Vec<Line> {
    let line = |(index, name): (usize, String)| {
        let lost = |point: &Point| point.findings[index].lost_percent;
        Line { label: name, series: index, dashes: index, places: places(sweep, points, index, lost) }
    };
    names(points).into_iter().enumerate().map(line).collect()
}

fn latencies(sweep: &Sweep, points: &[Point]) -> Vec<Line> {
    let line = |index: usize, name: &str, dashes: usize, quantile: f64| {
        let latency = |point: &Point| {
            let latency = &point.outcome.accounts[index].seen.latency;
            // A NaN point is not drawn.
            let nothing = latency.is_empty().then_some(f64::NAN);
            nothing.unwrap_or_else(|| (latency.value_at_quantile(quantile) as f64 / 1e6).max(LEAST))
        };
        // The name is at the end of the label, because long labels are truncated at the end.
        let label = format!("p{:.0} of {name}", quantile * 100.0);
        Line { label, series: index, dashes, places: places(sweep, points, index, latency) }
    };
    let both = |(index, name): (usize, String)| {
        let dashes = index % 2;
        [line(index, &name, dashes, 0.99), line(index, &name, dashes + 2, 0.5)]
    };
    names(points).into_iter().enumerate().flat_map(both).collect()
}

/// Returns the names of the watchers. All runs have the same watchers.
fn names(points: &[Point]) -> Vec<String> {
    points.first().map_or_else(Vec::new, |point| point.outcome.settings.watchers.iter().map(name).collect())
}

fn places(sweep: &Sweep, points: &[Point], index: usize, y: impl Fn(&Point) -> f64) -> Vec<(f64, f64)> {
    let x = |point: &Point| match sweep.swept {
        Swept::Queue => point.value as f64,
        Swept::Handler => point.findings[index].utilisation.max(IDLE),
    };
    points.iter().map(|point| (x(point), y(point))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::accounting::tests::outcome;
    use super::super::finding::{Enough, Finding};
    use super::super::sweep::{Point, Sweep};
    use super::{QUEUE_CAPACITY, of};
    use crate::plot::svg;
    use eventcast::BusOptions;
    use serde_json::json;

    /// Returns the drawing of a sweep with one watcher.
    fn drawn(sweep: &str, values: &[u64]) -> String {
        let point = |value: &u64| {
            let utilisation = *value as f64 / 1000.0;
            let enough = Enough::Held(1);
            let finding =
                Finding { lost: 6, lost_percent: 60.0, utilisation, first: None, enough, spread: None };
            let mut outcome = outcome();
            outcome.accounts[0].seen.latency.record(5_000_000).unwrap();
            Point { value: *value, outcome, findings: vec![finding] }
        };
        let mut load = outcome().settings.load;
        load.burst = 300;
        let points: Vec<Point> = values.iter().map(point).collect();
        svg(&of(&Sweep::parse(sweep).unwrap(), &points, &load)).unwrap()
    }

    #[test]
    fn a_sweep_of_lengths_marks_the_burst_and_the_default() {
        assert_eq!(json!(BusOptions::default())["queue_capacity"], QUEUE_CAPACITY);
        let svg = drawn("queue=20..2000", &[20, 200, 2000]);
        for text in ["length of the queue, events", "burst: 300", "default: 1,000", r"p99 of w\u{1b}"] {
            assert_eq!(
                svg.matches(text).count(),
                if text.starts_with("p99") { 1 } else { 2 },
                "{text}: {svg}"
            );
        }
        assert!(svg.contains("lost, % of the offered events") && svg.contains("latency, ms"), "{svg}");
    }

    #[test]
    fn a_sweep_of_handlers_is_over_their_utilisation() {
        let svg = drawn("handler=1us..1ms", &[100, 1000, 2000]);
        let label = "utilisation: offered load / capacity, as a share of the handler&apos;s time";
        for text in [label, "1: the handler is always busy", "\n0.1\n"] {
            assert_eq!(svg.matches(text).count(), 2, "{text}: {svg}");
        }
        assert!(!svg.contains("burst: 300"), "{svg}");
    }
}
