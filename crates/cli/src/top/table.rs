//! Formats the state as lines of text, which fit into a given width.

use std::cmp::{Ordering, Reverse};

use eventcast::stats::DropReason;
use unicode_width::UnicodeWidthStr as _;

use super::state::{BusState, Row, State};
use crate::support::duration::rough;
use crate::support::number::grouped;
use crate::support::text::{cut, plain};

/// The names of the columns.
const TITLES: [&str; COLUMNS] = [
    "", "BUS", "WATCHER", "POLICY", "QUEUED", "LAG", "HIGH", "IN/s", "OUT/s", "LOST/s", "LOST", "REASON",
    "OLDEST",
];
const COLUMNS: usize = 13;
/// The columns with names, which become narrower if the space is scarce.
const NAMES: [usize; 2] = [BUS, WATCHER];
const BUS: usize = 1;
const WATCHER: usize = 2;
/// The columns whose cells are aligned to the left.
const LEFT: [usize; 5] = [0, BUS, WATCHER, 3, 11];
/// The columns that are omitted if the space is scarce. The first one is omitted first.
const OMITTED: [usize; 9] = [6, 3, 11, BUS, 12, 5, 7, 10, 4];
/// The minimum and the maximum width of a name on a terminal.
const MIN_NAME: usize = 12;
const MAX_NAME: usize = 40;

/// The order of the watchers. In every order, slow watchers are listed first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// By the rate of losses, then by lag.
    #[default]
    Slow,
    Name,
    Lag,
    In,
    Out,
    Lost,
}

impl Order {
    /// Returns the order that a key selects.
    pub(crate) fn of_key(key: char) -> Option<Self> {
        Some(match key {
            's' => Self::Slow,
            'n' => Self::Name,
            'l' => Self::Lag,
            'i' => Self::In,
            'o' => Self::Out,
            'x' => Self::Lost,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Name => "name",
            Self::Lag => "lag",
            Self::In => "in",
            Self::Out => "out",
            Self::Lost => "lost",
        }
    }

    /// Compares two watchers. The watcher that is listed first is less.
    fn compare(self, a: &Row, b: &Row) -> Ordering {
        let rate = |row: &Row, at: usize| row.meter.rates.map_or(-1.0, |rates| rates[at]);
        let by_rate = |at: usize| rate(b, at).total_cmp(&rate(a, at));
        let by_lag = || b.watcher.lag.cmp(&a.watcher.lag);
        let order = match self {
            Self::Slow => by_rate(2).then_with(by_lag),
            Self::Name => Ordering::Equal,
            Self::Lag => by_lag(),
            Self::In => by_rate(0),
            Self::Out => by_rate(1),
            Self::Lost => b.watcher.lost().cmp(&a.watcher.lost()),
        };
        b.is_slow.cmp(&a.is_slow).then(order).then_with(|| a.watcher.name.cmp(&b.watcher.name))
    }
}

/// How a line stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Plain,
    /// The watcher is losing events.
    Losing,
    Slow,
}

/// The table of the watchers.
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) lines: Vec<(Look, String)>,
}

impl Table {
    /// Formats the watchers in the given order. Omits and truncates columns that do not fit into
    /// the width.
    pub(crate) fn new(state: &State, order: Order, width: usize) -> Self {
        let has_buses = state.buses.len() > 1;
        let mut rows: Vec<(&str, &Row)> =
            state.buses.iter().flat_map(|(name, bus)| bus.rows.iter().map(|row| (&**name, row))).collect();
        rows.sort_by(|(_, a), (_, b)| order.compare(a, b));
        let mut cells = vec![TITLES.map(str::to_owned)];
        cells.extend(rows.iter().map(|(bus, row)| shown(bus, row)));
        let widths = fitting(&cells, has_buses, width);
        let mut lines = cells.iter().map(|cells| joined(cells, &widths, width));
        let title = lines.next().unwrap_or_default();
        let looks = rows.iter().map(|(_, row)| look(row));
        Self { title, lines: looks.zip(lines).collect() }
    }
}

fn look(row: &Row) -> Look {
    match row.meter.rates {
        _ if row.is_slow => Look::Slow,
        Some([_, _, lost]) if lost > 0.0 => Look::Losing,
        _ => Look::Plain,
    }
}

/// Formats the figures of each bus as a line.
pub(crate) fn heads(state: &State) -> Vec<String> {
    state.buses.iter().map(|(name, bus)| head(name, bus)).collect()
}

