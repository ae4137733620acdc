//! Draws bar charts. A chart consists of blocks that are stacked vertically, and each block
//! contains panels that are placed next to each other. The bars in all of a block's panels share
//! the names on the left.
//!
//! Each bar is labelled with its value, so the chart can be read without colours or axes.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

#[derive(Debug)]
pub(crate) struct Drawing {
    pub(crate) title: String,
    /// The sentences below the title.
    pub(crate) about: String,
    /// The unit for all axes.
    pub(crate) unit: String,
    pub(crate) scale: Scale,
    pub(crate) blocks: Vec<Block>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// A linear scale from zero. Each panel has its own axis.
    Linear,
    /// A logarithmic scale in powers of ten. All panels share the same axis.
    Log,
}

#[derive(Debug)]
pub(crate) struct Block {
    /// The names of the bars, from top to bottom.
    pub(crate) names: Vec<(String, Kind)>,
    pub(crate) panels: Vec<Panel>,
}

/// The kinds of contenders, each with its own colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ours,
    Parks,
    Busy,
    Loses,
}

#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    /// The bars, in the order of the names. `None` for a name without a bar.
    pub(crate) bars: Vec<Option<Bar>>,
}

#[derive(Debug)]
pub(crate) struct Bar {
    pub(crate) value: f64,
    /// The ends of the error line that is drawn over the bar.
    pub(crate) reach: (f64, f64),
    pub(crate) text: String,
}

/// The colours of the kinds, with their labels in the legend. People with a colour vision
/// deficiency can also distinguish these colours.
const KINDS: [(Kind, RGBColor, &str); 4] = [
    (Kind::Ours, RGBColor(0x00, 0x72, 0xb2), "eventcast"),
    (Kind::Parks, RGBColor(0xe6, 0x9f, 0x00), "parks"),
    (Kind::Busy, RGBColor(0xa0, 0xa0, 0xa0), "spins, yields or wakes by the clock"),
    (Kind::Loses, RGBColor(0xcc, 0x79, 0xa7), "loses events"),
];
const DARK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);

/// The dimensions of the layout, in pixels.
const WIDTH: i32 = 960;
const MARGIN: i32 = 14;
const TITLE: i32 = 84;
const NAMES: i32 = 228;
const PANEL: i32 = 238;
const GAP: i32 = 16;
/// The space between a bar and its value.
const SPACE: i32 = 6;
const ROW: i32 = 18;
const BAR: i32 = 11;
/// The height above a panel's bars for the panel's title, and the height below the bars for the
/// axis and the unit.
const HEAD: i32 = 26;
const FOOT: i32 = 44;
/// The text sizes in the unit that plotters uses. Each number is a quarter larger than the size in
/// pixels.
const LARGE: u32 = 20;
const SIZE: u32 = 15;
const SMALL: u32 = 13;

const LEFT: Pos = Pos { h_pos: HPos::Left, v_pos: VPos::Center };
const RIGHT: Pos = Pos { h_pos: HPos::Right, v_pos: VPos::Center };
const MIDDLE: Pos = Pos { h_pos: HPos::Center, v_pos: VPos::Center };

/// Draws the chart and returns it as an SVG document.
pub(crate) fn svg(drawing: &Drawing) -> Result<String, String> {
    let mut svg = String::new();
    let height = TITLE + drawing.blocks.iter().map(height).sum::<i32>();
    let area = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
    draw(&area, drawing).map_err(|error| format!("cannot draw: {error}"))?;
    drop(area);
    if !svg.ends_with('\n') {
        svg.push('\n');
    }
    Ok(svg)
}

fn height(block: &Block) -> i32 {
    HEAD + ROW * block.names.len() as i32 + FOOT
}

fn draw<'a>(area: &Area<'a>, drawing: &Drawing) -> Result<(), Failure<'a>> {
    // The background is not transparent, so that the chart looks the same in dark viewers.
    area.fill(&WHITE)?;
    write(area, &drawing.title, (MARGIN, 20), LARGE, LEFT)?;
    write(area, &drawing.about, (MARGIN, 42), SIZE, LEFT)?;
    draw_legend(area, drawing)?;
    let shared = (drawing.scale == Scale::Log)
        .then(|| Axis::of(drawing.scale, drawing.blocks.iter().flat_map(|block| &block.panels)));
    let mut top = TITLE;
    for block in &drawing.blocks {
        for (row, (name, _)) in block.names.iter().enumerate() {
            write(area, name, (MARGIN + NAMES - 10, middle(top, row)), SIZE, RIGHT)?;
        }
        for (column, panel) in block.panels.iter().enumerate() {
            let left = MARGIN + NAMES + PANEL * column as i32;
            let axis = shared.clone().unwrap_or_else(|| Axis::of(drawing.scale, [panel]));
            Place { area, left, top, axis }.draw(panel, block, &drawing.unit)?;
        }
        top += height(block);
    }
    area.present()
}

/// Returns the vertical centre of a row in a block.
fn middle(top: i32, row: usize) -> i32 {
    top + HEAD + ROW * row as i32 + ROW / 2
}

fn write<'a>(area: &Area<'a>, text: &str, at: (i32, i32), size: u32, anchor: Pos) -> Result<(), Failure<'a>> {
    let style = ("sans-serif", size).into_font().color(&DARK).pos(anchor);
    area.draw(&Text::new(text.to_owned(), at, style))
}

