//! Drawings of sweeps: panels one above the other, each with lines over the same kind of axis.
//!
//! A line is told from the others by its colour, its marker and its dashes, so the drawing can be
//! read without colours too. Lines that would lie on each other are drawn once, and their label
//! names them all: `= b` follows if they are equal, `≈ b` if they differ by less than the width of
//! a line. The label of a line stands at its end.
#![allow(clippy::cast_possible_wrap, reason = "pixels, rows and panels are few")]
#![allow(clippy::cast_precision_loss, reason = "a tick is at most a few steps from zero")]
#![allow(clippy::cast_sign_loss, reason = "no width is negative")]

mod axis;
mod labels;
mod lines;
#[cfg(test)]
mod tests;

use plotters::coord::Shift;
use plotters::prelude::*;

use self::axis::Bounds;
use self::lines::Drawn;

pub(crate) use self::axis::{Axis, Scale};

type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'd> = ChartContext<'d, SVGBackend<'a>, Cartesian2d<Bounds, Bounds>>;

/// The width of a drawing, in pixels.
const WIDTH: u32 = 960;
/// The heights of the title and of a panel, in pixels.
const TITLE_HEIGHT: u32 = 40;
const PANEL_HEIGHT: u32 = 400;

/// A drawing.
#[derive(Debug)]
pub(crate) struct Drawing {
    pub(crate) title: String,
    /// The panels, from top to bottom.
    pub(crate) panels: Vec<Panel>,
}

#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
    pub(crate) marks: Vec<Mark>,
}

/// A line from place to place, with markers.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) label: String,
    /// The number of the thing that the line is about. Lines of the same thing share their colour
    /// and their marker.
    pub(crate) series: usize,
    /// The number of the pattern of dashes. Number 0 is without gaps, 1 dashed, 2 dotted, 3 dotted
    /// sparsely. Lines that may lie near each other differ in it.
    pub(crate) dashes: usize,
    /// The places, in the order of x.
    pub(crate) places: Vec<(f64, f64)>,
}

/// A vertical line with a word. It is left out if it is outside of the x axis.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) at: f64,
    pub(crate) label: String,
}

/// Draws. Returns an SVG document.
pub(crate) fn svg(drawing: &Drawing) -> Result<String, String> {
    let mut svg = String::new();
    let size = (WIDTH, TITLE_HEIGHT + PANEL_HEIGHT * drawing.panels.len() as u32);
    draw(&SVGBackend::with_string(&mut svg, size).into_drawing_area(), drawing)
        .map_err(|error| format!("cannot draw: {error}"))?;
    Ok(svg)
}

fn draw<'a>(area: &Area<'a>, drawing: &Drawing) -> Result<(), Failure<'a>> {
    // Dark viewers show the drawing as light ones do, because the ground is not transparent.
    area.fill(&WHITE)?;
    let title = labels::fitted(&drawing.title, WIDTH - 2 * labels::MARGIN, labels::TITLE_SIZE);
    let middle = (WIDTH as i32 / 2, TITLE_HEIGHT as i32 / 2 + 4);
    area.draw(&Text::new(title, middle, labels::font(labels::TITLE_SIZE).pos(labels::CENTRED)))?;
    let laid_out: Vec<Laid> = drawing.panels.iter().map(Laid::out).collect();
    // The same for each panel, so a length has the same place in all of them.
    let labels_width = laid_out.iter().map(|laid| labels::room(&laid.lines)).max().unwrap_or(0);
    for (number, laid) in laid_out.into_iter().enumerate() {
        let top = (TITLE_HEIGHT + PANEL_HEIGHT * number as u32) as i32;
        let part = area.clone().shrink((0, top), (WIDTH, PANEL_HEIGHT));
        draw_panel(area, &part, laid, labels_width)?;
    }
    area.present()
}

/// A panel with its bounds, and with the lines that are drawn in it.
struct Laid<'p> {
    panel: &'p Panel,
    x: Bounds,
    y: Bounds,
    lines: Vec<Drawn>,
}

impl<'p> Laid<'p> {
    fn out(panel: &'p Panel) -> Self {
        let (x, y) = (Bounds::exact(panel), Bounds::rounded(panel));
        let lines = lines::drawn(panel, &x, &y);
        Self { panel, x, y, lines }
    }
}

fn draw_panel<'a>(
    area: &Area<'a>,
    part: &Area<'a>,
    laid: Laid,
    labels_width: u32,
) -> Result<(), Failure<'a>> {
    let Laid { panel, x, y, lines } = laid;
    let marks = labels::shown_marks(panel, &x);
    let mut chart = ChartBuilder::on(part)
        .margin(labels::MARGIN)
        .margin_top(labels::MARGIN + labels::ROW as u32 * marks.len() as u32)
        .margin_right(labels_width)
        .x_label_area_size(48)
        .y_label_area_size(72)
        .build_cartesian_2d(x.clone(), y)?;
    axis::draw(&mut chart, panel)?;
    labels::draw_marks(area, &chart, &marks, &x)?;
    lines::draw(area, &chart, &lines)?;
    labels::draw_labels(area, &chart, &lines)
}
