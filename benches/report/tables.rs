//! The tables that compare the rivals in terms of throughput, the cost of throughput, waiting,
//! latency and sending.

use eventcast_benches::table::{Form, grid};

use crate::cells::{NONE, hundredths, lost, micros, middle, millions, optional, spread, thousandths, whole};
use crate::data::{Case, Idle, Latency, Report, Rival, Section, Timed};

/// The suffix of the name of a case whose readers are tasks.
const TASKS: &str = ", tasks";

/// The suffix of the name of a case in which a single thread publishes and receives.
const ONE_THREAD: &str = ", one thread";

/// Returns the cases whose names have one of the given suffixes.
fn cases<'r>(report: &'r Report, ends: &[&str]) -> Vec<&'r Case> {
    report.versus.cases.iter().filter(|case| ends.iter().any(|end| case.name.ends_with(end))).collect()
}

/// Returns the cases in which each reader is a thread.
pub(crate) fn threads(report: &Report) -> Vec<&Case> {
    let others = cases(report, &[TASKS, ONE_THREAD]);
    let is_other = |case: &&Case| others.iter().any(|other| other.name == case.name);
    report.versus.cases.iter().filter(|case| !is_other(case)).collect()
}

/// Returns the sections that contain latencies.
pub(crate) fn latencies(latency: &Latency) -> Vec<&Section> {
    let has_latency = |section: &&Section| section.rows.iter().any(|row| row.latency_ns.is_some());
    latency.sections.iter().filter(has_latency).collect()
}

/// Returns the short name of a section, such as `10 k a second`.
pub(crate) fn section_name(section: &Section) -> String {
    match section.events_per_second {
        None if section.part.starts_with("One event") => "one at a time".to_owned(),
        None => section.part.clone(),
        Some(rate) if rate % 1_000_000 == 0 => format!("{} M a second", rate / 1_000_000),
        Some(rate) if rate % 1000 == 0 => format!("{} k a second", rate / 1000),
        Some(rate) => format!("{rate} a second"),
    }
}

/// Returns the name of a contender's line. A raw channel to one reader shares a line with the
/// channels to several readers.
pub(crate) fn line(rival: &Rival) -> &str {
    match rival.name.as_str() {
        "crossbeam channel, raw" => "crossbeam channel per watcher",
        name => name,
    }
}

/// Returns the names of the lines for the given cases, in the order in which the lines first
/// appear. Each name is returned with its contender's manner.
pub(crate) fn lines<'c>(cases: &[&'c Case]) -> Vec<(&'c str, &'c str)> {
    let mut lines: Vec<(&str, &str)> = Vec::new();
    for rival in cases.iter().flat_map(|case| &case.rows) {
        match lines.iter_mut().find(|(name, _)| *name == line(rival)) {
            None => lines.push((line(rival), &rival.manner)),
            // Use the manner of the contender with the same name as the line.
            Some(known) if known.0 == rival.name => known.1 = &rival.manner,
            Some(_) => {}
        }
    }
    lines
}

/// Returns a case's contender for the line with the given name.
pub(crate) fn rival<'c>(case: &'c Case, name: &str) -> Option<&'c Rival> {
    case.rows.iter().find(|rival| line(rival) == name)
}

/// Returns a table with a line for each name and a column for each case.
fn by_case(head: &str, cases: &[&Case], cell: impl Fn(&Rival) -> String, manner: bool) -> String {
    let mut first = vec![head.to_owned()];
    let name = |case: &&Case| case.name.split(", ").next().unwrap_or_default().to_owned();
    first.extend(cases.iter().map(name));
    first.extend(manner.then(|| "manner".to_owned()));
    let mut rows = vec![first];
    for (name, how) in lines(cases) {
        let mut row = vec![name.to_owned()];
        row.extend(cases.iter().map(|case| rival(case, name).map_or_else(|| NONE.to_owned(), &cell)));
        row.extend(manner.then(|| how.to_owned()));
        rows.push(row);
    }
    grid(&rows, Form::Markdown)
}

fn rate(rival: &Rival) -> String {
    format!("{}{}", spread(&rival.rate, millions), lost(rival.lost))
}

pub(crate) fn throughput(report: &Report) -> String {
    by_case("M deliveries/s (min–max)", &threads(report), rate, false)
}

