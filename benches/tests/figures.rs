//! Checks each measured figure in the README and in the chapter Choose against the data files.

use std::fs;
use std::path::{Path, PathBuf};

use eventcast_benches::table::median;
use serde_json::Value;

fn documents() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("docs")
}

/// The results of one machine.
struct Machine(Value);

impl Machine {
    fn named(slug: &str) -> Self {
        let text = fs::read_to_string(documents().join(format!("figures/{slug}.json"))).unwrap();
        Self(serde_json::from_str(&text).unwrap())
    }

    /// Returns the entry of a list whose field begins with the given text.
    fn entry<'v>(list: &'v Value, field: &str, text: &str) -> &'v Value {
        let mut entries = list.as_array().unwrap().iter();
        let entry = entries.find(|entry| entry[field].as_str().unwrap().starts_with(text));
        entry.unwrap_or_else(|| panic!("no {field} begins with {text:?}"))
    }

    fn middle(rounds: &Value) -> f64 {
        match rounds.as_array() {
            Some(rounds) => median(&rounds.iter().map(|figure| figure.as_f64().unwrap()).collect::<Vec<_>>()),
            None => rounds["median"].as_f64().unwrap(),
        }
    }

    /// Returns a contender's row in a case.
    fn contender(&self, case: &str, name: &str) -> &Value {
        let cases = self.0["versus"]["cases"].as_array().unwrap();
        let case = cases.iter().find(|entry| entry["case"] == *case).unwrap();
        assert!(case["disturbance"].is_null(), "{case}");
        Self::entry(&case["rows"], "name", name)
    }

    /// Returns a contender's rate in a case, in deliveries per second.
    fn rate(&self, case: &str, name: &str) -> f64 {
        Self::middle(&self.contender(case, name)["deliveries_per_second"])
    }

    /// Returns the median of a row of times in a part, in nanoseconds.
    fn time(&self, part: &str, name: &str, times: &str) -> f64 {
        let section = Self::entry(&self.0["latency"]["sections"], "part", part);
        assert!(section["disturbance"].is_null(), "{section}");
        Self::middle(&Self::entry(&section["rows"], "name", name)[times]["p50"])
    }

    /// Returns the number of bytes that another reader takes.
    fn bytes(&self, name: &str) -> u64 {
        Self::entry(&self.0["versus"]["idle"], "name", name)["bytes_per_reader"].as_u64().unwrap()
    }
}

