//! Drawings of sweeps, in which panels with the same kind of x axis are stacked vertically.
//!
//! Series differ in colour and marker, and lines that may be close to each other differ in their
//! dash patterns, so a drawing can also be read without colours. Coinciding lines are drawn once,
//! with a label for each line: `= b` if the lines are equal, and `≈ b` if they differ by less than
//! the width of a line. A line's label is placed at the line's end.
#![allow(clippy::cast_possible_wrap, reason = "pixels, rows and panels are few")]
#![allow(clippy::cast_precision_loss, reason = "a tick is at most a few steps from zero")]
#![allow(clippy::cast_sign_loss, reason = "no width is negative")]

mod bounds;
mod canvas;
mod drawing;
mod font;
mod labels;
mod lines;
#[cfg(test)]
mod tests;

use plotters::prelude::*;

use self::bounds::Bounds;
use self::canvas::{Area, Chart, Failure, PANEL_HEIGHT, TITLE_HEIGHT, WIDTH};
use self::lines::Drawn;

pub(crate) use self::drawing::{Axis, Drawing, Line, Mark, Panel, Scale};

/// Renders the drawing as an SVG document.
pub(crate) fn svg(drawing: &Drawing) -> Result<String, String> {
    let mut svg = String::new();
    let size = (WIDTH, TITLE_HEIGHT + PANEL_HEIGHT * drawing.panels.len() as u32);
    draw(&SVGBackend::with_string(&mut svg, size).into_drawing_area(), drawing)
        .map_err(|error| format!("cannot draw: {error}"))?;
    Ok(svg)
}

fn draw<'a>(area: &Area<'a>, drawing: &Drawing) -> Result<(), Failure<'a>> {
    // With an opaque background, the drawing looks the same in dark viewers.
    area.fill(&WHITE)?;
    let title = font::fitted(&drawing.title, WIDTH - 2 * canvas::MARGIN, font::TITLE_SIZE);
    let middle = (WIDTH as i32 / 2, TITLE_HEIGHT as i32 / 2 + 4);
    area.draw(&Text::new(title, middle, font::font(font::TITLE_SIZE).pos(labels::CENTRED)))?;
    let laid_out: Vec<Laid> = drawing.panels.iter().map(Laid::out).collect();
    // The width is the same for all panels, so that an x value has the same position in every
    // panel.
    let labels_width = laid_out.iter().map(|laid| labels::room(&laid.lines)).max().unwrap_or(0);
    for (number, laid) in laid_out.into_iter().enumerate() {
        let top = (TITLE_HEIGHT + PANEL_HEIGHT * number as u32) as i32;
        let part = area.clone().shrink((0, top), (WIDTH, PANEL_HEIGHT));
        draw_panel(area, &part, laid, labels_width)?;
    }
    area.present()
}

/// A panel with its computed bounds, and the lines to draw in it.
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
        .margin(canvas::MARGIN)
        .margin_top(canvas::MARGIN + labels::ROW as u32 * marks.len() as u32)
        .margin_right(labels_width)
        .x_label_area_size(48)
        .y_label_area_size(72)
        .build_cartesian_2d(x.clone(), y)?;
    draw_axes(&mut chart, panel)?;
    labels::draw_marks(area, &chart, &marks, &x)?;
    lines::draw(area, &chart, &lines)?;
    labels::draw_labels(area, &chart, &lines)
}

fn draw_axes<'a>(chart: &mut Chart<'a, '_>, panel: &Panel) -> Result<(), Failure<'a>> {
    chart
        .configure_mesh()
        .x_desc(font::plain(&panel.x.label))
        .y_desc(font::plain(&panel.y.label))
        .label_style(font::font(font::SMALL))
        .axis_desc_style(font::font(font::SIZE))
        .draw()
}
