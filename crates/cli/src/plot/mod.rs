//! Drawings of sweeps: panels one above the other, each with lines over the same kind of axis.
//!
//! A line is told from the others by its colour, its marker and its dashes, so the drawing can be
//! read without colours too. Lines that would lie on each other are drawn once, and their label
//! names them all: `a = b` if they are equal, `a ≈ b` if they differ by less than a line's width.
//! The label of a line stands at its end.

mod axis;
mod labels;
mod lines;

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
const PANEL_HEIGHT: u32 = 380;
/// The room to the right of a panel, for the labels of the lines, in pixels.
const LABELS_WIDTH: u32 = 250;

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

/// A line from place to place, with a marker at each.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) label: String,
    /// The number of the thing that the line is about. Lines of the same thing share their colour
    /// and their marker.
    pub(crate) series: usize,
    /// The number of the pattern of dashes. The pattern of number 0 has no gaps.
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
    for (number, panel) in drawing.panels.iter().enumerate() {
        let top = (TITLE_HEIGHT + PANEL_HEIGHT * number as u32) as i32;
        let part = area.clone().shrink((0, top), (WIDTH, PANEL_HEIGHT));
        draw_panel(area, &part, panel)?;
    }
    area.present()
}

fn draw_panel<'a>(area: &Area<'a>, part: &Area<'a>, panel: &Panel) -> Result<(), Failure<'a>> {
    let (x, y) = (Bounds::exact(panel), Bounds::rounded(panel));
    let mut chart = ChartBuilder::on(part)
        .margin(labels::MARGIN)
        .margin_top(2 * labels::MARGIN)
        .margin_right(LABELS_WIDTH)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(x.clone(), y)?;
    axis::draw(&mut chart, panel)?;
    let drawn: Vec<Drawn> = lines::drawn(&chart, panel);
    labels::draw_marks(area, &chart, panel, &x)?;
    lines::draw(area, &drawn)?;
    labels::draw_labels(area, &chart, &drawn)
}