/// Formats a rate as in the documents.
fn millions(rate: f64) -> String {
    let rate = rate / 1e6;
    if rate < 20.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

const ALONE: &str = "One event at a time";
const SENDING: &str = "What it costs to send";

/// Checks that the document has all passages, and that nothing else in it looks like a measured
/// figure. `others` are passages with numbers that are not measured.
fn check(document: &str, passages: &[String], others: &[&str]) {
    let path = documents().with_file_name("").join(document);
    let text = fs::read_to_string(&path).unwrap();
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for passage in passages.iter().map(String::as_str).chain(others.iter().copied()) {
        assert!(text.contains(passage), "{document} must have the figures of the data files: {passage:?}");
        text = text.replace(passage, "");
    }
    let words: Vec<_> = text.split(' ').collect();
    let units = ["M/s", "µs", "ns", "times"];
    for pair in words.windows(2) {
        let unit = pair[1].trim_matches(|c: char| !c.is_alphabetic() && c != '/');
        let is_figure = units.contains(&unit) && pair[0].ends_with(|c: char| c.is_ascii_digit());
        assert!(!is_figure, "no data file has this figure in {document}: {} {}", pair[0], pair[1]);
    }
}

#[test]
fn the_readme_has_the_figures_of_the_data_files() {
    let epyc = Machine::named("amd-epyc");
    let passages = [
        format!(
            "A single event reaches a sleeping reader {:.1} µs after",
            epyc.time(ALONE, "eventcast handler", "latency_ns") / 1e3
        ),
        format!(
            "a crossbeam channel is up to {:.1} times as fast",
            epyc.rate("1 to 1", "crossbeam") / epyc.rate("1 to 1", "eventcast")
        ),
    ];
    check("README.md", &passages, &[]);
}

#[test]
fn choose_has_the_figures_of_the_data_files() {
    let (xeon, epyc) = (Machine::named("intel-xeon"), Machine::named("amd-epyc"));
    let rate = |case: &str, name: &str| millions(xeon.rate(case, name));
    let cpu = |case: &str| {
        let row = xeon.contender(case, "eventcast");
        format!("{:.2}", row["cpu_seconds_per_million_events"].as_f64().unwrap())
    };
    let alone = |name: &str| format!("{:.1}", xeon.time(ALONE, name, "latency_ns") / 1e3);
    let sending = |name: &str, times: &str| xeon.time(SENDING, name, times);
    // The best of the contenders that lose nothing and whose readers sleep until woken.
    let ahead = |machine: &Machine, case: &str| {
        let parking = ["crossbeam", "flume", "kanal", "crossfire", "async-broadcast", "postage"];
        let best = parking.map(|name| machine.rate(case, name)).into_iter().fold(0.0, f64::max);
        machine.rate(case, "eventcast") / best
    };
    let passages = [
        format!(
            "as fast as the bus on an Intel Xeon and {:.1} times as fast on an AMD EPYC",
            epyc.rate("1 to 1", "crossbeam") / epyc.rate("1 to 1", "eventcast")
        ),
        format!(
            "The bus delivered {} M/s from one publisher to one watcher, {} M/s to four watchers and {} M/s to \
             sixteen with `recv_batch` ({} M/s with `recv`, which clones), and {} M/s from four publishers to one \
             watcher.",
            rate("1 to 1", "eventcast"),
            rate("1 to 4", "eventcast"),
            rate("1 to 16", "eventcast"),
            rate("1 to 16", "eventcast, recv (64"),
            rate("4 to 1", "eventcast"),
        ),
        format!(
            "{} M/s from one publisher to one reader, {} M/s from four. A single event takes {} µs (on the bus, {} µs)",
            rate("1 to 1", "crossbeam"),
            rate("4 to 1", "crossbeam"),
            alone("crossbeam channel, one hop"),
            alone("eventcast handler"),
        ),
        format!("With a channel for each of sixteen readers, {} M/s", rate("1 to 16", "crossbeam")),
        format!(
            "{} M/s from one publisher to one reader, {} M/s from four. Supports threads and tasks",
            rate("1 to 1", "crossfire"),
            rate("4 to 1", "crossfire")
        ),
        format!("but {} M/s to sixteen readers", rate("1 to 16", "crossfire")),
        format!("Another reader takes {} bytes | a slow reader", xeon.bytes("tokio")),
        format!(
            "Sixteen readers get {} M/s, with {:.0} % lost",
            rate("1 to 16", "tokio"),
            100.0 * xeon.contender("1 to 16", "tokio")["lost"].as_f64().unwrap()
        ),
        format!("Another reader takes {} bytes | all readers", xeon.bytes("async-broadcast")),
        format!("Sixteen readers get {} M/s |", rate("1 to 16", "async-broadcast")),
        format!("Four readers get {} M/s | supports one publisher", rate("1 to 4", "bus")),
        format!("{} M/s to one reader | supports", rate("1 to 1", "rtrb")),
        format!(
            "{} to {} M/s to one spinning reader",
            rate("1 to 1", "disruptor, busy"),
            rate("1 to 1", "disruptor, spin")
        ),
        format!("Four readers spinning on two cores get {} M/s", rate("1 to 4", "disruptor, busy")),
        format!("with sixteen readers ({} M/s)", rate("1 to 16", "photon-ring bounded")),
        format!("Four readers get {} M/s. Runs without", rate("1 to 4", "photon-ring bounded")),
        format!(
            "{:.2} times as many events to four readers, and {:.1} times as many to sixteen, as the best alternative \
             whose readers sleep until woken (on the EPYC, {:.2} and {:.1} times)",
            ahead(&xeon, "1 to 4"),
            ahead(&xeon, "1 to 16"),
            ahead(&epyc, "1 to 4"),
            ahead(&epyc, "1 to 16")
        ),
        format!(
            "A million events take {} s with one watcher and {} s with sixteen",
            cpu("1 to 1"),
            cpu("1 to 16")
        ),
        format!(
            "{:.0} ns while the dispatcher is awake. While it sleeps, {:.1} µs if the publisher can deliver directly \
             to an awake reader, {:.0} µs if a thread must be woken",
            sending("eventcast try_publish", "awake_ns"),
            sending("eventcast try_publish", "parked_first_ns") / 1e3,
            sending("eventcast, no direct delivery", "parked_first_ns") / 1e3
        ),
        format!(
            "received {} M/s of 64-byte events in an `Arc`, and {} M/s by value",
            rate("1 to 1", "eventcast, recv of Arc"),
            rate("1 to 1", "eventcast, recv (64")
        ),
    ];
    let others = ["may need 12 times the event's size on the stack, 48 times in a debug build"];
    check("docs/book/choose.md", &passages, &others);
}
