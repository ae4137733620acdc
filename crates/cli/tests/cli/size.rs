//! Tests of the `size` command.
#![cfg(feature = "analysis")]

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::support::output;
use super::support::running::{self, Ended, Running};

fn start(args: &[&str]) -> Running {
    Running::start(&[&["size"], args].concat())
}

/// Returns the output lines of a run, which must succeed.
fn lines_of(args: &[&str]) -> Vec<String> {
    running::lines(&start(args).end())
}

/// Returns the JSON document of a run, which must succeed.
fn figures(args: &[&str]) -> Value {
    document(&start(&[args, &["--json"]].concat()).end())
}

fn document(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{}\n{:#?}", ended.stdout, ended.stderr);
    assert_eq!(ended.stderr, ["publishing, press Ctrl-C to stop early"], "no progress where no terminal is");
    serde_json::from_str(&ended.stdout).expect("one document")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

fn watcher<'v>(run: &'v Value, name: &str) -> &'v Value {
    let watchers = run["watchers"].as_array().expect("watchers");
    watchers.iter().find(|watcher| watcher["name"] == name).unwrap_or_else(|| panic!("no {name} in {run:#}"))
}

/// Checks that the figures in the document account for every published event.
fn assert_adds_up(run: &Value) {
    assert_eq!((&run["addsUp"], run["faults"].as_array().map(Vec::len)), (&true.into(), Some(0)), "{run:#}");
    let publisher = &run["publisher"];
    let [published, accepted, refused] =
        ["published", "accepted", "refused"].map(|name| number(&publisher[name]));
    assert_eq!(published, accepted + refused, "{publisher}");
    for watcher in run["watchers"].as_array().expect("watchers") {
        let [offered, delivered, queued, lost, longest] =
            ["offered", "delivered", "queued", "lost", "longestGap"].map(|name| number(&watcher[name]));
        let dropped = &watcher["dropped"];
        let [incoming, oldest, timed_out, stopped, abandoned] =
            ["incoming", "oldest", "timedOut", "stopped", "abandoned"].map(|name| number(&dropped[name]));
        assert_eq!(offered, accepted, "{watcher:#}");
        assert_eq!(lost, incoming + oldest + timed_out, "{watcher:#}");
        assert_eq!(number(&dropped["total"]), lost + stopped + abandoned, "{watcher:#}");
        assert_eq!(offered, delivered + number(&dropped["total"]) + queued, "{watcher:#}");
        assert!(number(&watcher["highWater"]) <= number(&watcher["queue"]), "{watcher:#}");
        assert!(longest <= offered && (longest > 0) == (number(&watcher["gaps"]) > 0), "{watcher:#}");
        assert_eq!(watcher["firstLoss"].is_null(), lost == 0, "{watcher:#}");
        // The last event may have been interrupted by the end of the run.
        assert!(watcher["latencyUs"].is_null() == (delivered == 0) || delivered == 1, "{watcher:#}");
    }
}

/// Arguments for a single burst to handlers that take far longer than the burst itself.
const BURST: [&str; 6] = ["--burst", "200", "--every", "1h", "--for", "50ms"];

#[test]
fn a_queue_as_long_as_the_burst_loses_nothing_and_a_shorter_one_does() {
    let watchers = [
        "--watchers=1:name=long,queue=200,handler=5ms",
        "--watchers=1:name=short,queue=50,handler=5ms",
        "--watchers=1:name=newest,queue=50,handler=5ms,policy=drop_oldest",
        "--watchers=1:name=limited,queue=50,handler=5ms,policy=wait_for:1ms",
    ];
    let run = figures(&[&BURST[..], &watchers, &["--grace", "60s"]].concat());
    assert_adds_up(&run);
    assert_eq!((number(&run["publisher"]["published"]), &run["interrupted"]), (200, &false.into()));
    let (long, short, newest) = (watcher(&run, "long"), watcher(&run, "short"), watcher(&run, "newest"));
    assert_eq!((number(&long["lost"]), &long["enough"]["basis"]), (0, &"held".into()));
    assert_eq!(number(&long["enough"]["queue"]), number(&long["highWater"]));
    assert_eq!(number(&long["delivered"]), 200);
    // Each handler needs a second for all events, and the publisher needs much less time.
    for (watcher, reason) in [(short, "incoming"), (newest, "oldest"), (watcher(&run, "limited"), "timedOut")]
    {
        let (lost, first) = (number(&watcher["lost"]), &watcher["firstLoss"]);
        assert!(lost > 20, "{watcher:#}");
        assert_eq!(number(&watcher["dropped"][reason]), lost, "{watcher:#}");
        assert_eq!(first["reason"].as_str().expect("a reason").replace("timed out", "timedOut"), reason);
        assert_eq!(number(&watcher["highWater"]), 50);
        assert!((51..=200).contains(&number(&watcher["enough"]["queue"])), "{watcher:#}");
    }
    assert!(number(&short["firstLoss"]["event"]) > 50 && number(&newest["firstLoss"]["event"]) <= 150);
    // If the publisher is delayed in the middle of its burst, there are two bursts. The text then
    // describes the larger burst.
    let (why, rush) = (short["firstLoss"]["why"].as_str().expect("a reason"), &short["firstLoss"]["rush"]);
    assert!((51..=200).contains(&number(&rush["events"])), "{rush:#}");
    let begins = format!("{} events came within ", rush["events"]);
    assert!(why.starts_with(&begins) && why.ends_with("the queue holds 50"), "{why}");
}

