//! Creates a machine's plots from its data.

use crate::cells::{micros, millions};
use crate::data::{Case, Report, Section, Timed};
use crate::drawing::{Bar, Block, Drawing, Kind, Panel, Scale};
use crate::tables;

/// The number of panels that are drawn next to each other.
const BESIDE: usize = 3;

fn title(what: &str, report: &Report) -> String {
    format!("{what} on {}, {}", report.machine.name, report.date)
}

fn kind(name: &str, manner: &str) -> Kind {
    match manner {
        _ if name.starts_with("eventcast") => Kind::Ours,
        _ if manner.contains("loses") => Kind::Loses,
        _ if manner.contains("parks") => Kind::Parks,
        _ => Kind::Busy,
    }
}

/// Draws the throughput of all contenders.
pub(crate) fn throughput(report: &Report) -> Drawing {
    let block = |cases: &[&Case]| block(cases, &tables::lines(cases));
    rates("Throughput", report, tables::threads(report).chunks(BESIDE).map(block).collect())
}

/// Draws the throughput of eventcast and of the lossless contenders whose threads park while they
/// wait. The contenders are sorted by their rates in the second case.
pub(crate) fn parking(report: &Report) -> Drawing {
    let mut cases = tables::threads(report);
    cases.truncate(BESIDE);
    let mut lines = tables::lines(&cases);
    lines.retain(|(name, manner)| *name == "eventcast" || kind(name, manner) == Kind::Parks);
    let rate = |name: &str| cases.get(1).and_then(|case| tables::rival(case, name)?.rate.median());
    lines.sort_by(|(one, _), (other, _)| {
        rate(other).unwrap_or_default().total_cmp(&rate(one).unwrap_or_default())
    });
    rates("Throughput of lossless contenders that park", report, vec![block(&cases, &lines)])
}

fn rates(what: &str, report: &Report, blocks: Vec<Block>) -> Drawing {
    Drawing {
        title: title(what, report),
        about: "Bar: median of the rounds. Line: least to most. 1 to 4: one publisher, four readers."
            .to_owned(),
        unit: "million deliveries a second".to_owned(),
        scale: Scale::Linear,
        blocks,
    }
}

fn block(cases: &[&Case], lines: &[(&str, &str)]) -> Block {
    let panel = |case: &&Case| Panel {
        title: case.name.clone(),
        bars: lines.iter().map(|(name, _)| rate(case, name)).collect(),
    };
    Block {
        names: lines.iter().map(|(name, manner)| ((*name).to_owned(), kind(name, manner))).collect(),
        panels: cases.iter().map(panel).collect(),
    }
}

fn rate(case: &Case, name: &str) -> Option<Bar> {
    let rate = &tables::rival(case, name)?.rate;
    let median = rate.median()?;
    let (from, to) = rate.spread().unwrap_or((median, median));
    Some(Bar { value: median / 1e6, reach: (from / 1e6, to / 1e6), text: millions(median) })
}

pub(crate) fn latency(report: &Report) -> Drawing {
    let block = |sections: &[&Section]| {
        let rows = sections.first().map_or(&[][..], |section| &section.rows);
        let panel = |section: &&Section| Panel {
            title: tables::section_name(section),
            bars: rows.iter().map(|row| time(section, &row.name)).collect(),
        };
        let name = |row: &Timed| (row.name.clone(), kind(&row.name, &row.manner));
        Block { names: rows.iter().map(name).collect(), panels: sections.iter().map(panel).collect() }
    };
    Drawing {
        title: title("Latency", report),
        about: "Bar and first number: p50. Line and second number: p99. Each is the median of the rounds."
            .to_owned(),
        unit: "microseconds, logarithmic".to_owned(),
        scale: Scale::Log,
        blocks: tables::latencies(&report.latency).chunks(BESIDE).map(block).collect(),
    }
}

fn time(section: &Section, name: &str) -> Option<Bar> {
    let latency = section.rows.iter().find(|row| row.name == name)?.latency_ns.as_ref()?;
    let p50 = latency.p50.median()?;
    let p99 = latency.p99.median().unwrap_or(p50);
    let text = format!("{} / {}", micros(p50), micros(p99));
    Some(Bar { value: p50 / 1e3, reach: (p50 / 1e3, p99 / 1e3), text })
}