fn head(name: &str, state: &BusState) -> String {
    let BusState { bus, meter, rows } = state;
    let rate =
        |at: usize| meter.rates.map_or_else(String::new, |rates| format!(" ({}/s)", per_second(rates[at])));
    let name = if name.is_empty() { "bus".to_owned() } else { plain(name) };
    let slow = rows.iter().filter(|row| row.is_slow).count();
    let slow = if slow > 0 { format!(", slow {}", grouped(slow as u64)) } else { String::new() };
    format!(
        "{name}: accepted {}{}, pending {}, refused {}{}, unheard {}{}{slow}",
        grouped(bus.accepted),
        rate(0),
        grouped(bus.pending),
        grouped(bus.rejected_full.saturating_add(bus.rejected_closed)),
        rate(1),
        grouped(bus.unheard),
        rate(2),
    )
}

/// Formats the cells of a watcher.
fn shown(bus: &str, row: &Row) -> [String; COLUMNS] {
    let Row { watcher, meter, is_slow, .. } = row;
    let unknown = || "-".to_owned();
    let rate = |at: usize| meter.rates.map_or_else(unknown, |rates| per_second(rates[at]));
    let is_loss = |(reason, count): &(DropReason, u64)| *reason != DropReason::Conflated && *count > 0;
    let mut lost: Vec<_> = watcher.dropped.by_reason().filter(is_loss).collect();
    lost.sort_by_key(|(_, count)| Reverse(*count));
    let others = if lost.len() > 1 { "+" } else { "" };
    let reason = lost.first().map(|(reason, _)| format!("{reason}{others}"));
    [
        if *is_slow { "S" } else { "" }.to_owned(),
        if bus.is_empty() { unknown() } else { plain(bus) },
        plain(&watcher.name),
        watcher.policy.map_or_else(unknown, |policy| policy.to_string()),
        grouped(watcher.queued),
        grouped(watcher.lag),
        grouped(watcher.high_water),
        rate(0),
        rate(1),
        rate(2),
        grouped(watcher.lost()),
        reason.unwrap_or_else(unknown),
        if watcher.oldest_age.is_zero() { unknown() } else { age(watcher.oldest_age.as_secs_f64()) },
    ]
}

/// Formats a rate, with one decimal place if it is small.
fn per_second(rate: f64) -> String {
    if rate >= 10.0 || rate.fract() == 0.0 { grouped(rate.round() as u64) } else { format!("{rate:.1}") }
}

fn age(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.1}s") } else { rough(seconds as u64) }
}

/// Returns the widths of the columns. A column that is omitted has no width.
fn fitting(cells: &[[String; COLUMNS]], has_buses: bool, width: usize) -> [Option<usize>; COLUMNS] {
    let widest = |at: usize| cells.iter().map(|cells| cells[at].width()).max().unwrap_or(0);
    let mut widths: [_; COLUMNS] = std::array::from_fn(|at| Some(widest(at)));
    // The other columns stay where they are when a watcher becomes slow.
    widths[0] = Some(1);
    if !has_buses {
        widths[BUS] = None;
    }
    if width < usize::MAX {
        for name in NAMES {
            widths[name] = widths[name].map(|width| width.min(MAX_NAME));
        }
    }
    let total = |widths: &[Option<usize>; COLUMNS]| {
        let shown = widths.iter().flatten();
        (shown.clone().sum::<usize>() + 2 * shown.count()).saturating_sub(3)
    };
    for name in NAMES {
        let excess = total(&widths).saturating_sub(width);
        widths[name] = widths[name].map(|width| width.saturating_sub(excess).max(width.min(MIN_NAME)));
    }
    for omitted in OMITTED {
        if total(&widths) > width {
            widths[omitted] = None;
        }
    }
    widths
}

/// Joins the cells of a line.
fn joined(cells: &[String; COLUMNS], widths: &[Option<usize>; COLUMNS], width: usize) -> String {
    let mut line = String::new();
    for (at, (cell, column)) in cells.iter().zip(widths).enumerate() {
        let Some(column) = *column else { continue };
        // The mark is followed by a single space.
        line.push_str(match line.len() {
            0 => "",
            1 => " ",
            _ => "  ",
        });
        let cell = truncated(cell, column);
        // A text may be wider than the sum of its characters, by which it is truncated.
        let spaces = " ".repeat(column.saturating_sub(cell.width()));
        line += &if LEFT.contains(&at) { cell + &spaces } else { spaces + &cell };
    }
    truncated(line.trim_end(), width)
}

/// Truncates the text to the width, and marks the truncated end.
pub(crate) fn truncated(text: &str, width: usize) -> String {
    match cut(text, width) {
        whole if whole.len() == text.len() => whole.to_owned(),
        _ => format!("{}{}", cut(text, width.saturating_sub(1)), if width > 0 { "…" } else { "" }),
    }
}
