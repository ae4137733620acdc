//! The page, in Markdown.

use std::fmt::Write;

use eventcast_benches::table::{Form, grid};

use crate::cells::{NONE, micros, millions};
use crate::data::{Report, Rounds};
use crate::{recording, tables};

const INTRODUCTION: &str = "\
# Figures

`cargo run --release -p eventcast-benches -- report` made this page. Nobody writes it by hand. The command runs eventcast
beside its rivals on your machine, and adds your machine to the page:

```sh
cargo run --release -p eventcast-benches -- report
cargo run --release -p eventcast-benches -- report --name \"My machine\" --out /tmp/figures
cargo run --release -p eventcast-benches -- render
```

The first command takes about twelve minutes. Let the machine do nothing else meanwhile. The command writes the page,
and into the folder `figures` a data file and three plots for each machine. A data file has every round of every contender. The
second command writes into another folder. The third command measures nothing. It makes page and plots from the data files.

## How to read it

- The contenders take turns within one run, so compare figures within a table. Figures of two machines differ by the
  machine, by its system and by the version of eventcast.
- A figure is the median of its rounds. The brackets have the least and the most of the rounds.
- In the tables of throughput, the number after the comma is the rate of eventcast divided by the rate of the row. Above 1
  the bus is faster. A share behind it says how many of the events the contender lost.
- `1 to 4` means one publisher and four readers, each on a thread. A dash stands for a load that the contender cannot take,
  or for a figure that the data does not have.
- Lines with `inline` are a bus without a dispatcher. `one thread` means that the same thread publishes each event and
  receives it at each watcher. A bus with a dispatcher cannot do that.
- With one reader, the line `crossbeam channel per watcher` is a raw channel between the threads.
- In the tables of latency, the number after the comma is the 99th percentile. A latency counts from the moment at which the
  event was due, so it contains the lateness of the sender.
- Every reader checks number and order of the events. A contender that loses, doubles or reorders an event unnoticed ends
  the program.

[Performance](performance.md) says how each figure is measured, what it means, and which aims were missed.

## Limits

- On a machine with few cores, spinning readers take turns on them. With a core for every thread they do better.
- The readers do nothing with the events. Your handlers take longer, and then the differences between the contenders are
  smaller.
- A virtual machine shares its processor with others. Repeat a run before you rely on a difference of a tenth.
";

pub(crate) fn render(reports: &[Report]) -> String {
    let mut out = INTRODUCTION.to_owned();
    let _ = write!(out, "\n## The machines beside each other\n\n{}", overview(reports));
    for report in reports {
        out.push('\n');
        out.push_str(&machine(report));
    }
    out
}

/// Returns the table of eventcast alone on every machine.
fn overview(reports: &[Report]) -> String {
    let cases: Vec<&str> =
        reports.first().into_iter().flat_map(tables::threads).map(|case| case.name.as_str()).collect();
    let mut head = vec!["eventcast on".to_owned()];
    head.extend(cases.iter().map(|case| format!("{case}, M/s")));
    head.push("one event at a time, p50".to_owned());
    let mut rows = vec![head];
    for report in reports {
        let mut row = vec![format!("{}, {}", report.machine.name, report.date)];
        for case in &cases {
            let same = tables::threads(report).into_iter().find(|other| other.name == *case);
            let ours = same.and_then(|case| case.rows.first()?.rate.median());
            row.push(ours.map_or_else(|| NONE.to_owned(), millions));
        }
        let alone = tables::latencies(&report.latency).into_iter().find(|s| s.events_per_second.is_none());
        let latency = alone.and_then(|section| section.rows.first()?.latency_ns.as_ref());
        let p50 = latency.map(|latency| &latency.p50).and_then(Rounds::median);
        row.push(p50.map_or_else(|| NONE.to_owned(), |nanos| format!("{} µs", micros(nanos))));
        rows.push(row);
    }
    grid(&rows, Form::Markdown)
}

fn machine(report: &Report) -> String {
    let name = &report.machine.name;
    let mut out = format!("## {name}\n\n{}", about(report));
    let mut part = |title: &str, plots: &[(&str, &str)], texts: &[String]| {
        let _ = write!(out, "\n### {title}, {name}\n");
        for (kind, alternative) in plots {
            let _ = write!(out, "\n![{alternative} on {name}](figures/{}-{kind}.svg)\n", report.slug);
        }
        for text in texts {
            let _ = write!(out, "\n{text}");
        }
    };
    let mut throughput = vec![tables::throughput(report), tables::cost(report), tables::of_tasks(report)];
    throughput.extend(tables::of_one_thread(report));
    let plots = [
        ("parking", "Throughput of eventcast and of the contenders that park"),
        ("throughput", "Throughput of all contenders"),
    ];
    part("Throughput", &plots, &throughput);
    part("Waiting", &[], &[tables::idle(report)]);
    let mut latency = vec![tables::latency(report)];
    latency.extend(tables::lateness(report));
    latency.push(tables::sending(report));
    part("Latency", &[("latency", "Latency of all contenders")], &latency);
    part("Recording", &[], &[recording::table(report)]);
    out
}

/// Returns the table of the machine and the run.
fn about(report: &Report) -> String {
    let machine = &report.machine;
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| NONE.to_owned());
    let kernel = machine.kernel.as_deref().unwrap_or_default();
    let commit = machine.commit.as_ref().map(|commit| format!(" at {commit}")).unwrap_or_default();
    let rows = [
        ("machine", machine.name.clone()),
        ("processor", or_none(&machine.processor)),
        ("cores", machine.cores.to_string()),
        ("system", format!("{} {kernel}", machine.system).trim_end().to_owned()),
        ("Rust", or_none(&machine.rust)),
        ("eventcast", or_none(&machine.eventcast) + &commit),
        ("date", report.date.clone()),
        ("command", format!("`{}`", report.command)),
    ];
    let mut out = grid(&rows.map(|(name, value)| vec![name.to_owned(), value]), Form::Markdown);
    if report.quick {
        out.push_str("\nThis run was a trial of seconds. Its figures mean nothing.\n");
    }
    if let Some(source) = &report.source {
        let _ = write!(out, "\n{source}\n");
    }
    out
}
