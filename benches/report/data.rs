//! Reads and formats the data files. A data file contains the description of a machine and the JSON
//! documents that the programs printed on that machine.
//!
//! A data file may also be created from tables that the programs printed. In that case, an object
//! with the median, the minimum and the maximum replaces the list of rounds, and fields without a
//! value are omitted.

use serde::Deserialize;
use serde_json::Value;

use eventcast_benches::table::{median, sorted};

/// The contents of a data file that are shown on the page.
#[derive(Debug, Deserialize)]
pub(crate) struct Report {
    /// The name of the data file, without its extension.
    #[serde(skip)]
    pub(crate) slug: String,
    pub(crate) machine: Machine,
    pub(crate) date: String,
    pub(crate) command: String,
    #[serde(default)]
    pub(crate) quick: bool,
    /// The origin of the values if the file was not written by the programs.
    pub(crate) source: Option<String>,
    pub(crate) versus: Versus,
    pub(crate) latency: Latency,
    pub(crate) recording: Recording,
    /// The parts whose figures [`Self::hide`] has removed, each with its reason.
    #[serde(skip)]
    pub(crate) hidden: Vec<(String, String)>,
}

impl Report {
    /// Removes the figures that were not taken on a quiet machine. Keeps the rows, whose cells are
    /// then empty. Figures from before the programs judged this are kept, and so is a trial, whose
    /// figures mean nothing anyway.
    pub(crate) fn hide(&mut self) {
        if self.quick {
            return;
        }
        let Self { versus, latency, recording, hidden, .. } = self;
        let mut is_hidden = |conditions: &Option<Conditions>, part: &str, disturbance: &Option<String>| {
            let of_all = conditions.as_ref().map(|conditions| conditions.disturbances.join(", "));
            let reason = of_all.filter(|text| !text.is_empty()).or_else(|| disturbance.clone());
            hidden.extend(reason.iter().map(|reason| (part.to_owned(), reason.clone())));
            reason.is_some()
        };
        for case in &mut versus.cases {
            if is_hidden(&versus.conditions, &case.name, &case.disturbance) {
                case.rows.iter_mut().for_each(Rival::hide);
            }
        }
        for section in &mut latency.sections {
            if is_hidden(&latency.conditions, &section.part, &section.disturbance) {
                section.rows.iter_mut().for_each(Timed::hide);
            }
        }
        for row in &mut recording.rows {
            if is_hidden(&recording.conditions, &row.name, &row.disturbance) {
                row.figures.iter_mut().for_each(|figure| figure.rounds = Rounds::default());
            }
        }
    }
}

/// The conditions during one program.
#[derive(Debug, Deserialize)]
pub(crate) struct Conditions {
    /// The reasons why the machine was not quiet.
    pub(crate) disturbances: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) processor: Option<String>,
    pub(crate) cores: usize,
    pub(crate) system: String,
    pub(crate) kernel: Option<String>,
    pub(crate) rust: Option<String>,
    pub(crate) eventcast: Option<String>,
    pub(crate) commit: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Versus {
    pub(crate) conditions: Option<Conditions>,
    pub(crate) cases: Vec<Case>,
    pub(crate) idle: Vec<Idle>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    #[serde(rename = "case")]
    pub(crate) name: String,
    /// The reason why this case's figures were not taken on a quiet machine.
    pub(crate) disturbance: Option<String>,
    pub(crate) rows: Vec<Rival>,
}

/// A contender's figures in one case. The contender may also be eventcast.
#[derive(Debug, Deserialize)]
pub(crate) struct Rival {
    pub(crate) name: String,
    pub(crate) manner: String,
    #[serde(rename = "deliveries_per_second")]
    pub(crate) rate: Rounds,
    /// The fraction of the events that were lost, from 0 to 1.
    pub(crate) lost: Option<f64>,
    #[serde(rename = "cpu_seconds_per_million_events")]
    pub(crate) cpu: Option<f64>,
    #[serde(rename = "least_cpu_seconds_per_million_events")]
    pub(crate) least_cpu: Option<f64>,
    #[serde(rename = "publisher_nanos_per_event")]
    pub(crate) publisher: Option<f64>,
    #[serde(rename = "sleeps_per_million_events")]
    pub(crate) sleeps: Option<f64>,
    #[serde(rename = "preemptions_per_million_events")]
    pub(crate) preemptions: Option<f64>,
}

