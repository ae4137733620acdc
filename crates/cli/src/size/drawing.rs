//! A sweep as a drawing: the loss above, the latency below.

use eventcast::BusOptions;

use super::load::Load;
use super::report::name;
use super::sweep::{Point, Sweep, Swept};
use crate::plot::{Axis, Drawing, Line, Mark, Panel, Scale};
use crate::support::number::grouped;

/// The least latency that is drawn, in milliseconds.
const LEAST: f64 = 0.001;
/// The least utilisation that is drawn.
const IDLE: f64 = 1e-6;

pub(super) fn of(sweep: &Sweep, points: &[Point], load: &Load) -> Drawing {
    let title = match sweep.swept {
        Swept::Queue => format!("Loss and latency by the length of the queue: {load}"),
        Swept::Handler => format!("Loss and latency by the handler's utilisation: {load}"),
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

/// Returns the lengths and the utilisation to compare with.
fn marks(swept: Swept, load: &Load) -> Vec<Mark> {
    match swept {
        Swept::Queue => {
            let default = BusOptions::default().get_queue_len() as u64;
            let default = Mark { at: default as f64, label: format!("default: {}", grouped(default)) };
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
            // A place without a number is not drawn.
            let nothing = latency.is_empty().then_some(f64::NAN);
            nothing.unwrap_or_else(|| (latency.value_at_quantile(quantile) as f64 / 1e6).max(LEAST))
        };
        // The name comes last, because the end of a long label is cut.
        let label = format!("p{:.0} of {name}", quantile * 100.0);
        Line { label, series: index, dashes, places: places(sweep, points, index, latency) }
    };
    let both = |(index, name): (usize, String)| {
        let dashes = index % 2;
        [line(index, &name, dashes, 0.99), line(index, &name, dashes + 2, 0.5)]
    };
    names(points).into_iter().enumerate().flat_map(both).collect()
}

/// Returns the names of the watchers, which are the same in each run.
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