fn colour(kind: Kind) -> RGBColor {
    KINDS.iter().find(|(other, _, _)| *other == kind).map_or(DARK, |(_, colour, _)| *colour)
}

/// Draws the legend with the kinds that occur in the chart.
fn draw_legend<'a>(area: &Area<'a>, drawing: &Drawing) -> Result<(), Failure<'a>> {
    let mut left = MARGIN;
    for (kind, colour, word) in KINDS {
        let mut names = drawing.blocks.iter().flat_map(|block| &block.names);
        if names.any(|(_, other)| *other == kind) {
            area.draw(&Rectangle::new([(left, 58), (left + 18, 58 + BAR)], colour.filled()))?;
            write(area, word, (left + 24, 64), SIZE, LEFT)?;
            left += 60 + 7 * word.len() as i32;
        }
    }
    Ok(())
}

/// An axis, with its ticks in order from one end to the other.
#[derive(Clone, Debug)]
struct Axis {
    scale: Scale,
    ticks: Vec<f64>,
}

impl Axis {
    /// Returns an axis that covers all bars in the panels and whose ends are round values.
    fn of<'p>(scale: Scale, panels: impl IntoIterator<Item = &'p Panel>) -> Self {
        let bars: Vec<&Bar> = panels.into_iter().flat_map(|panel| panel.bars.iter().flatten()).collect();
        let most = bars.iter().map(|bar| bar.reach.1.max(bar.value)).fold(1e-3, f64::max);
        let ticks = match scale {
            Scale::Linear => {
                let step = round_up(most / 3.0);
                (0..=(most / step).ceil() as i32).map(|number| f64::from(number) * step).collect()
            }
            Scale::Log => {
                let least = bars.iter().map(|bar| bar.value).fold(most, f64::min).max(1e-3);
                // The bar with the smallest value must still be visible.
                let (first, last) = ((least / 2.0).log10().floor() as i32, most.log10().ceil() as i32);
                (first..=last).map(|power| 10_f64.powi(power)).collect()
            }
        };
        Self { scale, ticks }
    }

    /// Returns the position of the value on the axis, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let (first, last) = (self.ticks[0], self.ticks[self.ticks.len() - 1]);
        let at = |value: f64| if self.scale == Scale::Log { value.max(first).log10() } else { value };
        ((at(value) - at(first)) / (at(last) - at(first))).clamp(0.0, 1.0)
    }
}

/// Returns the label of a tick, such as `0.5` or `10k`.
fn tick_text(tick: f64) -> String {
    if tick >= 1000.0 { format!("{}k", tick / 1000.0) } else { tick.to_string() }
}

/// Rounds up to the next number that is 1, 2 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= value * (1.0 - 1e-9));
    power * factor.unwrap_or(10.0)
}

/// The position of a panel.
struct Place<'d, 'a> {
    area: &'d Area<'a>,
    left: i32,
    top: i32,
    axis: Axis,
}

impl<'a> Place<'_, 'a> {
    /// Returns the horizontal position of the value, in pixels.
    fn x(&self, value: f64) -> i32 {
        self.left + (self.axis.place(value) * f64::from(self.length())).round() as i32
    }

    /// Returns the length of the axis, which leaves space on the right for the value of the longest
    /// bar.
    fn length(&self) -> i32 {
        match self.axis.scale {
            Scale::Linear => PANEL - GAP - 50,
            Scale::Log => PANEL - GAP - 90,
        }
    }

    fn draw(&self, panel: &Panel, block: &Block, unit: &str) -> Result<(), Failure<'a>> {
        write(self.area, &panel.title, (self.left, self.top + HEAD / 2), SIZE, LEFT)?;
        self.draw_axis(block.names.len(), unit)?;
        for (row, ((_, kind), bar)) in block.names.iter().zip(&panel.bars).enumerate() {
            let y = middle(self.top, row);
            match bar {
                None => write(self.area, "–", (self.left + SPACE, y), SMALL, LEFT)?,
                Some(bar) => {
                    self.draw_bar(bar, y, colour(*kind))?;
                    let end = self.x(bar.reach.1.max(bar.value)) + SPACE;
                    write(self.area, &bar.text, (end, y), SMALL, LEFT)?;
                }
            }
        }
        Ok(())
    }

    fn draw_axis(&self, rows: usize, unit: &str) -> Result<(), Failure<'a>> {
        let (from, to) = (self.top + HEAD, self.top + HEAD + ROW * rows as i32);
        for tick in &self.axis.ticks {
            let x = self.x(*tick);
            self.area.draw(&PathElement::new([(x, from), (x, to + 3)], GRID.stroke_width(1)))?;
            write(self.area, &tick_text(*tick), (x, to + 12), SMALL, MIDDLE)?;
        }
        write(self.area, unit, (self.left, to + 28), SMALL, LEFT)
    }

    fn draw_bar(&self, bar: &Bar, y: i32, colour: RGBColor) -> Result<(), Failure<'a>> {
        let (top, bottom) = (y - BAR / 2, y + BAR / 2 + 1);
        let corners = [(self.left, top), (self.x(bar.value).max(self.left + 1), bottom)];
        self.area.draw(&Rectangle::new(corners, colour.filled()))?;
        let (from, to) = (self.x(bar.reach.0), self.x(bar.reach.1));
        for line in [[(from, y), (to, y)], [(from, y - 3), (from, y + 3)], [(to, y - 3), (to, y + 3)]] {
            self.area.draw(&PathElement::new(line, DARK.stroke_width(1)))?;
        }
        Ok(())
    }
}
