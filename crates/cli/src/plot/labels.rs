//! Text that is positioned and fitted into a drawing, namely the labels at the ends of lines and
//! the labels of marks.

use std::ops::Range;

use plotters::coord::ranged1d::Ranged as _;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::bounds::Bounds;
use super::canvas::{Area, Chart, Failure, MARGIN, WIDTH};
use super::drawing::{Mark, Panel};
use super::font::{SIZE, fitted, font, plain, text_width};
use super::lines::{Drawn, Style, draw_sample};

/// The height of a label, in pixels.
pub(super) const ROW: i32 = 18;
/// The length in pixels of the leader from a line's end to the line's label, and the length of the
/// sample before the label.
const LEADER: i32 = 12;
const SAMPLE: i32 = 36;
/// The space between text and the element that it labels, in pixels.
const GAP: i32 = 6;
const GREY: RGBColor = RGBColor(0x77, 0x77, 0x77);

pub(super) const CENTRED: Pos = Pos { h_pos: HPos::Center, v_pos: VPos::Center };
const LEFT: Pos = Pos { h_pos: HPos::Left, v_pos: VPos::Center };
const RIGHT: Pos = Pos { h_pos: HPos::Right, v_pos: VPos::Center };

/// Returns the space that a panel needs on its right for the line labels, in pixels.
pub(super) fn room(lines: &[Drawn]) -> u32 {
    let labels = lines.iter().flat_map(|line| &line.labels);
    let widest = labels.map(|label| text_width(&plain(label), SIZE)).max().unwrap_or(0);
    ((LEADER + SAMPLE + GAP) as u32 + widest + MARGIN).min(WIDTH / 3)
}

/// Draws a vertical line for each mark, with the mark's label above the panel.
pub(super) fn draw_marks<'a>(
    area: &Area<'a>,
    chart: &Chart<'a, '_>,
    marks: &[&Mark],
    x: &Bounds,
) -> Result<(), Failure<'a>> {
    let (across, down) = chart.plotting_area().get_pixel_range();
    let at = |mark: &Mark| x.map(&mark.at, (across.start, across.end - 1));
    // Each label has its own row, so labels never overlap.
    let middle = |row: usize| down.start - ROW * row as i32 - ROW / 2;
    for (row, mark) in marks.iter().enumerate() {
        let ends = [(at(mark), middle(row) - ROW / 2), (at(mark), down.end)];
        area.draw(&DashedPathElement::new(ends, 4, 3, GREY.stroke_width(1)))?;
    }
    for (row, mark) in marks.iter().enumerate() {
        let (at, y) = (at(mark), middle(row));
        let is_left = at - across.start < across.end - at;
        let room = if is_left { across.end - at } else { at - across.start };
        let text = fitted(&mark.label, room as u32, SIZE);
        let width = text_width(&text, SIZE) as i32;
        let (place, from, anchor) =
            if is_left { (at + GAP, at + 1, LEFT) } else { (at - GAP, at - GAP - width, RIGHT) };
        // The white background prevents the lines of other marks from crossing the label.
        let ground = [(from, y - ROW / 2), (from + GAP + width - 1, y + ROW / 2 - 2)];
        area.draw(&Rectangle::new(ground, WHITE.filled()))?;
        area.draw(&Text::new(text, (place, y), font(SIZE).pos(anchor)))?;
    }
    Ok(())
}

/// Returns the marks within the range of the x axis, ordered by position.
pub(super) fn shown_marks<'p>(panel: &'p Panel, x: &Bounds) -> Vec<&'p Mark> {
    let mut marks: Vec<&Mark> = panel.marks.iter().filter(|mark| x.contains(mark.at)).collect();
    marks.sort_by(|a, b| a.at.total_cmp(&b.at));
    marks
}

/// A label in its own row. The line's first label has a sample of the line next to it.
struct Label<'l> {
    text: &'l str,
    /// The preferred vertical position, ignoring all other labels.
    wanted: i32,
    sample: Option<(Style, (i32, i32))>,
}

/// Draws the line labels, each as close to the end of its line as the other labels allow. If some
/// labels do not fit, the last row shows the number of omitted labels.
pub(super) fn draw_labels<'a>(
    area: &Area<'a>,
    chart: &Chart<'a, '_>,
    lines: &[Drawn],
) -> Result<(), Failure<'a>> {
    let (across, down) = chart.plotting_area().get_pixel_range();
    let mut labels = labels(chart, lines);
    let (all, fit) = (labels.len(), ((down.end - down.start) / ROW) as usize);
    if all > fit {
        labels.truncate(fit - 1);
    }
    let wanted: Vec<i32> = labels.iter().map(|label| label.wanted).collect();
    let rows = spread(&wanted, down.start..down.end - if all > fit { ROW } else { 0 });
    let from = across.end + LEADER;
    let text_at = from + SAMPLE + GAP;
    let room = WIDTH.saturating_sub(text_at as u32 + MARGIN);
    let write = |text: &str, y: i32| {
        area.draw(&Text::new(fitted(text, room, SIZE), (text_at, y), font(SIZE).pos(LEFT)))
    };
    for (label, y) in labels.iter().zip(rows) {
        if let Some((style, end)) = label.sample {
            area.draw(&PathElement::new([end, (from, y)], GREY.mix(0.5).stroke_width(1)))?;
            draw_sample(area, style, (from, y), SAMPLE)?;
        }
        write(label.text, y)?;
    }
    if labels.len() < all {
        write(&format!("and {} more", all - labels.len()), down.end - ROW / 2)?;
    }
    Ok(())
}

/// Returns the labels from top to bottom.
fn labels<'l>(chart: &Chart, lines: &'l [Drawn]) -> Vec<Label<'l>> {
    let mut ends: Vec<_> = lines.iter().filter_map(|line| Some((line, line.end(chart)?))).collect();
    ends.sort_by_key(|(_, (_, y))| *y);
    let of_line = |(line, end): (&'l Drawn, (i32, i32))| {
        line.labels.iter().enumerate().map(move |(row, text)| Label {
            text,
            wanted: end.1 + ROW * row as i32,
            sample: (row == 0).then_some((line.style, end)),
        })
    };
    ends.into_iter().flat_map(of_line).collect()
}

/// Returns a position for each label, in order and close to the preferred positions. The positions
/// are at least one label height apart, and they are within the bounds if there is enough space.
fn spread(wanted: &[i32], bounds: Range<i32>) -> Vec<i32> {
    let mut rows: Vec<i32> = Vec::with_capacity(wanted.len());
    for place in wanted {
        let least = rows.last().map_or(bounds.start + ROW / 2, |row| row + ROW);
        rows.push(least.max(*place));
    }
    let mut most = bounds.end - ROW / 2;
    for row in rows.iter_mut().rev() {
        *row = most.min(*row);
        most = *row - ROW;
    }
    rows
}
