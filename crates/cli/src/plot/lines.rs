//! The lines, with the markers at their places.

use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::{Area, Chart, Failure, Line, Panel};

/// The colours, which people who see fewer colours can distinguish too. All of them are dark enough
/// for a white ground. With more series the colours repeat.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x33, 0x33, 0x33),
    RGBColor(0x8c, 0x6d, 0x00),
];
/// The patterns of dashes: the length of a dash and of the gap after it, in pixels.
const DASHES: [Option<(i32, i32)>; 4] = [None, Some((9, 5)), Some((2, 4)), Some((16, 6))];
const MARKERS: usize = 5;
/// The width of a line, and half the width of a marker, in pixels.
const LINE_WIDTH: u32 = 2;
const MARKER_SIZE: i32 = 4;

/// The look of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    colour: RGBColor,
    marker: usize,
    dashes: Option<(i32, i32)>,
}

/// A line as it is drawn, in pixels of the whole drawing.
#[derive(Debug)]
pub(super) struct Drawn {
    /// The label of the line, with those of all lines that lie on it.
    pub(super) label: String,
    pub(super) style: Style,
    pub(super) places: Vec<(i32, i32)>,
}

/// Returns the lines of a panel. Lines that lie on each other become one.
pub(super) fn drawn(chart: &Chart, panel: &Panel) -> Vec<Drawn> {
    let mut groups: Vec<(&Line, Drawn)> = Vec::new();
    for line in &panel.lines {
        let finite = line.places.iter().filter(|place| place.0.is_finite() && place.1.is_finite());
        let places: Vec<_> = finite.map(|place| chart.backend_coord(place)).collect();
        if places.is_empty() {
            continue;
        }
        match groups.iter_mut().find(|(_, drawn)| lie_on_each_other(&drawn.places, &places)) {
            Some((first, drawn)) => {
                let sign = if first.places == line.places { '=' } else { '≈' };
                drawn.label = format!("{} {sign} {}", drawn.label, line.label);
            }
            None => groups.push((line, Drawn { label: line.label.clone(), style: style(line), places })),
        }
    }
    groups.into_iter().map(|(_, drawn)| drawn).collect()
}

fn style(line: &Line) -> Style {
    Style {
        colour: COLOURS[line.series % COLOURS.len()],
        marker: line.series % MARKERS,
        dashes: DASHES[line.dashes % DASHES.len()],
    }
}

/// Returns whether a reader could not see that there are two lines.
fn lie_on_each_other(one: &[(i32, i32)], other: &[(i32, i32)]) -> bool {
    let is_near = |(a, b): (&(i32, i32), &(i32, i32))| {
        let far = (a.0 - b.0).abs().max((a.1 - b.1).abs());
        far < LINE_WIDTH as i32
    };
    one.len() == other.len() && one.iter().zip(other).all(is_near)
}

/// Draws the lines, the first one on top.
pub(super) fn draw<'a>(area: &Area<'a>, lines: &[Drawn]) -> Result<(), Failure<'a>> {
    lines.iter().rev().try_for_each(|line| draw_line(area, line.style, &line.places))
}

/// Draws one line with a marker at each place.
pub(super) fn draw_line<'a>(area: &Area<'a>, style: Style, places: &[(i32, i32)]) -> Result<(), Failure<'a>> {
    let stroke = style.colour.stroke_width(LINE_WIDTH);
    match style.dashes {
        None => area.draw(&PathElement::new(places.to_vec(), stroke))?,
        Some((dash, gap)) => {
            area.draw(&DashedPathElement::new(places.to_vec(), dash, gap, stroke))?;
        }
    }
    places.iter().try_for_each(|place| draw_marker(area, style, *place))
}

/// Draws a marker. The markers are hollow, so a marker below another one can be seen.
fn draw_marker<'a>(area: &Area<'a>, style: Style, (x, y): (i32, i32)) -> Result<(), Failure<'a>> {
    let (size, stroke) = (MARKER_SIZE, style.colour.stroke_width(LINE_WIDTH));
    let closed = |points: &[(i32, i32)]| {
        let ends = points.iter().chain(points.first());
        PathElement::new(
            ends.map(|(dx, dy)| (x + dx * size / 4, y + dy * size / 4)).collect::<Vec<_>>(),
            stroke,
        )
    };
    match style.marker {
        0 => area.draw(&Circle::new((x, y), size, stroke)),
        1 => area.draw(&closed(&[(-4, -4), (4, -4), (4, 4), (-4, 4)])),
        2 => area.draw(&closed(&[(0, -5), (5, 4), (-5, 4)])),
        3 => area.draw(&closed(&[(0, -5), (5, 0), (0, 5), (-5, 0)])),
        _ => area.draw(&Cross::new((x, y), size, stroke)),
    }
}
