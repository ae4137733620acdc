//! Formats the results as tables for a terminal, as tables for documents, and as JSON.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use eventcast_benches::load::Outcome;
use eventcast_benches::quiet::Conditions;
use eventcast_benches::rounds::{disagreement, halves, interval, is_narrow, mark, range, ratio, ratios};
use eventcast_benches::table::{Form, grid, median, sorted};
use eventcast_benches::threads::Switches;

use crate::idle::Idle;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) publishers: usize,
    pub(crate) watchers: usize,
}

pub(crate) struct Table {
    pub(crate) case: Case,
    /// The contenders' rows. The first row is eventcast or eventcast inline.
    pub(crate) rows: Vec<Figures>,
}

impl Table {
    /// Returns the rates of the first contender.
    fn base(&self) -> &[f64] {
        self.rows.first().map_or(&[], |figures| &figures.rates)
    }

    /// Returns each row with the rates that it is compared with. The first row has no such rates.
    fn rows(&self) -> impl Iterator<Item = (&Figures, Option<&[f64]>)> {
        self.rows.iter().enumerate().map(|(row, figures)| (figures, (row > 0).then_some(self.base())))
    }
}

/// The results of one contender's rounds.
pub(crate) struct Figures {
    name: &'static str,
    manner: &'static str,
    /// The deliveries per second in each round.
    pub(crate) rates: Vec<f64>,
    events: u64,
    delivered: u64,
    lost: u64,
    /// The CPU seconds per million events in each round.
    cpu: Vec<f64>,
    /// The CPU time of the publishing threads. `None` if the publishers do not run on their own
    /// threads.
    publishing: Option<Duration>,
    switches: Switches,
    /// The part of `switches` that the publishing threads had. `None` if it is not known.
    publisher_switches: Option<Switches>,
}

impl Figures {
    pub(crate) fn new(name: &'static str, manner: &'static str) -> Self {
        let (rates, cpu, switches) = (Vec::new(), Vec::new(), Switches::default());
        let (events, delivered, lost) = (0, 0, 0);
        let (publishing, publisher_switches) = (None, None);
        Self { name, manner, rates, events, delivered, lost, cpu, publishing, switches, publisher_switches }
    }

    /// Adds a round. `cpu` and `switches` belong to the whole process.
    pub(crate) fn add(&mut self, events: u64, outcome: Outcome, cpu: Duration, switches: Switches) {
        self.rates.push(outcome.delivered as f64 / outcome.elapsed.as_secs_f64());
        self.events += events;
        self.delivered += outcome.delivered;
        self.lost += outcome.lost;
        self.cpu.push(cpu.as_secs_f64() * 1e6 / events as f64);
        self.switches = self.switches + switches;
        if let Some(publishing) = outcome.publishing {
            *self.publishing.get_or_insert_default() += publishing;
        }
        if let Some(switches) = outcome.switches {
            self.publisher_switches = Some(self.publisher_switches.unwrap_or_default() + switches);
        }
    }

    /// Returns the ratio of the first contender's rate to this contender's rate in each round. For
    /// the first contender itself, `base` is `None`, and this method returns the rates.
    pub(crate) fn ratios(&self, base: Option<&[f64]>) -> Vec<f64> {
        match base {
            None => self.rates.clone(),
            Some(base) => ratios(base, &self.rates),
        }
    }

    fn median(&self) -> f64 {
        median(&self.rates)
    }

    /// Returns the number per million events.
    fn per_million(&self, number: u64) -> f64 {
        number as f64 * 1e6 / self.events as f64
    }

    /// Returns the sleeps of the publishing threads, and of all other threads, per million events.
    fn sleeps(&self) -> Option<(f64, f64)> {
        let publishers = self.publisher_switches?.sleeps;
        Some((self.per_million(publishers), self.per_million(self.switches.sleeps - publishers)))
    }

    /// Returns the publishers' CPU time per event, in nanoseconds.
    fn nanos_of_publisher(&self) -> Option<f64> {
        Some(self.publishing?.as_secs_f64() * 1e9 / self.events as f64)
    }