#[test]
fn who_is_waited_for_loses_nothing() {
    let args = ["--policy", "wait", "--queue", "50", "--handler", "5ms", "--grace", "60s"];
    let run = figures(&[&BURST[..], &args].concat());
    assert_adds_up(&run);
    let watcher = watcher(&run, "watcher");
    assert_eq!((number(&watcher["lost"]), number(&watcher["delivered"])), (0, 200));
    assert_eq!(watcher["enough"]["basis"], "waited", "{watcher:#}");
    assert!(number(&watcher["enough"]["queue"]) > 50, "{watcher:#}");
}

#[test]
fn the_answer_is_enough() {
    let lost_and_enough = |queue: u64| {
        let args = ["--queue", &queue.to_string(), "--handler", "20ms", "--grace", "200ms"];
        let run = figures(&[&BURST[..], &args].concat());
        assert_adds_up(&run);
        let watcher = watcher(&run, "watcher");
        (number(&watcher["lost"]), number(&watcher["enough"]["queue"]))
    };
    let (lost, enough) = lost_and_enough(20);
    assert!(lost > 100, "{lost}");
    // The required length counts all events except those that the handler could have finished
    // before the last event arrived.
    assert!((150..=200).contains(&enough), "{enough}");
    let (lost, _) = lost_and_enough(enough);
    assert!(lost <= 200 - enough, "{lost} with {enough}");
}

#[test]
fn a_handler_that_is_too_slow_overflows_every_queue() {
    let args =
        ["--rate", "2000", "--for", "200ms", "--queue", "30", "--handler", "exp:40ms", "--grace", "1ms"];
    let run = figures(&args);
    assert_adds_up(&run);
    let watcher = watcher(&run, "watcher");
    assert!(watcher["utilisation"].as_f64().expect("a utilisation") > 10.0);
    assert!(number(&watcher["lost"]) > 0 && number(&watcher["dropped"]["abandoned"]) > 0, "{watcher:#}");
    assert_eq!((&run["complete"], &watcher["enough"]["basis"]), (&false.into(), &"grows".into()));
    let told = |list: &str, part: &str| {
        let list = run[list].as_array().expect("sentences");
        assert!(list.iter().any(|line| line.as_str().is_some_and(|line| line.contains(part))), "{list:#?}");
    };
    told("learned", "no queue is long enough");
    told("warnings", "abandoned them (--grace)");
}

/// While the dispatcher is waiting for the handler, more events are published than fit into the
/// bus's incoming queue.
const REFUSED: [&str; 6] =
    ["--burst=5000", "--every=1h", "--for=20ms", "--incoming=8", "--policy=wait", "--handler=20ms"];

#[test]
fn refusals_of_a_full_bus_are_reported() {
    let run = figures(&[&REFUSED[..], &["--queue=1", "--grace=0s"]].concat());
    assert_adds_up(&run);
    let (bus, refused) = (&run["bus"], number(&run["publisher"]["refused"]));
    assert!(refused > 0, "{run:#}");
    assert_eq!((number(&bus["queue"]), number(&bus["refused"])), (8, refused), "{bus}");
    assert_eq!(bus["enough"]["basis"], "atLeast", "{bus}");
    // Each accepted event ends a sequence of refused events, so the longest sequence contains at
    // least this many events.
    let row = refused.div_ceil(number(&run["publisher"]["accepted"]) + 1);
    assert!((8 + row..=8 + refused).contains(&number(&bus["enough"]["queue"])), "{run:#}");
    assert!(run["warnings"].to_string().contains("its own queue of 8 was full"), "{run:#}");
    assert!(run["learned"].to_string().contains("and all watchers share the loss"), "{run:#}");
    assert!(!run["learned"].to_string().contains("Nothing was lost"), "{run:#}");

    let run = figures(&["--burst=10", "--every=1h", "--for=1ms", "--handler=1us"]);
    assert_eq!((number(&run["bus"]["refused"]), &run["bus"]["enough"]), (0, &Value::Null), "{run:#}");
}

