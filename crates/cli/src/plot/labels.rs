//! Text in a drawing, which fits where it stands: the labels at the ends of lines, and the words of
//! the marks.

use plotters::coord::ranged1d::Ranged as _;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::axis::Bounds;
use super::lines::{Drawn, draw_line};
use super::{Area, Chart, Failure, LABELS_WIDTH, Mark, Panel};
use crate::support::text::plain;

/// The room around a drawing and its parts, in pixels.
pub(super) const MARGIN: u32 = 14;
pub(super) const TITLE_SIZE: u32 = 18;
const SIZE: u32 = 13;
/// The height of a label, in pixels.
const ROW: i32 = 17;
/// The lengths of the line from a line's end to its label, and of the sample before the label, in
/// pixels.
const LEADER: i32 = 12;
const SAMPLE: i32 = 34;
const GREY: RGBColor = RGBColor(0x77, 0x77, 0x77);
const DARK: RGBColor = RGBColor(0x22, 0x22, 0x22);

pub(super) const CENTRED: Pos = Pos { h_pos: HPos::Center, v_pos: VPos::Center };
const LEFT: Pos = Pos { h_pos: HPos::Left, v_pos: VPos::Center };
const RIGHT: Pos = Pos { h_pos: HPos::Right, v_pos: VPos::Center };

pub(super) fn font(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&DARK)
}

/// Returns the text as it can be shown, cut to this width in pixels. The widest fonts take two
/// thirds of their size for a column.
pub(super) fn fitted(text: &str, width: u32, size: u32) -> String {
    let columns = (width * 3 / (size * 2)) as usize;
    let text = plain(text);
    if text.width() <= columns {
        return text;
    }
    let mut left = columns.saturating_sub(2);
    let fits = |c: &char| {
        let wide = c.width().unwrap_or(0);
        let is_room = wide <= left;
        left = left.saturating_sub(wide);
        is_room
    };
    let start: String = text.chars().take_while(fits).collect();
    format!("{start}..")
}

/// Draws the vertical lines, each with its word at the top.
pub(super) fn draw_marks<'a>(
    area: &Area<'a>,
    chart: &Chart<'a, '_>,
    panel: &Panel,
    x: &Bounds,
) -> Result<(), Failure<'a>> {
    let (across, down) = chart.plotting_area().get_pixel_range();
    let mut marks: Vec<&Mark> = panel.marks.iter().filter(|mark| x.contains(mark.at)).collect();
    marks.sort_by(|a, b| a.at.total_cmp(&b.at));
    for (row, mark) in marks.into_iter().enumerate() {
        let at = x.map(&mark.at, (across.start, across.end - 1));
        // Each word has its own row, so two words never lie on each other.
        let row = down.start + ROW * row as i32 + ROW / 2;
        let ends = [(at, down.start), (at, down.end)];
        area.draw(&DashedPathElement::new(ends, 4, 3, GREY.stroke_width(1)))?;
        let (place, anchor, room) = match at - across.start < across.end - at {
            true => (at + 5, LEFT, across.end - at),
            false => (at - 5, RIGHT, at - across.start),
        };
        let text = fitted(&mark.label, room as u32, SIZE);
        area.draw(&Text::new(text, (place, row), font(SIZE).pos(anchor)))?;
    }
    Ok(())
}

/// Draws the labels of the lines, as near to the ends of the lines as the other labels allow. If
/// there are more lines than fit, the last label says how many are left out.
pub(super) fn draw_labels<'a>(
    area: &Area<'a>,
    chart: &Chart<'a, '_>,
    lines: &[Drawn],
) -> Result<(), Failure<'a>> {
    let (across, down) = chart.plotting_area().get_pixel_range();
    let fit = ((down.end - down.start) / ROW) as usize;
    let shown = if lines.len() > fit { fit - 1 } else { lines.len() };
    let mut ends: Vec<(&Drawn, (i32, i32))> =
        lines.iter().take(shown).filter_map(|line| Some((line, *line.places.last()?))).collect();
    ends.sort_by_key(|(_, (_, y))| *y);
    let rows = spread(&ends.iter().map(|(_, (_, y))| *y).collect::<Vec<_>>(), down.start..down.end);
    let from = across.end + LEADER;
    let text_at = from + SAMPLE + 6;
    let room = (across.end as u32 + LABELS_WIDTH).saturating_sub(text_at as u32 + MARGIN);
    for ((line, end), y) in ends.into_iter().zip(rows) {
        area.draw(&PathElement::new([end, (from, y)], GREY.mix(0.5).stroke_width(1)))?;
        draw_line(area, line.style, &[(from, y), (from + SAMPLE / 2, y), (from + SAMPLE, y)])?;
        area.draw(&Text::new(fitted(&line.label, room, SIZE), (text_at, y), font(SIZE).pos(LEFT)))?;
    }
    if shown < lines.len() {
        let text = format!("and {} more lines", lines.len() - shown);
        area.draw(&Text::new(text, (text_at, down.end + ROW / 2), font(SIZE).pos(LEFT)))?;
    }
    Ok(())
}

/// Returns a row for each place, in order, at least the height of a label apart, and within the
/// bounds if there is room.
fn spread(places: &[i32], bounds: std::ops::Range<i32>) -> Vec<i32> {
    let mut rows: Vec<i32> = Vec::with_capacity(places.len());
    for place in places {
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
