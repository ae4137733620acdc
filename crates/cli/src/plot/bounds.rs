//! The bounds of an axis, its ticks, and the tick labels.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use super::drawing::{Panel, Scale};
use crate::support::number::grouped;

/// The minimum distances between two ticks, and between a tick and an end of the axis, as fractions
/// of the axis length.
const APART: f64 = 0.06;
const APART_FROM_END: f64 = 0.09;
/// The maximum number of ticks on an axis with a linear scale, excluding its ends.
const TICKS: f64 = 7.0;
/// The smallest value on a logarithmic axis. Any smaller value is drawn at this position.
const LEAST: f64 = 1e-6;

impl Scale {
    /// Returns the position of the value on the axis.
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.max(LEAST).log10(),
        }
    }
}

/// The scale of an axis, and its ticks from one end to the other.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    scale: Scale,
    ticks: Vec<f64>,
}

impl Bounds {
    /// Returns the bounds of the x axis, from the smallest to the largest value, with a tick at
    /// each end.
    pub(super) fn exact(panel: &Panel) -> Self {
        let scale = panel.x.scale;
        let (from, to) = ends(scale, &panel.lines.iter().flat_map(|line| &line.places).map(|place| place.0));
        let span = scale.place(to) - scale.place(from);
        // If a range contains only a few round numbers, its ticks are at linear steps.
        let steps = match steps(scale, from, to) {
            few if few.len() < 5 => steps(Scale::Linear, from, to),
            enough => enough,
        };
        let far = |a: f64, b: f64| (scale.place(b) - scale.place(a)) / span;
        let mut ticks = vec![from];
        for tick in steps {
            let is_apart = ticks.last().is_none_or(|last| far(*last, tick) > APART);
            if is_apart && far(from, tick) > APART_FROM_END && far(tick, to) > APART_FROM_END {
                ticks.push(tick);
            }
        }
        ticks.push(to);
        Self { scale, ticks }
    }

    /// Returns the bounds of the y axis, rounded outwards to round values so that they include all
    /// points.
    pub(super) fn rounded(panel: &Panel) -> Self {
        let scale = panel.y.scale;
        let (from, to) = ends(scale, &panel.lines.iter().flat_map(|line| &line.places).map(|place| place.1));
        let from = if scale == Scale::Linear { from.min(0.0) } else { from };
        Self { scale, ticks: steps(scale, from, to) }
    }

    pub(super) fn contains(&self, value: f64) -> bool {
        let Range { start, end } = self.range();
        (start..=end).contains(&value)
    }
}

impl Ranged for Bounds {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let Range { start, end } = self.range();
        let (start, end) = (self.scale.place(start), self.scale.place(end));
        let share = (self.scale.place(*value) - start) / (end - start);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        let at = |tick: Option<&f64>| tick.copied().unwrap_or_default();
        at(self.ticks.first())..at(self.ticks.last())
    }
}

impl ValueFormatter<f64> for Bounds {
    fn format(value: &f64) -> String {
        number(*value)
    }
}

/// Returns the minimum and the maximum of the finite values, and widens this range if necessary so
/// that its ends differ.
fn ends(scale: Scale, values: &(impl Iterator<Item = f64> + Clone)) -> (f64, f64) {
    let finite = || values.clone().filter(|value| value.is_finite());
    let (least, most) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    let least_of_scale = if scale == Scale::Log { LEAST } else { f64::NEG_INFINITY };
    let (least, most) = (least.max(least_of_scale), most.max(least_of_scale));
    match least < most {
        true => (least, most),
        false if least > 0.0 && least.is_finite() => (least * 0.5, least * 2.0),
        false => (LEAST.max(least_of_scale), 1.0),
    }
}

/// Returns round values, of which the first is at most `from` and the last is at least `to`.
fn steps(scale: Scale, from: f64, to: f64) -> Vec<f64> {
    match scale {
        Scale::Linear => {
            let step = round_up((to - from) / TICKS);
            let (first, last) = ((from / step).floor() as i64, (to / step).ceil() as i64);
            (first..=last).map(|number| number as f64 * step).collect()
        }
        Scale::Log => {
            let (first, last) = (from.log10().floor() as i32, to.log10().ceil() as i32);
            let factors: &[f64] = if last - first > 4 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let all: Vec<f64> = (first..=last)
                .flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)))
                .collect();
            let first = all.iter().rposition(|value| *value <= from).unwrap_or(0);
            let last = all.iter().position(|value| *value >= to).unwrap_or(all.len() - 1);
            all[first..=last].to_vec()
        }
    }
}

/// Rounds up to the next number that is 1, 2 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= value * (1.0 - 1e-9));
    power * factor.unwrap_or(10.0)
}

/// Formats a number, for example as `0.01`, `1.5` or `10,000`.
fn number(value: f64) -> String {
    // Uses as many decimals as three significant digits require.
    let decimals =
        if value == 0.0 { 0 } else { (2.0 - value.abs().log10().floor()).clamp(0.0, 9.0) as usize };
    let text = format!("{value:.decimals$}");
    let text = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { text.as_str() };
    match text.parse::<u64>() {
        Ok(whole) => grouped(whole),
        Err(_) => text.to_owned(),
    }
}