#[test]
fn a_queue_of_the_bus_that_was_too_short_is_the_first_answer() {
    let args = [&REFUSED[..], &["--queue=1", "--grace=0s"]].concat();
    let text = lines_of(&args).join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    let (head, watcher) = text.split_once(" watcher: ").expect("an answer for the watcher");
    let begins = "How long must the queue be, as far as this run can tell? --incoming: ";
    assert!(head.starts_with(begins), "{head}");
    assert!(head.contains(" or more would have been needed. The bus's own queue of 8 refused "), "{head}");
    assert!(head.contains("The bus waited for 'watcher': lengthen that queue or --incoming first"), "{head}");
    assert!(watcher.contains(" would have been enough for the accepted events. "), "{watcher}");

    let sweep = [&REFUSED[..], &["--sweep=queue=1..2", "--points=2", "--grace=0s"]].concat();
    let document = figures(&sweep);
    let points = document["points"].as_array().expect("points").iter();
    let worst = points.map(|point| number(&point["run"]["bus"]["refused"])).max().expect("two points");
    assert_eq!((number(&document["bus"]["queue"]), number(&document["bus"]["refused"])), (8, worst));
    let lines = lines_of(&sweep);
    assert!(lines[1].starts_with("--incoming: "), "{lines:#?}");
    assert!(lines[1..4].join(" ").contains("refused events in 2 of 2"), "{lines:#?}");
}

#[test]
fn random_times_are_answered_for_several_seeds() {
    // With a single burst, only a few events can be handled before the last event is published,
    // regardless of the seed.
    let args = [&BURST[..], &["--queue=200", "--handler=exp:5ms", "--grace=0s"]].concat();
    let run = figures(&[&args[..], &["--seed=4", "--seeds=7"]].concat());
    let enough = &watcher(&run, "watcher")["enough"];
    let seeds = &enough["seeds"];
    let [least, median, most, seed] =
        ["least", "median", "most", "mostSeed"].map(|name| number(&seeds[name]));
    assert!(0 < least && least <= median && median <= most && most <= 200, "{enough}");
    assert_eq!((number(&seeds["count"]), number(&seeds["oneMoreIn"])), (7, 8), "{enough}");
    assert!((4..11).contains(&seed) && number(&enough["queue"]) >= most, "{enough}");

    let lines = lines_of(&[&args[..], &["--seeds=7"]].concat());
    let text = lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(" would have been enough with each of 7 seeds. They need "), "{text}");
    assert!(text.contains("about one run in 8 with yet another seed needs more"), "{text}");

    let usual = figures(&args);
    assert_eq!(number(&watcher(&usual, "watcher")["enough"]["seeds"]["count"]), 99, "{usual:#}");
    let fixed = figures(&[&BURST[..], &["--handler=5ms", "--grace=0s", "--seeds=7"]].concat());
    assert_eq!(watcher(&fixed, "watcher")["enough"]["seeds"], Value::Null, "{fixed:#}");
}

#[test]
fn the_four_usual_watchers_are_described_in_words() {
    let lines = lines_of(&["--for", "400ms"]);
    assert_eq!(lines[0], "How long must the queue be, as far as this run can tell?");
    for (line, name) in lines[1..].iter().zip(["base: ", "longer: ", "faster: ", "newest: "]) {
        assert!(line.starts_with(name) && line.contains(" would have been "), "{name}: {lines:#?}");
    }
    // The run takes longer if the publisher is late.
    assert!(lines[6].starts_with("bursts of 300 every 100ms for "), "{lines:#?}");
    for name in ["base ", "longer ", "faster ", "newest "] {
        assert_eq!(lines.iter().filter(|line| line.starts_with(name)).count(), 3, "{name}: {lines:#?}");
    }
    let text = lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "base: dropped incoming ",
        "newest: dropped oldest ",
        "everything adds up: published ",
        "What this run shows: - 'longer' has a queue of 300 instead of 200: it lost ",
        "- 'faster' has a handler of fixed:100us instead of fixed:200us: it lost ",
        "- 'newest' has the policy 'drop_oldest' instead of 'drop_incoming': it lost ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:#?}");
}

