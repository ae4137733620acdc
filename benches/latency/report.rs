//! Formats the results as tables for a terminal, as tables for documents, and as JSON.

use std::time::Duration;

use eventcast_benches::cost::{Costs, RUN};
use eventcast_benches::quiet::Conditions;
use eventcast_benches::rounds::{disagreement, halves, interval, is_narrow, mark, range, ratio, ratios};
use eventcast_benches::table::{Form, grid, median, sorted};
use eventcast_benches::threads::Switches;
use eventcast_benches::timed::Latencies;
use serde_json::{Value, json};

use crate::args::{Part, Settings};

/// The name of the row with which the other rows are compared.
pub(crate) const TWO_HOPS: &str = "crossbeam channel, two hops";

pub(crate) enum Section {
    Latency(Part, Vec<LatencyRow>),
    Cost(Vec<CostRow>),
}

impl Section {
    /// Returns the medians of the row with which the other rows are compared, and otherwise those
    /// of the first row.
    fn base(&self) -> &[f64] {
        let base = match self {
            Self::Latency(_, rows) => base(rows).or(rows.first()).map(LatencyRow::p50),
            Self::Cost(rows) => rows.first().map(CostRow::p50),
        };
        base.unwrap_or_default()
    }
}

/// Returns the row with which the other rows are compared.
fn base(rows: &[LatencyRow]) -> Option<&LatencyRow> {
    rows.iter().find(|row| row.name == TWO_HOPS)
}

/// The percentiles from each round, in nanoseconds.
#[derive(Default)]
struct Rounds {
    p50: Vec<f64>,
    p99: Vec<f64>,
    p999: Vec<f64>,
    max: Vec<f64>,
}

impl Rounds {
    fn add(&mut self, nanos: &hdrhistogram::Histogram<u64>) {
        self.p50.push(nanos.value_at_quantile(0.5) as f64);
        self.p99.push(nanos.value_at_quantile(0.99) as f64);
        self.p999.push(nanos.value_at_quantile(0.999) as f64);
        self.max.push(nanos.max() as f64);
    }

    fn add_each(&mut self, times: &[Duration], events: u64) {
        let nanos: Vec<f64> = times.iter().map(|time| time.as_nanos() as f64 / events as f64).collect();
        let nanos = sorted(&nanos);
        let at = |share: f64| nanos[((nanos.len() - 1) as f64 * share).round() as usize];
        self.p50.push(at(0.5));
        self.p99.push(at(0.99));
        self.p999.push(at(0.999));
        self.max.push(at(1.0));
    }

    fn json(&self) -> Value {
        json!({"p50": self.p50, "p99": self.p99, "p99.9": self.p999, "max": self.max})
    }
}

pub(crate) struct LatencyRow {
    name: &'static str,
    manner: &'static str,
    events: u64,
    latencies: Rounds,
    late: Rounds,
    lost: Vec<u64>,
    switches: Switches,
}

impl LatencyRow {
    pub(crate) fn new(name: &'static str, manner: &'static str, events: u64) -> Self {
        let (latencies, late) = (Rounds::default(), Rounds::default());
        let (lost, switches) = (Vec::new(), Switches::default());
        Self { name, manner, events, latencies, late, lost, switches }
    }

    /// Adds a round with the switches of the whole process.
    pub(crate) fn add(&mut self, round: &Latencies, switches: Switches) {
        self.switches = self.switches + switches;
        self.latencies.add(&round.latencies);
        if !round.late.is_empty() {
            self.late.add(&round.late);
        }
        self.lost.push(round.lost);
    }

    /// Returns the median latency of each round, in nanoseconds.
    pub(crate) fn p50(&self) -> &[f64] {
        &self.latencies.p50
    }

    /// Returns the number per million events.
    fn per_million(&self, number: u64) -> f64 {
        number as f64 * 1e6 / (self.events * self.lost.len() as u64) as f64
    }

    fn lost_share(&self) -> f64 {
        self.per_million(self.lost.iter().sum()) / 1e6
    }

