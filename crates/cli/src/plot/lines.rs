//! Draws the lines and the lines' markers.

use plotters::coord::ranged1d::Ranged as _;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::bounds::Bounds;
use super::canvas::{Area, Chart, Failure, PANEL_HEIGHT, WIDTH};
use super::drawing::{Line, Panel};

/// The line colours. People with a colour vision deficiency can distinguish these colours, and all
/// of them are dark enough for a white background. If there are more series than colours, the
/// colours repeat.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x33, 0x33, 0x33),
    RGBColor(0x8c, 0x6d, 0x00),
];
/// The dash patterns, as the lengths in pixels of a dash and of the gap after it.
const DASHES: [Option<(i32, i32)>; 4] = [None, Some((10, 5)), Some((2, 3)), Some((3, 9))];
const MARKERS: usize = 5;
/// The line width, and half the marker width, in pixels.
const LINE_WIDTH: u32 = 2;
const MARKER_SIZE: i32 = 4;
/// The minimum distance between two markers on a line, in pixels.
const MARKERS_APART: i32 = 24;

/// The style of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    colour: RGBColor,
    marker: usize,
    dashes: Option<(i32, i32)>,
}

/// A line in the form in which it is drawn.
#[derive(Debug)]
pub(super) struct Drawn {
    /// The line's label, followed by the labels of all other lines that coincide with the line,
    /// such as `= wait`.
    pub(super) labels: Vec<String>,
    pub(super) style: Style,
    places: Vec<(f64, f64)>,
}

impl Drawn {
    /// Returns the end of the line in pixel coordinates of the whole drawing.
    pub(super) fn end(&self, chart: &Chart) -> Option<(i32, i32)> {
        self.places.last().map(|place| chart.backend_coord(place))
    }
}

/// Returns the lines to draw in a panel, with coinciding lines merged.
pub(super) fn drawn(panel: &Panel, x: &Bounds, y: &Bounds) -> Vec<Drawn> {
    // The actual panel is slightly smaller than the size used here, so lines that coincide at this
    // size also coincide in the actual panel.
    let pixel =
        |place: &(f64, f64)| (x.map(&place.0, (0, WIDTH as i32)), y.map(&place.1, (0, PANEL_HEIGHT as i32)));
    let lie_on_each_other = |one: &[(f64, f64)], other: &[(f64, f64)]| {
        let is_near = |(a, b): (&(f64, f64), &(f64, f64))| {
            let (a, b) = (pixel(a), pixel(b));
            (a.0 - b.0).abs().max((a.1 - b.1).abs()) < LINE_WIDTH as i32
        };
        one.len() == other.len() && one.iter().zip(other).all(is_near)
    };
    let mut lines: Vec<Drawn> = Vec::new();
    for line in &panel.lines {
        let is_finite = |place: &&(f64, f64)| place.0.is_finite() && place.1.is_finite();
        let places: Vec<_> = line.places.iter().filter(is_finite).copied().collect();
        match lines.iter_mut().find(|drawn| lie_on_each_other(&drawn.places, &places)) {
            _ if places.is_empty() => {}
            Some(first) => {
                let sign = if first.places == places { '=' } else { '≈' };
                first.labels.push(format!("{sign} {}", line.label));
            }
            None => lines.push(Drawn { labels: vec![line.label.clone()], style: style(line), places }),
        }
    }
    lines
}

fn style(line: &Line) -> Style {
    Style {
        colour: COLOURS[line.series % COLOURS.len()],
        marker: line.series % MARKERS,
        dashes: DASHES[line.dashes % DASHES.len()],
    }
}

/// Draws the lines. The first line is drawn first, and remains visible through the gaps in the
/// lines drawn over it.
pub(super) fn draw<'a>(area: &Area<'a>, chart: &Chart<'a, '_>, lines: &[Drawn]) -> Result<(), Failure<'a>> {
    for line in lines {
        let places: Vec<_> = line.places.iter().map(|place| chart.backend_coord(place)).collect();
        draw_line(area, line.style, &places)?;
        marked(&places).try_for_each(|place| draw_marker(area, line.style, place))?;
    }
    Ok(())
}

/// Returns the points at which to draw markers, which are both ends and any other points that are
/// far enough apart.
fn marked(places: &[(i32, i32)]) -> impl Iterator<Item = (i32, i32)> {
    let (end, mut before) = (places.last().copied(), None);
    places.iter().copied().filter(move |place| {
        let is_far = |other: (i32, i32)| (place.0 - other.0).abs() >= MARKERS_APART;
        let is_marked = match before {
            None => true,
            Some(before) => is_far(before) && end.is_none_or(is_far) || end == Some(*place),
        };
        if is_marked {
            before = Some(*place);
        }
        is_marked
    })
}

/// Draws a sample of a line style for a label, which is a short line with a marker in the middle.
pub(super) fn draw_sample<'a>(
    area: &Area<'a>,
    style: Style,
    (x, y): (i32, i32),
    length: i32,
) -> Result<(), Failure<'a>> {
    draw_line(area, style, &[(x, y), (x + length, y)])?;
    draw_marker(area, style, (x + length / 2, y))
}

fn draw_line<'a>(area: &Area<'a>, style: Style, places: &[(i32, i32)]) -> Result<(), Failure<'a>> {
    let stroke = style.colour.stroke_width(LINE_WIDTH);
    match style.dashes {
        None => area.draw(&PathElement::new(places.to_vec(), stroke)),
        Some((dash, gap)) => area.draw(&DashedPathElement::new(places.to_vec(), dash, gap, stroke)),
    }
}

/// Draws a marker. Markers are hollow, so that a marker beneath another marker remains visible.
fn draw_marker<'a>(area: &Area<'a>, style: Style, (x, y): (i32, i32)) -> Result<(), Failure<'a>> {
    let (size, stroke) = (MARKER_SIZE, style.colour.stroke_width(LINE_WIDTH));
    let closed = |points: &[(i32, i32)]| {
        let corners: Vec<_> = points.iter().chain(points.first()).map(|(dx, dy)| (x + dx, y + dy)).collect();
        PathElement::new(corners, stroke)
    };
    match style.marker {
        0 => area.draw(&Circle::new((x, y), size, stroke)),
        1 => area.draw(&closed(&[(-size, -size), (size, -size), (size, size), (-size, size)])),
        2 => area.draw(&closed(&[(0, -size - 1), (size + 1, size), (-size - 1, size)])),
        3 => area.draw(&closed(&[(0, -size - 1), (size + 1, 0), (0, size + 1), (-size - 1, 0)])),
        _ => area.draw(&Cross::new((x, y), size, stroke)),
    }
}

#[cfg(test)]
mod tests {
    use super::marked;

    #[test]
    fn markers_do_not_touch() {
        let places: Vec<(i32, i32)> = (0..=100).map(|x| (x, 7 * x)).collect();
        assert_eq!(
            marked(&places).collect::<Vec<_>>(),
            [(0, 0), (24, 168), (48, 336), (72, 504), (100, 700)]
        );
        assert_eq!(marked(&places[..2]).collect::<Vec<_>>(), [(0, 0), (1, 7)]);
        assert_eq!(marked(&[(5, 5)]).collect::<Vec<_>>(), [(5, 5)]);
        assert_eq!(marked(&[]).count(), 0);
    }
}