#[test]
fn names_are_escaped() {
    let spec = "--watchers=1:name=a\u{1b}[2J\r<b>&\u{202e},queue=1,handler=5ms";
    let lines = lines_of(&[&BURST[..], &[spec]].concat());
    assert!(lines.iter().any(|line| line.starts_with(r"a\u{1b}[2J\r<b>&\u{202e}: dropped ")), "{lines:#?}");
    assert!(!lines.concat().contains(['\u{1b}', '\r', '\u{202e}']), "{lines:#?}");
}

#[test]
fn a_sweep_is_a_table_and_a_drawing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("loss.svg");
    let file_name = file.to_str().unwrap();
    let common =
        ["--burst=100", "--every=1h", "--for=20ms", "--handler=5ms", "--grace=60s", "--output", file_name];
    let args =
        [&common[..], &["--sweep", "queue=5..500", "--points=3", "--watchers=2:name=<&\"\u{1b}>"]].concat();
    let run = figures(&args);
    let svg = std::fs::read_to_string(&file).unwrap();
    let points = run["points"].as_array().expect("points");
    let values: Vec<u64> = points.iter().map(|point| number(&point["value"])).collect();
    assert_eq!((values, &run["unit"], &run["addsUp"]), (vec![5, 50, 500], &"events".into(), &true.into()));
    for point in points {
        assert_adds_up(&point["run"]);
        for watcher in point["run"]["watchers"].as_array().expect("watchers") {
            assert_eq!(watcher["queue"], point["value"]);
            assert_eq!(number(&watcher["lost"]) == 0, watcher["queue"] == 500, "{watcher:#}");
        }
    }
    for text in [
        "bursts of 100 every",
        "length of the queue, events",
        "latency, ms",
        "burst: 100",
        r"p99 of &lt;&amp;&quot;\u{1b}&gt;-2",
        // The following two labels are the ends of the x axis.
        "\n5\n",
        "\n500\n",
    ] {
        assert!(svg.contains(text), "{text}: {svg}");
    }
    assert!(!svg.contains('\u{1b}'), "{svg}");

    let args = [&common[..], &["--sweep", "handler=10us..1ms", "--points=2", "--queue=100"]].concat();
    let lines = lines_of(&args);
    let head = lines.iter().position(|line| line.starts_with("HANDLER  UTIL  ")).expect("a head");
    let rows: Vec<Vec<&str>> =
        lines[head + 1..head + 5].iter().map(|line| line.split_whitespace().collect()).collect();
    let shown: Vec<_> = rows.iter().map(|row| (row[0], row[2], row[3], row.len())).collect();
    let (incoming, oldest) = ("drop_incoming", "drop_oldest");
    assert_eq!(
        shown,
        [
            ("10us", incoming, "100", 9),
            ("10us", oldest, "100", 9),
            ("1ms", incoming, "100", 9),
            ("1ms", oldest, "100", 9),
        ]
    );
    assert_eq!(lines.last().expect("a last line"), "everything adds up, in each of 2 runs");
}

/// Collects all field names in a document, including those in nested lists and objects.
fn names(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|value| names(value, found)),
        Value::Object(map) => map.iter().for_each(|(name, value)| {
            found.insert(name.clone());
            names(value, found);
        }),
        _ => {}
    }
}

#[test]
fn every_name_for_machines_is_in_the_document() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/performance.md");
    let text = std::fs::read_to_string(path).unwrap();
    let section = text
        .split("\n## ")
        .find(|section| section.starts_with("The length of a queue"))
        .expect("the section");
    let documented: BTreeSet<&str> = section
        .split('`')
        .skip(1)
        .step_by(2)
        .flat_map(|name| name.split('.'))
        .map(|name| name.trim_end_matches("[]"))
        .collect();
    let args = ["--handler=5ms", "--grace=0s", "--sweep=queue=1..2", "--points=2"];
    let mut found = BTreeSet::new();
    names(&figures(&[&BURST[..], &args].concat()), &mut found);
    names(&figures(&["--burst=9", "--for=1ms", "--handler=exp:1us", "--queue=9"]), &mut found);
    assert!(found.len() > 50, "{found:?}");
    for name in found {
        assert!(documented.contains(name.as_str()), "docs/performance.md does not tell of {name}");
    }
}

#[cfg(unix)]
#[test]
fn at_a_signal_it_reports_what_it_has() {
    let signalled = |args: &[&str]| {
        let mut program = start(args);
        program.wait_for(|line| line.starts_with("publishing"));
        program.signal(rustix::process::Signal::INT);
        program.end()
    };
    let run = document(&signalled(&["--for", "1h", "--rate", "2000", "--json"]));
    assert_adds_up(&run);
    assert_eq!(run["interrupted"], true);
    let args = ["--for", "1h", "--rate", "2000", "--sweep", "queue=1..9", "--json"];
    let sweep = document(&signalled(&args));
    assert_eq!((&sweep["interrupted"], sweep["points"].as_array().map(Vec::len)), (&true.into(), Some(0)));
    assert_eq!((number(&sweep["bus"]["queue"]), &sweep["bus"]["enough"]), (1000, &Value::Null), "{sweep}");
}