impl Rival {
    fn hide(&mut self) {
        self.rate = Rounds::default();
        (self.lost, self.cpu, self.least_cpu) = (None, None, None);
        (self.publisher, self.sleeps, self.preemptions) = (None, None, None);
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Idle {
    pub(crate) name: String,
    #[serde(rename = "cpu_seconds_per_second")]
    pub(crate) cpu: f64,
    pub(crate) bytes_per_reader: Option<i64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Latency {
    pub(crate) conditions: Option<Conditions>,
    pub(crate) sections: Vec<Section>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Section {
    pub(crate) part: String,
    /// The reason why this section's figures were not taken on a quiet machine.
    pub(crate) disturbance: Option<String>,
    pub(crate) events_per_second: Option<u64>,
    pub(crate) rows: Vec<Timed>,
}

/// A contender's times in nanoseconds. A section contains either latencies or costs of sending.
#[derive(Debug, Deserialize)]
pub(crate) struct Timed {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) manner: String,
    pub(crate) latency_ns: Option<Percentiles>,
    /// The number of events in a round. `lost` contains the number of lost events for each round.
    pub(crate) events: Option<u64>,
    #[serde(default)]
    pub(crate) lost: Vec<u64>,
    pub(crate) awake_ns: Option<Percentiles>,
    pub(crate) parked_first_ns: Option<Percentiles>,
    pub(crate) parked_run_ns: Option<Percentiles>,
}

impl Timed {
    fn hide(&mut self) {
        self.lost.clear();
        let all =
            [&mut self.latency_ns, &mut self.awake_ns, &mut self.parked_first_ns, &mut self.parked_run_ns];
        for percentiles in all.into_iter().flatten() {
            *percentiles = Percentiles::default();
        }
    }

    /// Returns the fraction of the events that were lost, from 0 to 1.
    pub(crate) fn lost_share(&self) -> Option<f64> {
        let events = self.events? * self.lost.len() as u64;
        (events > 0).then(|| self.lost.iter().sum::<u64>() as f64 / events as f64)
    }
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: Rounds,
    #[serde(default)]
    pub(crate) p99: Rounds,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Recording {
    pub(crate) conditions: Option<Conditions>,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Row {
    #[serde(rename = "row")]
    pub(crate) name: String,
    /// The reason why this row's figures were not taken on a quiet machine.
    pub(crate) disturbance: Option<String>,
    pub(crate) figures: Vec<Figure>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) rounds: Rounds,
}

/// A figure that was measured in several rounds.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Rounds {
    Each(Vec<f64>),
    Summary { median: f64, least: Option<f64>, most: Option<f64> },
}

impl Default for Rounds {
    fn default() -> Self {
        Self::Each(Vec::new())
    }
}

impl Rounds {
    /// Returns the median, or `None` if there were no rounds.
    pub(crate) fn median(&self) -> Option<f64> {
        match self {
            Self::Each(rounds) if rounds.is_empty() => None,
            Self::Each(rounds) => Some(median(rounds)),
            Self::Summary { median, .. } => Some(*median),
        }
    }

    /// Returns the minimum and the maximum, if they are known.
    pub(crate) fn spread(&self) -> Option<(f64, f64)> {
        match self {
            Self::Each(rounds) => {
                let sorted = sorted(rounds);
                Some((*sorted.first()?, *sorted.last()?))
            }
            Self::Summary { least, most, .. } => (*least).zip(*most),
        }
    }
}

/// The maximum length of a line in a data file, in bytes. A line that cannot be broken may be
/// longer.
const WIDTH: usize = 180;

/// Formats a document. Each list and object is written on one line if it fits.
pub(crate) fn text(document: &Value) -> String {
    let mut out = String::new();
    put(document, 0, &mut out);
    out.push('\n');
    out
}

fn put(value: &Value, depth: usize, out: &mut String) {
    let flat = value.to_string();
    let parts: Vec<(String, &Value)> = match value {
        _ if 2 * depth + flat.len() <= WIDTH => Vec::new(),
        Value::Array(items) => items.iter().map(|item| (String::new(), item)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| (format!("{}: ", Value::from(name.as_str())), field)).collect()
        }
        _ => Vec::new(),
    };
    if parts.is_empty() {
        out.push_str(&flat);
        return;
    }
    let (open, close) = if value.is_array() { ('[', ']') } else { ('{', '}') };
    out.push(open);
    for (number, (name, part)) in parts.into_iter().enumerate() {
        out.push_str(if number > 0 { ",\n" } else { "\n" });
        out.push_str(&"  ".repeat(depth + 1));
        out.push_str(&name);
        put(part, depth + 1, out);
    }
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
    out.push(close);
}