    /// Returns the ratio to the base, with its interval.
    fn ratio(&self, base: Option<&LatencyRow>) -> String {
        let Some(base) = base else { return "-".to_owned() };
        let ratios = ratios(self.p50(), base.p50());
        ratio(&ratios)
    }
}

/// A contender's costs, in nanoseconds per event.
pub(crate) struct CostRow {
    name: &'static str,
    awake: Rounds,
    first: Rounds,
    parked: Rounds,
    runs: usize,
    sleeps: Option<u64>,
}

impl CostRow {
    pub(crate) fn new(name: &'static str) -> Self {
        let (awake, first, parked) = (Rounds::default(), Rounds::default(), Rounds::default());
        Self { name, awake, first, parked, runs: 0, sleeps: Some(0) }
    }

    pub(crate) fn awake(&mut self, costs: &Costs) {
        self.awake.add_each(&costs.runs, RUN);
        self.runs += costs.runs.len();
        self.sleeps = self.sleeps.zip(costs.sleeps).map(|(sum, sleeps)| sum + sleeps);
    }

    pub(crate) fn parked(&mut self, costs: &Costs) {
        self.first.add_each(&costs.firsts, 1);
        self.parked.add_each(&costs.runs, RUN);
    }

    /// Returns the median cost in each round while the receiving thread is awake, in nanoseconds.
    pub(crate) fn p50(&self) -> &[f64] {
        &self.awake.p50
    }

    /// Returns the number of times per hundred runs that the receiving thread went to sleep
    /// although it should have stayed awake. Returns `None` if the system does not report this
    /// number.
    fn sleeps_per_hundred(&self) -> Option<f64> {
        self.sleeps.map(|sleeps| sleeps as f64 * 100.0 / self.runs as f64)
    }
}

pub(crate) fn render(sections: &[Section], conditions: &Conditions, settings: &Settings) -> String {
    if settings.form == Form::Json {
        let sections: Vec<_> = sections.iter().map(json_of).collect();
        let document = json!({
            "conditions": conditions.json(),
            "rounds": settings.rounds,
            "seconds": settings.seconds,
            "sections": sections,
        });
        return format!("{document}\n");
    }
    let mut tables = vec![conditions.line()];
    for section in sections {
        let (head, rows) = match section {
            Section::Latency(part, rows) => {
                let (rounds, events) =
                    (rows.iter().map(|row| row.p50().len()), rows.first().map_or(0, |row| row.events));
                let rounds = format!("{} rounds of {events} events", range(rounds));
                (format!("{part}, in microseconds (median of {rounds}"), latency_grid(rows))
            }
            Section::Cost(rows) => {
                let what = format!("{}, in nanoseconds for one event, timed in runs of {RUN}", Part::Cost);
                let rounds = range(rows.iter().map(|row| row.p50().len()));
                (format!("{what} (median of {rounds} rounds"), cost_grid(rows))
            }
        };
        // Skip a section that contains only the header because it has none of the selected
        // contenders.
        if rows.len() > 1 {
            let mark = mark(section.base());
            tables.push(format!("{head}{mark})\n\n{}", grid(&rows, settings.form)));
        }
    }
    tables.join("\n")
}

fn micros(nanos: f64) -> String {
    let micros = nanos / 1000.0;
    if micros < 100.0 { format!("{micros:.1}") } else { format!("{micros:.0}") }
}

fn spread(figures: &[f64], show: impl Fn(f64) -> String) -> String {
    let figures = sorted(figures);
    match (figures.first(), figures.last()) {
        (Some(least), Some(most)) => format!("{}-{}", show(*least), show(*most)),
        _ => String::new(),
    }
}

/// Formats the median of the rounds, or returns a dash if there are no rounds.
fn middle(figures: &[f64], show: impl Fn(f64) -> String) -> String {
    if figures.is_empty() { "-".to_owned() } else { show(median(figures)) }
}