/// Invalid arguments, each with a part of the error message.
const WRONG: [(&[&str], &str); 37] = [
    (&["--nonsense"], "unexpected argument '--nonsense' found"),
    (&["more"], "unexpected argument 'more' found"),
    (&["--rate", "0"], "--rate must be a number from 1 to 10000000, got '0'"),
    (&["--rate=99999999999999999999"], "--rate must be a number from 1 to 10000000, got '9999"),
    (&["--burst=0"], "--burst must be a number from 1 to 1000000, got '0'"),
    (&["--burst=1", "--every=0s"], "--every must be more than 0s, got '0s'"),
    (&["--every=1s"], "--every requires --burst, as in --burst 300"),
    (&["--for", "0ms"], "--for must be more than 0s, got '0ms'"),
    (&["--for=2h"], "--for must be at most 1h, got 2h"),
    (&["--for", "1h", "--rate=10000000"], "a run must be at most 20,000,000 events, got 36000000000 of "),
    (&["--burst=1000000", "--every=1us"], "a run must be at most 20,000,000 events, got "),
    (&["--incoming=0"], "--incoming must be a number from 1 to 16777216, got '0'"),
    (&["--queue=0"], "--queue must be a number from 1 to 16777216, got '0'"),
    (
        &["--policy", "drop"],
        "--policy must be drop_incoming, drop_oldest, wait or wait_for:DURATION, got 'drop'",
    ),
    (
        &["--policy=wait_for:5"],
        "the time of --policy wait_for must be a duration such as 250ms or 1m30s, got '5'",
    ),
    (&["--policy"], "a value is required for '--policy <POLICY>'"),
    (
        &["--handler=fast"],
        "--handler: the time must be a duration such as 250ms or 1m30s, got 'fast' in 'fast': use a time up to 60s",
    ),
    (
        &["--handler=gauss:1us"],
        "uniform, exp or pareto, got 'gauss' in 'gauss:1us': use a time up to 60s, as in 20us",
    ),
    (&["--handler=uniform:2us..1us"], "the range must be ascending"),
    (&["--watchers=0"], "the count must be a number from 1 to 256, got '0'"),
    (&["--watchers=3:queue"], "missing '=' in 'queue' in '3:queue': use a count"),
    (&["--watchers=3:lenght=4"], "the setting must be name, queue, policy or handler, got 'lenght'"),
    (&["--watchers=1:queue=16777217"], "queue must be a number from 1 to 16777216, got '16777217'"),
    (
        &["--watchers=1:policy=block"],
        "policy must be drop_incoming, drop_oldest, wait or wait_for:DURATION, got 'block'",
    ),
    (
        &["--watchers=1:handler=1"],
        "--watchers: the time must be a duration such as 250ms or 1m30s, got '1' in '1'",
    ),
    (&["--watchers=1:name="], "name must be non-empty, without NUL characters"),
    (&["--watchers=1:name=a", "--watchers=1:name=a"], "--watchers must have unique names, got 'a' twice"),
    (&["--watchers=200", "--watchers=100"], "--watchers must be at most 256 in all, got 300"),
    (&["--sweep=queue=9..1"], "the range must be ascending in 'queue=9..1': use queue=10..10000"),
    (&["--sweep=rate=1..9"], "the setting must be queue or handler, got 'rate'"),
    (&["--sweep=queue=1..9", "--points=1"], "--points must be a number from 2 to 64, got '1'"),
    (&["--points=3"], "--points requires --sweep, as in --sweep queue=10..10000"),
    (&["-o", "x.svg"], "--output requires --sweep"),
    (&["--sweep=queue=1..9", "--output=-"], "--output must be a file, got '-': the table goes to stdout"),
    (&["--grace=soon"], "--grace must be a duration such as 250ms or 1m30s, got 'soon'"),
    (&["--seed=-1"], "--seed must be a number from 0 to"),
    (&["--seeds=0"], "--seeds must be a number from 1 to 1000, got '0'"),
];

#[test]
fn errors_explain_the_cause_and_the_allowed_values() {
    for (args, expected) in WRONG {
        let ended = output::run(&[&["size"], args].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{args:?}: {}", ended.stderr);
    }
}
