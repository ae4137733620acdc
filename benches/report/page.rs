//! Generates the page in Markdown.

use std::fmt::Write;

use eventcast_benches::table::{Form, grid};

use crate::cells::{NONE, micros, millions};
use crate::data::{Report, Rounds};
use crate::{recording, tables};

const INTRODUCTION: &str = "\
# Figures

`cargo run --release -p eventcast-benches -- report` generates this page, so do not edit it by hand. The command
benchmarks eventcast against its rivals on your machine and adds your machine to the page:

```sh
cargo run --release -p eventcast-benches -- report
cargo run --release -p eventcast-benches -- report --name \"My machine\" --out /tmp/figures
cargo run --release -p eventcast-benches -- render
```

The first command takes about half an hour, during which the machine must do nothing else. It writes this page, and
three plots and a data file with each round of each contender to the folder `figures`. The second command writes to
another folder. The third command recreates the page and the plots from the data files.

## How to read it

- The contenders take turns within one run, so compare figures within a table. [Performance](performance.md) explains
  how each figure is measured.
- Each figure is the median of its rounds, with the minimum and maximum in brackets where they are shown. The data files
  have the rest: the spread of each latency, how late the senders were, and the processor time of each thread.
- If the programs judged the machine, figures are shown only if it was quiet: a load average below 0.3 before the
  program, less than 1 % of stolen time and 2 % of time used by other programs during it, and at most 3 % between the
  medians of the odd and the even rounds of the table's first contender (`two hops` for latencies). A contender has at
  least six or seven rounds, and up to three times as many, until its ratio to the first contender is known to 10 % with
  a confidence of 95 %.
- A contender with fewer rounds than the first one may have missed a slow phase of the machine. The data files therefore
  have the ratio of both rates in the same rounds (`ours_to_this`), with its interval.
- Each sleep ends with one wake-up. A yield to another thread counts as a preemption.
- `1 to 4` means one publisher and four readers, each on its own thread. A dash marks a load that the contender cannot
  handle, or a missing figure.
- `inline` marks a bus without a dispatcher. `one thread` means that the thread that publishes each event also receives
  it at each watcher, which a bus with a dispatcher cannot do.
- With one reader, `crossbeam channel per watcher` is a raw channel between the threads.
- Latency is measured from the time when the event was due, so it includes the delay of a late sender.
- Every reader checks the number and order of the events. If a contender loses, duplicates or reorders an event
  unnoticed, the program ends.
- Spinning readers do better on a machine with a core for every thread. Your handlers take longer than these readers,
  which do nothing with the events, so the contenders will differ less. On a virtual machine, repeat a run before you
  rely on a difference of a tenth.
";

pub(crate) fn render(reports: &[Report]) -> String {
    let mut out = INTRODUCTION.to_owned();
    let _ = write!(out, "\n## Comparison of the machines\n\n{}", overview(reports));
    for report in reports {
        out.push('\n');
        out.push_str(&machine(report));
    }
    out
}

/// Returns the table with eventcast's figures on every machine.
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
    let mut throughput = vec![tables::throughput(report), tables::cost(report)];
    throughput.extend(tables::switches(report));
    throughput.push(tables::of_tasks(report));
    throughput.extend(tables::of_one_thread(report));
    let plots = [
        ("parking", "Throughput of eventcast and of the contenders that park"),
        ("throughput", "Throughput of all contenders"),
    ];
    part("Throughput", &plots, &throughput);
    part("Waiting", &[], &[tables::idle(report)]);
    let latency = [tables::latency(report), tables::sending(report)];
    part("Latency", &[("latency", "Latency of all contenders")], &latency);
    part("Recording", &[], &[recording::table(report)]);
    out
}

/// Returns the table that describes the machine and the run.
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
    if report.versus.conditions.is_none() {
        out.push_str("\nThe programs did not yet judge whether the machine was quiet.\n");
    }
    if !report.hidden.is_empty() {
        out.push_str("\nThe following figures are missing, because the machine was not quiet:\n\n");
    }
    for (part, reason) in &report.hidden {
        let _ = writeln!(out, "- {part}: {reason}");
    }
    out
}
