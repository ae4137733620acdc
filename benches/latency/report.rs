//! Formats the results as tables for a terminal, as tables for documents, and as JSON.

use std::time::Duration;

use eventcast_benches::cost::{Costs, RUN};
use eventcast_benches::table::{Form, grid, median, sorted};
use eventcast_benches::timed::Latencies;
use serde_json::{Value, json};

use crate::args::{Part, Settings};

/// The name of the row with which the other rows are compared.
pub(crate) const TWO_HOPS: &str = "crossbeam channel, two hops";

pub(crate) enum Section {
    Latency(Part, Vec<LatencyRow>),
    Cost(Vec<CostRow>),
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
}

impl LatencyRow {
    pub(crate) fn new(name: &'static str, manner: &'static str, events: u64) -> Self {
        let (latencies, late) = (Rounds::default(), Rounds::default());
        Self { name, manner, events, latencies, late, lost: Vec::new() }
    }

    pub(crate) fn add(&mut self, round: &Latencies) {
        self.latencies.add(&round.latencies);
        if !round.late.is_empty() {
            self.late.add(&round.late);
        }
        self.lost.push(round.lost);
    }

    fn lost_share(&self) -> f64 {
        self.lost.iter().sum::<u64>() as f64 / (self.events * self.lost.len() as u64) as f64
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

    /// Returns the number of times per hundred runs that the receiving thread went to sleep
    /// although it should have stayed awake. Returns `None` if the system does not report this
    /// number.
    fn sleeps_per_hundred(&self) -> Option<f64> {
        self.sleeps.map(|sleeps| sleeps as f64 * 100.0 / self.runs as f64)
    }
}

pub(crate) fn render(sections: &[Section], settings: &Settings) -> String {
    if settings.form == Form::Json {
        let sections: Vec<_> = sections.iter().map(json_of).collect();
        let document = json!({"rounds": settings.rounds, "seconds": settings.seconds, "sections": sections});
        return format!("{document}\n");
    }
    let mut tables = Vec::new();
    for section in sections {
        let (head, rows) = match section {
            Section::Latency(part, rows) => (latency_head(*part, rows, settings), latency_grid(rows)),
            Section::Cost(rows) => (
                format!(
                    "{}, in nanoseconds for one event, timed in runs of {RUN} (median of {} rounds)",
                    Part::Cost,
                    settings.rounds
                ),
                cost_grid(rows),
            ),
        };
        // Skip a section that contains only the header because it has none of the selected
        // contenders.
        if rows.len() > 1 {
            tables.push(format!("{head}\n\n{}", grid(&rows, settings.form)));
        }
    }
    tables.join("\n")
}

fn latency_head(part: Part, rows: &[LatencyRow], settings: &Settings) -> String {
    let events = rows.first().map_or(0, |row| row.events);
    format!("{part}, in microseconds (median of {} rounds of {events} events)", settings.rounds)
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
    let hops = rows.iter().find(|row| row.name == TWO_HOPS).map(|row| median(&row.latencies.p50));
    let head = [
        "",
        "p50",
        "least-most",
        "p99",
        "p99.9",
        "max",
        "p50 / two hops",
        "lost",
        "late p50",
        "late p99",
        "late max",
        "manner",
    ];
    let mut grid = vec![head.map(str::to_owned).to_vec()];
    for row in rows {
        let Rounds { p50, p99, p999, max } = &row.latencies;
        let ratio = hops.map_or_else(|| "-".to_owned(), |hops| format!("{:.2}", median(p50) / hops));
        grid.push(vec![
            row.name.to_owned(),
            middle(p50, micros),
            spread(p50, micros),
            middle(p99, micros),
            middle(p999, micros),
            middle(max, micros),
            ratio,
            format!("{:.1} %", 100.0 * row.lost_share()),
            middle(&row.late.p50, micros),
            middle(&row.late.p99, micros),
            middle(&row.late.max, micros),
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
    match section {
        Section::Latency(part, rows) => {
            let rate = match part {
                Part::Rate(rate) => Some(rate),
                Part::Idle | Part::Cost => None,
            };
            let rows: Vec<_> = rows
                .iter()
                .map(|row| {
                    json!({
                        "name": row.name,
                        "manner": row.manner,
                        "events": row.events,
                        "lost": row.lost,
                        "latency_ns": row.latencies.json(),
                        "sender_late_ns": row.late.json(),
                    })
                })
                .collect();
            json!({"part": part.to_string(), "events_per_second": rate, "rows": rows})
        }
        Section::Cost(rows) => {
            let rows: Vec<_> = rows
                .iter()
                .map(|row| {
                    json!({
                        "name": row.name,
                        "awake_ns": row.awake.json(),
                        "parked_first_ns": row.first.json(),
                        "parked_run_ns": row.parked.json(),
                        "sleeps_per_hundred_runs_awake": row.sleeps_per_hundred(),
                    })
                })
                .collect();
            json!({"part": Part::Cost.to_string(), "events_per_run": RUN, "rows": rows})
        }
    }
}