fn latency_grid(rows: &[LatencyRow]) -> Vec<Vec<String>> {
    let base = base(rows);
    let head = [
        "",
        "p50",
        "least-most",
        "p99",
        "p99.9",
        "max",
        "p50 / two hops (95 %)",
        "lost",
        "late p50",
        "late p99",
        "late max",
        "sleeps",
        "preemptions",
        "manner",
    ];
    let mut grid = vec![head.map(str::to_owned).to_vec()];
    for row in rows {
        let Rounds { p50, p99, p999, max } = &row.latencies;
        grid.push(vec![
            row.name.to_owned(),
            middle(p50, micros),
            spread(p50, micros),
            middle(p99, micros),
            middle(p999, micros),
            middle(max, micros),
            row.ratio(base),
            format!("{:.1} %", 100.0 * row.lost_share()),
            middle(&row.late.p50, micros),
            middle(&row.late.p99, micros),
            middle(&row.late.max, micros),
            format!("{:.0}", row.per_million(row.switches.sleeps)),
            format!("{:.0}", row.per_million(row.switches.preemptions)),
            row.manner.to_owned(),
        ]);
    }
    grid
}

fn cost_grid(rows: &[CostRow]) -> Vec<Vec<String>> {
    let head = [
        "",
        "awake p50",
        "least-most",
        "awake p99",
        "fell asleep in 100 runs",
        "parked, first p50",
        "parked, first p99",
        "parked, run p50",
        "parked, run p99",
    ];
    let nanos = |nanos: f64| format!("{nanos:.0}");
    let mut grid = vec![head.map(str::to_owned).to_vec()];
    for row in rows {
        grid.push(vec![
            row.name.to_owned(),
            middle(&row.awake.p50, nanos),
            spread(&row.awake.p50, nanos),
            middle(&row.awake.p99, nanos),
            row.sleeps_per_hundred().map_or_else(|| "-".to_owned(), |sleeps| format!("{sleeps:.1}")),
            middle(&row.first.p50, nanos),
            middle(&row.first.p99, nanos),
            middle(&row.parked.p50, nanos),
            middle(&row.parked.p99, nanos),
        ]);
    }
    grid
}

/// Returns a section as JSON, with all of its times in nanoseconds, round by round.
fn json_of(section: &Section) -> Value {
    let halves = halves(section.base());
    let mut document = match section {
        Section::Latency(part, rows) => {
            let rate = match part {
                Part::Rate(rate) => Some(rate),
                Part::Idle | Part::Cost => None,
            };
            let base = base(rows).map(LatencyRow::p50);
            let rows: Vec<_> = rows.iter().map(|row| latency_json(row, base)).collect();
            json!({"part": part.to_string(), "events_per_second": rate, "rows": rows})
        }
        Section::Cost(rows) => {
            let row = |row: &CostRow| {
                json!({
                    "name": row.name,
                    "awake_ns": row.awake.json(),
                    "parked_first_ns": row.first.json(),
                    "parked_run_ns": row.parked.json(),
                    "sleeps_per_hundred_runs_awake": row.sleeps_per_hundred(),
                })
            };
            let rows: Vec<_> = rows.iter().map(row).collect();
            json!({"part": Part::Cost.to_string(), "events_per_run": RUN, "rows": rows})
        }
    };
    document["halves"] = json!(halves);
    document["disturbance"] = json!(disagreement(halves));
    document
}

fn latency_json(row: &LatencyRow, base: Option<&[f64]>) -> Value {
    let ratios = base.map(|base| ratios(row.p50(), base));
    json!({
        "name": row.name,
        "manner": row.manner,
        "events": row.events,
        "lost": row.lost,
        "latency_ns": row.latencies.json(),
        "sender_late_ns": row.late.json(),
        "interval": ratios.as_deref().and_then(interval),
        "is_narrow": ratios.as_deref().is_some_and(is_narrow),
        "sleeps_per_million_events": row.per_million(row.switches.sleeps),
        "preemptions_per_million_events": row.per_million(row.switches.preemptions),
    })
}