    fn lost_share(&self) -> f64 {
        self.lost as f64 / (self.delivered + self.lost) as f64
    }

    fn row(&self, base: Option<&[f64]>) -> Vec<String> {
        let rates = sorted(&self.rates);
        let million = |rate: &f64| format!("{:.2}", rate / 1e6);
        let end = |rate: Option<&f64>| rate.map_or_else(String::new, million);
        let sleeps = self.sleeps().map_or_else(
            || format!("{:.0}", self.per_million(self.switches.sleeps)),
            |(publishers, others)| format!("{publishers:.0} + {others:.0}"),
        );
        vec![
            self.name.to_owned(),
            million(&self.median()),
            end(rates.first()),
            end(rates.last()),
            self.ratio(base),
            format!("{:.1} %", 100.0 * self.lost_share()),
            format!("{:.3}", median(&self.cpu)),
            format!("{:.3}", sorted(&self.cpu)[0]),
            self.nanos_of_publisher().map_or_else(|| "-".to_owned(), |nanos| format!("{nanos:.0}")),
            sleeps,
            format!("{:.0}", self.per_million(self.switches.preemptions)),
            self.manner.to_owned(),
        ]
    }

    /// Returns the ratio of the first contender's rate to this one, with its interval.
    fn ratio(&self, base: Option<&[f64]>) -> String {
        if base.is_none() {
            return "1".to_owned();
        }
        let ratios = self.ratios(base);
        ratio(&ratios)
    }

    fn json(&self, base: Option<&[f64]>) -> Value {
        let ratios = self.ratios(base);
        json!({
            "name": self.name,
            "manner": self.manner,
            "deliveries_per_second": self.rates,
            "median": self.median(),
            "ours_to_this": if base.is_some() { median(&ratios) } else { 1.0 },
            "interval": interval(&ratios),
            "is_narrow": is_narrow(&ratios),
            "events": self.events,
            "lost": self.lost_share(),
            "cpu_seconds_per_million_events": median(&self.cpu),
            "least_cpu_seconds_per_million_events": sorted(&self.cpu)[0],
            "publisher_nanos_per_event": self.nanos_of_publisher(),
            "sleeps_per_million_events": self.per_million(self.switches.sleeps),
            "publisher_sleeps_per_million_events": self.sleeps().map(|(publishers, _)| publishers),
            "preemptions_per_million_events": self.per_million(self.switches.preemptions),
        })
    }
}

pub(crate) fn render(tables: &[Table], idle: &[Idle], conditions: &Conditions, form: Form) -> String {
    if form == Form::Json {
        return json_of(tables, idle, conditions);
    }
    let mut out = conditions.line();
    out.push('\n');
    let head = [
        "",
        "M deliveries/s",
        "least",
        "most",
        "ours / this (95 %)",
        "lost",
        "CPU s per M events",
        "least",
        "publisher, ns an event",
        "sleeps, publisher + other",
        "preemptions",
        "manner",
    ];
    for table in tables {
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(table.rows().map(|(figures, base)| figures.row(base)));
        let rounds = range(table.rows.iter().map(|figures| figures.rates.len()));
        let mark = mark(table.base());
        let _ =
            write!(out, "{} (median of {rounds} rounds{mark})\n\n{}\n", table.case.name, grid(&rows, form));
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

fn json_of(tables: &[Table], idle: &[Idle], conditions: &Conditions) -> String {
    let cases: Vec<_> = tables
        .iter()
        .map(|table| {
            let rows: Vec<_> = table.rows().map(|(figures, base)| figures.json(base)).collect();
            let halves = halves(table.base());
            json!({
                "case": table.case.name,
                "publishers": table.case.publishers,
                "watchers": table.case.watchers,
                "halves": halves,
                "disturbance": disagreement(halves),
                "rows": rows,
            })
        })
        .collect();
    let idle: Vec<_> = idle
        .iter()
        .map(
            |row| json!({"name": row.name, "cpu_seconds_per_second": row.cpu, "bytes_per_reader": row.bytes}),
        )
        .collect();
    format!("{}\n", json!({"conditions": conditions.json(), "cases": cases, "idle": idle}))
}
