//! Formats the results as tables for a terminal, as tables for documents, and as JSON.

use std::fmt::Write;
use std::time::Duration;

use serde_json::json;

use eventcast_benches::load::Outcome;
use eventcast_benches::table::{Form, grid, median, sorted};

use crate::idle::Idle;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) publishers: usize,
    pub(crate) watchers: usize,
}

pub(crate) struct Table {
    pub(crate) case: Case,
    pub(crate) rounds: usize,
    /// The contenders' rows. The first row is eventcast or eventcast inline.
    pub(crate) rows: Vec<Figures>,
}

/// The results of one contender's rounds.
pub(crate) struct Figures {
    name: &'static str,
    manner: &'static str,
    /// The deliveries per second in each round.
    rates: Vec<f64>,
    events: u64,
    delivered: u64,
    lost: u64,
    cpu: Duration,
    /// The part of `cpu` that the publishing threads used. `None` if the publishers do not run on
    /// their own threads.
    publishing: Option<Duration>,
}

impl Figures {
    pub(crate) fn new(name: &'static str, manner: &'static str) -> Self {
        let (rates, cpu) = (Vec::new(), Duration::ZERO);
        Self { name, manner, rates, events: 0, delivered: 0, lost: 0, cpu, publishing: None }
    }

    pub(crate) fn add(&mut self, events: u64, outcome: Outcome, cpu: Duration) {
        self.rates.push(outcome.delivered as f64 / outcome.elapsed.as_secs_f64());
        self.events += events;
        self.delivered += outcome.delivered;
        self.lost += outcome.lost;
        self.cpu += cpu;
        if let Some(publishing) = outcome.publishing {
            *self.publishing.get_or_insert_default() += publishing;
        }
    }

    fn median(&self) -> f64 {
        median(&self.rates)
    }

    /// Returns the CPU seconds per million events.
    fn cpu_per_million(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.events as f64
    }

    /// Returns the publishers' CPU time per event, in nanoseconds.
    fn nanos_of_publisher(&self) -> Option<f64> {
        Some(self.publishing?.as_secs_f64() * 1e9 / self.events as f64)
    }

    fn lost_share(&self) -> f64 {
        self.lost as f64 / (self.delivered + self.lost) as f64
    }
}

pub(crate) fn render(tables: &[Table], idle: &[Idle], form: Form) -> String {
    if form == Form::Json {
        return json_of(tables, idle);
    }
    let mut out = String::new();
    for table in tables {
        let ours = table.rows.first().map_or(0.0, Figures::median);
        let head = [
            "",
            "M deliveries/s",
            "least",
            "most",
            "ours / this",
            "lost",
            "CPU s per M events",
            "publisher, ns an event",
            "manner",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for figures in &table.rows {
            let rates = sorted(&figures.rates);
            let million = |rate: f64| format!("{:.2}", rate / 1e6);
            rows.push(vec![
                figures.name.to_owned(),
                million(figures.median()),
                rates.first().map_or_else(String::new, |rate| million(*rate)),
                rates.last().map_or_else(String::new, |rate| million(*rate)),
                format!("{:.2}", ours / figures.median()),
                format!("{:.1} %", 100.0 * figures.lost_share()),
                format!("{:.2}", figures.cpu_per_million()),
                figures.nanos_of_publisher().map_or_else(|| "-".to_owned(), |nanos| format!("{nanos:.0}")),
                figures.manner.to_owned(),
            ]);
        }
        let (name, rounds) = (table.case.name, table.rounds);
        let _ = write!(out, "{name} (median of {rounds} rounds)\n\n{}\n", grid(&rows, form));
    }
    if !idle.is_empty() {
        let head = ["", "CPU s per s, 4 readers", "bytes per reader"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for row in idle {
            let bytes = row.bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
            rows.push(vec![row.name.to_owned(), format!("{:.3}", row.cpu), bytes]);
        }
        let _ = write!(out, "Waiting for nothing\n\n{}", grid(&rows, form));
    }
    out
}

fn json_of(tables: &[Table], idle: &[Idle]) -> String {
    let cases: Vec<_> = tables
        .iter()
        .map(|table| {
            let ours = table.rows.first().map_or(0.0, Figures::median);
            let rows: Vec<_> = table
                .rows
                .iter()
                .map(|figures| {
                    json!({
                        "name": figures.name,
                        "manner": figures.manner,
                        "deliveries_per_second": figures.rates,
                        "median": figures.median(),
                        "ours_to_this": ours / figures.median(),
                        "events": figures.events,
                        "lost": figures.lost_share(),
                        "cpu_seconds_per_million_events": figures.cpu_per_million(),
                        "publisher_nanos_per_event": figures.nanos_of_publisher(),
                    })
                })
                .collect();
            json!({"case": table.case.name, "publishers": table.case.publishers, "watchers": table.case.watchers, "rows": rows})
        })
        .collect();
    let idle: Vec<_> = idle
        .iter()
        .map(
            |row| json!({"name": row.name, "cpu_seconds_per_second": row.cpu, "bytes_per_reader": row.bytes}),
        )
        .collect();
    format!("{}\n", json!({"cases": cases, "idle": idle}))
}