pub(crate) fn of_tasks(report: &Report) -> String {
    by_case("tasks: M deliveries/s (min–max)", &cases(report, &[TASKS]), rate, false)
}

/// Returns the table for a single thread that publishes and receives. Returns `None` if the data
/// does not contain any cases with a single thread.
pub(crate) fn of_one_thread(report: &Report) -> Option<String> {
    let cases = cases(report, &[ONE_THREAD]);
    let cell = |rival: &Rival| optional(rival.publisher, whole);
    let head = "one thread: ns to publish an event and receive it";
    (!cases.is_empty()).then(|| by_case(head, &cases, cell, false))
}

pub(crate) fn cost(report: &Report) -> String {
    let cell = |rival: &Rival| match rival.least_cpu {
        Some(least) => format!("{} (min {})", optional(rival.cpu, hundredths), hundredths(least)),
        None => optional(rival.cpu, hundredths),
    };
    let cases: Vec<_> = threads(report).into_iter().filter(|case| case.name.starts_with("1 to ")).collect();
    by_case("CPU s per million events", &cases, cell, true)
}

/// Returns the table of sleeps and preemptions. Returns `None` if the data has neither.
pub(crate) fn switches(report: &Report) -> Option<String> {
    let cases = threads(report);
    let cell = |rival: &Rival| match rival.sleeps.zip(rival.preemptions) {
        Some((sleeps, preemptions)) => format!("{}, {}", whole(sleeps), whole(preemptions)),
        None => NONE.to_owned(),
    };
    let has_sleeps = cases.iter().flat_map(|case| &case.rows).any(|rival| rival.sleeps.is_some());
    has_sleeps.then(|| by_case("sleeps, preemptions per million events", &cases, cell, false))
}

pub(crate) fn idle(report: &Report) -> String {
    let head = ["waiting for nothing, four readers", "CPU seconds per second", "bytes for a reader"];
    let row = |idle: &Idle| {
        let bytes = idle.bytes_per_reader.map(|bytes| bytes as f64);
        vec![idle.name.clone(), thousandths(idle.cpu), optional(bytes, whole)]
    };
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(report.versus.idle.iter().map(row));
    grid(&rows, Form::Markdown)
}

/// Returns a table with a line for each contender and a column for each section.
fn by_section(head: &str, sections: &[&Section], cell: impl Fn(&Timed) -> Option<String>) -> String {
    let mut first = vec![head.to_owned()];
    first.extend(sections.iter().map(|section| section_name(section)));
    let mut rows = vec![first];
    for contender in sections.first().map_or(&[][..], |section| &section.rows) {
        let of = |section: &&Section| {
            let row = section.rows.iter().find(|row| row.name == contender.name);
            row.and_then(&cell).unwrap_or_else(|| NONE.to_owned())
        };
        let mut row = vec![contender.name.clone()];
        row.extend(sections.iter().map(of));
        rows.push(row);
    }
    grid(&rows, Form::Markdown)
}

pub(crate) fn latency(report: &Report) -> String {
    let cell = |row: &Timed| {
        let latency = row.latency_ns.as_ref()?;
        let (p50, p99) = (middle(Some(&latency.p50), micros), middle(Some(&latency.p99), micros));
        Some(format!("{p50}, {p99}{}", lost(row.lost_share())))
    };
    by_section("µs: p50, p99", &latencies(&report.latency), cell)
}

pub(crate) fn sending(report: &Report) -> String {
    let head = [
        "ns for one event",
        "awake, p50 (min–max), p99",
        "parked, first event, p50, p99",
        "parked, run of 64, p50",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for row in report.latency.sections.iter().flat_map(|section| &section.rows) {
        let Some(awake) = &row.awake_ns else { continue };
        let (first, run) = (row.parked_first_ns.as_ref(), row.parked_run_ns.as_ref());
        let first_p50 = middle(first.map(|first| &first.p50), whole);
        rows.push(vec![
            row.name.clone(),
            format!("{}, {}", spread(&awake.p50, whole), middle(Some(&awake.p99), whole)),
            format!("{first_p50}, {}", middle(first.map(|first| &first.p99), whole)),
            middle(run.map(|run| &run.p50), whole),
        ]);
    }
    grid(&rows, Form::Markdown)
}
