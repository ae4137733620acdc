//! A sweep as a drawing: the loss above, the latency below.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::report::name;
use super::sweep::{Point, Sweep, Swept};

/// The colours of the watchers, which people who see fewer colours can distinguish too. With more
/// watchers the colours repeat.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x00, 0x00, 0x00),
];
const SIZE: (u32, u32) = (800, 760);

type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

/// One line: its label, the colour of its watcher, its width, and its places.
struct Line {
    label: String,
    colour: RGBAColor,
    width: u32,
    places: Vec<(f64, f64)>,
}

pub(crate) fn svg(sweep: &Sweep, points: &[Point], title: &str) -> Result<String, String> {
    let mut svg = String::new();
    draw(&SVGBackend::with_string(&mut svg, SIZE).into_drawing_area(), sweep, points, title)
        .map_err(|error| format!("cannot draw: {error}"))?;
    Ok(svg)
}

fn draw<'a>(
    area: &DrawingArea<SVGBackend<'a>, Shift>,
    sweep: &Sweep,
    points: &[Point],
    title: &str,
) -> Result<(), Failure<'a>> {
    area.fill(&WHITE)?;
    let area = area.titled(title, ("sans-serif", 16))?;
    let (upper, lower) = area.split_vertically(SIZE.1 / 2 - 12);
    let x = |point: &Point, watcher: usize| match sweep.swept {
        Swept::Queue => point.value as f64,
        Swept::Handler => point.findings[watcher].load.max(1e-6),
    };
    let described = match sweep.swept {
        Swept::Queue => "queue length, events",
        Swept::Handler => "load: the handler's time for the events of one second, in seconds",
    };
    // Corners where usually there is no line.
    let (loss_legend, latency_legend) = match sweep.swept {
        Swept::Queue => (SeriesLabelPosition::UpperRight, SeriesLabelPosition::LowerRight),
        Swept::Handler => (SeriesLabelPosition::UpperLeft, SeriesLabelPosition::UpperLeft),
    };
    let watchers = points.first().map_or(&[][..], |point| &point.outcome.settings.watchers);
    let (mut losses, mut latencies) = (Vec::new(), Vec::new());
    for (index, watcher) in watchers.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        // Different widths, so that a line that lies under another can still be seen.
        let width = 6_u32.saturating_sub(2 * index as u32).max(2);
        let line = |label: String, colour: RGBAColor, y: &dyn Fn(&Point) -> f64| Line {
            label,
            colour,
            width,
            places: points.iter().map(|point| (x(point, index), y(point))).collect(),
        };
        let latency = |quantile: f64| {
            move |point: &Point| {
                let seen = &point.outcome.accounts[index].seen;
                (seen.latency.value_at_quantile(quantile) as f64 / 1e6).max(0.001)
            }
        };
        let name = name(watcher);
        losses.push(line(name.clone(), colour.to_rgba(), &|point| point.findings[index].lost_percent));
        latencies.push(line(format!("{name}, p99"), colour.to_rgba(), &latency(0.99)));
        latencies.push(line(format!("{name}, p50"), colour.mix(0.45), &latency(0.5)));
    }
    let top =
        losses.iter().flat_map(|line| &line.places).fold(1.0, |top, place| f64::max(top, place.1)) * 1.05;
    let across = range(&losses, |place| place.0);
    let mut chart = ChartBuilder::on(&upper)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(across.clone().log_scale(), 0.0..top)?;
    chart
        .configure_mesh()
        .max_light_lines(2)
        .x_desc(described)
        .y_desc("lost, % of the offered events")
        .x_label_formatter(&tick)
        .draw()?;
    for line in losses {
        let style = line.colour.stroke_width(line.width);
        let drawn = chart.draw_series(LineSeries::new(line.places, style))?;
        drawn.label(line.label).legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    }
    chart
        .configure_series_labels()
        .position(loss_legend)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;

    let up = range(&latencies, |place| place.1);
    let mut chart = ChartBuilder::on(&lower)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(across.log_scale(), up.log_scale())?;
    chart
        .configure_mesh()
        .max_light_lines(2)
        .x_desc(described)
        .y_desc("latency, ms")
        .x_label_formatter(&tick)
        .y_label_formatter(&tick)
        .draw()?;
    for line in latencies {
        let style = line.colour.stroke_width(line.width);
        let drawn = chart.draw_series(LineSeries::new(line.places, style))?;
        drawn.label(line.label).legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    }
    chart
        .configure_series_labels()
        .position(latency_legend)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    area.present()
}

/// Returns the range from the smallest to the largest value. The range is never empty.
fn range(lines: &[Line], of: fn(&(f64, f64)) -> f64) -> Range<f64> {
    let values = || lines.iter().flat_map(|line| line.places.iter().map(of));
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    if least < most { least..most } else { least.min(1.0) * 0.9..most.max(1.0) * 1.1 }
}

/// Returns a label such as `0.01`, `1` or `10000`.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as plotters calls it")]
fn tick(value: &f64) -> String {
    if *value >= 1.0 { format!("{value:.0}") } else { format!("{}", (value * 1e4).round() / 1e4) }
}
