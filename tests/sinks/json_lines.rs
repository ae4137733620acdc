//! The JSON lines sink, tested with files and with failing outputs.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use eventcast::record::RecordingBuilder;
use eventcast::sink::{
    JsonLinesOptions, JsonLinesSink, SinkBatch, SinkErrorKind, SinkOp, Stored, WriteOrder,
};
use eventcast::stats::JsonLinesStats;
use eventcast::testing::FakeClock;
use eventcast::{Event, EventBroadcaster, EventSink};
use tempfile::tempdir;
use test_support::LONG;

use crate::lines::{FILE, create, event, files, files_in, line, pairs, read};
use crate::support::{at_once, contents, record};

#[test]
fn each_operation_appends_the_whole_event() {
    let folder = tempdir().unwrap();
    let sink = JsonLinesSink::open(folder.path().join(FILE)).unwrap();
    let patched = event("a", 3);
    let ops = [
        SinkOp::Create(event("a", 1)),
        SinkOp::Update(event("a", 2)),
        SinkOp::Patch(patched),
        // It does not matter whether a name is already taken or missing.
        SinkOp::Create(event("a", 4)),
        SinkOp::Update(event("b", 5)),
    ];
    let answers = SinkBatch::perform(ops.to_vec(), &sink);
    for (op, answer) in ops.iter().zip(&answers) {
        assert_eq!(answer.as_ref().unwrap(), &Stored::from(op.event()));
    }
    let text = fs::read(folder.path().join(FILE)).unwrap();
    assert_eq!(
        read(&text),
        [1, 2, 3, 4]
            .map(|count| ("a".to_owned(), count))
            .into_iter()
            .chain([("b".to_owned(), 5)])
            .collect::<Vec<_>>()
    );
    let stats = sink.stats();
    assert_eq!((stats.lines, stats.bytes, stats.rotations), (5, text.len() as u64, 0));
    assert_eq!(stats.to_string(), format!("lines 5, bytes {}, rotations 0, failed rotations 0", text.len()));
    let json = serde_json::to_string(&stats).unwrap();
    assert_eq!(serde_json::from_str::<JsonLinesStats>(&json).unwrap(), stats);
    assert_eq!(format!("{sink:?}"), format!("JsonLinesSink {{ stats: {stats:?}, .. }}"));
}

/// Records 150 events with 100 different keys, and returns the written lines as events.
fn recorded(start: impl FnOnce(RecordingBuilder<'_>, JsonLinesSink)) -> Vec<Event> {
    let folder = tempdir().unwrap();
    let sink = JsonLinesSink::open(folder.path().join(FILE)).unwrap();
    let events = EventBroadcaster::new().unwrap();
    start(events.recording(), sink.clone());
    for count in 0..3 {
        for pod in 0..50 {
            record(&events, &format!("web-{pod}"), ["Pulled", "Started"][count % 2]);
        }
    }
    let report = events.shutdown();
    assert!(report.complete);
    let text = fs::read_to_string(folder.path().join(FILE)).unwrap();
    let lines: Vec<Event> = text.lines().map(|line| Event::from_json(line).unwrap()).collect();
    assert_eq!([sink.stats().lines, report.recordings[0].written()], [lines.len() as u64; 2]);
    lines
}

#[test]
fn a_recording_writes_every_line_in_the_order_of_the_bus() {
    let lines = recorded(|recording, sink| drop(recording.start(sink).unwrap()));
    let pods: Vec<_> = lines.iter().map(|event| event.involved_object.name.to_string()).collect();
    assert_eq!(pods, (0..150).map(|at| format!("web-{}", at % 50)).collect::<Vec<_>>());
    let mut counts = HashMap::new();
    for event in &lines {
        let before = counts.insert(event.metadata.name.clone(), event.count);
        assert_eq!(before.unwrap_or(0) + 1, event.count);
    }
    assert_eq!(counts.len(), 100);
}

#[test]
fn several_workers_need_another_order_and_keep_the_order_of_each_event() {
    let events = EventBroadcaster::new().unwrap();
    let error = events.recording().workers(4).start(JsonLinesSink::new(io::sink())).unwrap_err();
    assert_eq!(error.to_string(), "workers must be 1 thread with WriteOrder::Bus, got 4");

    let lines =
        recorded(|recording, sink| drop(recording.order(WriteOrder::PerKey).workers(4).start(sink).unwrap()));
    let mut counts = HashMap::new();
    for event in &lines {
        let before = counts.insert(event.metadata.name.clone(), event.count);
        assert!(before.unwrap_or(0) < event.count);
    }
    assert_eq!((counts.len(), counts.values().sum::<i32>()), (100, 150));
}

#[test]
fn a_file_that_exists_is_continued() {
    let folder = tempdir().unwrap();
    create(&JsonLinesSink::open(folder.path().join(FILE)).unwrap(), "a");
    let sink = JsonLinesSink::open(folder.path().join(FILE)).unwrap();
    create(&sink, "b");
    assert_eq!(files(&folder), pairs([(FILE, "a b")]));
    assert_eq!((sink.stats().lines, sink.stats().bytes), (1, line()));
}

/// A crash may leave any prefix of a line in the file. After the crash, only that line is
/// unreadable.
#[test]
fn a_line_that_a_crash_broke_off_does_not_damage_the_next() {
    let folder = tempdir().unwrap();
    let path = folder.path().join(FILE);
    let whole = event("a", 1).to_json() + "\n" + &event("b", 1).to_json() + "\n";
    for cut in [1, 20, whole.len() / 2 + 1, whole.len() - 1] {
        fs::write(&path, &whole[..cut]).unwrap();
        create(&JsonLinesSink::open(&path).unwrap(), "c d");
        let text = fs::read_to_string(&path).unwrap();
        let rest = text.strip_prefix(&whole[..cut]).unwrap().strip_prefix('\n').unwrap();
        assert_eq!(files_in(rest), "c d", "{cut}");
    }
    for whole in ["", &whole] {
        fs::write(&path, whole).unwrap();
        create(&JsonLinesSink::open(&path).unwrap(), "c d");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(files_in(text.strip_prefix(whole).unwrap()), "c d");
    }
}

#[test]
fn what_cannot_be_opened_is_an_error() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("missing").join(FILE);
    let error = JsonLinesSink::open(&path).unwrap_err();
    assert_eq!(error.option(), "path");
    assert!(error.to_string().starts_with(&format!("cannot open {}: ", path.display())), "{error}");
    let source = std::error::Error::source(&error).unwrap().downcast_ref::<io::Error>().unwrap();
    assert_eq!(source.kind(), ErrorKind::NotFound);

    let error = JsonLinesSink::open(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with(": not a regular file"), "{error}");
    #[cfg(unix)]
    assert!(JsonLinesSink::open("/dev/null").unwrap_err().to_string().ends_with(": not a regular file"));

    let error = |options| JsonLinesSink::with_options(folder.path().join(FILE), options).unwrap_err();
    let too_many = error(JsonLinesOptions::default().keep(1001));
    assert_eq!(
        (too_many.option(), too_many.to_string().as_str()),
        ("keep", "keep must be 0 to 1000 files, got 1001")
    );
    let none = error(JsonLinesOptions::default().max_bytes(0));
    assert_eq!(none.to_string(), "max_bytes must be at least 1 byte, got 0");
    // Nothing was created.
    assert_eq!(contents(&folder), []);
}

#[test]
fn the_options_are_configured_by_a_file() {
    let set = JsonLinesOptions::default().max_bytes(1000).keep(7);
    let read: JsonLinesOptions = toml::from_str("max_bytes = 1000\nkeep = 7").unwrap();
    assert_eq!(read, set);
    assert_eq!(serde_json::from_str::<JsonLinesOptions>(r#"{"max_bytes":1000,"keep":7}"#).unwrap(), set);
    assert_eq!(serde_json::from_str::<JsonLinesOptions>("{}").unwrap(), JsonLinesOptions::default());
    for options in [set, JsonLinesOptions::default()] {
        assert_eq!(toml::from_str::<JsonLinesOptions>(&toml::to_string(&options).unwrap()).unwrap(), options);
    }
    assert_eq!(serde_json::to_string(&JsonLinesOptions::default()).unwrap(), r#"{"keep":5}"#);
    let error = serde_json::from_str::<JsonLinesOptions>(r#"{"max_size":1}"#).unwrap_err().to_string();
    assert!(error.starts_with("unknown field `max_size`, expected `max_bytes` or `keep`"), "{error}");
    let error = serde_json::from_str::<JsonLinesOptions>("[]").unwrap_err().to_string();
    assert!(error.contains("expected a sink's options, as an object"), "{error}");
}

/// How an output handles one write.
#[derive(Clone, Copy)]
enum Take {
    /// The output takes at most this number of bytes.
    Part(usize),
    Fail(ErrorKind),
    /// The output takes all bytes, but the flush then fails.
    FailToFlush,
    Panic,
    /// The output claims to have taken more bytes than it was given.
    Lie,
}

/// An output that handles its first writes as scripted, and then accepts everything.
#[derive(Clone, Default)]
struct Output {
    takes: Arc<Mutex<VecDeque<Take>>>,
    text: Arc<Mutex<Vec<u8>>>,
    writes: Arc<AtomicU64>,
    fails_to_flush: Arc<Mutex<bool>>,
}

impl Output {
    fn sink(takes: &[Take]) -> (JsonLinesSink, Self) {
        let output = Self { takes: Arc::new(Mutex::new(takes.iter().copied().collect())), ..Self::default() };
        (JsonLinesSink::new(output.clone()), output)
    }

    fn text(&self) -> String {
        String::from_utf8(self.text.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let take = self.takes.lock().unwrap().pop_front();
        let taken = match take {
            None => bytes.len(),
            Some(Take::Part(part)) => part.min(bytes.len()),
            Some(Take::Fail(kind)) => return Err(kind.into()),
            Some(Take::FailToFlush) => {
                *self.fails_to_flush.lock().unwrap() = true;
                bytes.len()
            }
            Some(Take::Panic) => {
                self.text.lock().unwrap().extend(&bytes[..10]);
                panic!("the output panics");
            }
            Some(Take::Lie) => {
                self.text.lock().unwrap().extend(bytes);
                return Ok(usize::MAX);
            }
        };
        self.text.lock().unwrap().extend(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if std::mem::take(&mut *self.fails_to_flush.lock().unwrap()) {
            return Err(ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }
}

#[test]
fn a_line_is_one_write_unless_the_output_takes_only_a_part() {
    let (sink, output) = Output::sink(&[]);
    create(&sink, "a b");
    assert_eq!((output.writes.load(Ordering::Relaxed), files_in(&output.text())), (2, "a b".to_owned()));

    let (sink, output) =
        Output::sink(&[Take::Part(1), Take::Fail(ErrorKind::Interrupted), Take::Part(30), Take::Lie]);
    create(&sink, "a b");
    assert_eq!((output.writes.load(Ordering::Relaxed), files_in(&output.text())), (5, "a b".to_owned()));
    assert_eq!((sink.stats().lines, sink.stats().bytes), (2, 2 * line()));
}

#[test]
fn a_write_that_fails_does_not_damage_the_next_line() {
    use ErrorKind::{BrokenPipe, InvalidInput, StorageFull, WouldBlock, WriteZero};
    use SinkErrorKind::{GroupUnavailable, Rejected, Unavailable};
    use Take::{Fail, FailToFlush, Part};
    let length = usize::try_from(line()).unwrap();
    for (takes, kind, cause, torn) in [
        (&[Fail(StorageFull)][..], Unavailable, StorageFull, 0),
        (&[Part(7), Fail(StorageFull)], Unavailable, StorageFull, 7),
        (&[Part(7), Part(0)], Unavailable, WriteZero, 7),
        (&[Part(1), Part(1), Fail(WouldBlock)], GroupUnavailable, WouldBlock, 2),
        (&[Part(7), Fail(InvalidInput)], Rejected, InvalidInput, 7),
        (&[Part(length - 1), Fail(StorageFull)], Unavailable, StorageFull, length - 1),
        (&[FailToFlush], Unavailable, BrokenPipe, length),
    ] {
        let (sink, output) = Output::sink(takes);
        let error = sink.create(&event("a", 1)).unwrap_err();
        assert_eq!(error.kind(), kind);
        let source = std::error::Error::source(&error).unwrap().downcast_ref::<io::Error>().unwrap();
        assert_eq!(source.kind(), cause);
        assert_eq!((sink.stats().lines, sink.stats().bytes), (0, torn as u64));
        create(&sink, "b c");
        let text = output.text();
        let (broken, rest) = text.split_at(torn);
        assert!((event("a", 1).to_json() + "\n").starts_with(broken));
        let rest = if torn == 0 { rest } else { rest.strip_prefix('\n').unwrap() };
        assert_eq!(files_in(rest), "b c");
        assert_eq!((sink.stats().lines, sink.stats().bytes), (2, text.len() as u64));
    }
}

/// Writing the newline that ends a torn line may fail as well.
#[test]
fn a_torn_line_is_ended_however_often_that_fails() {
    let full = Take::Fail(ErrorKind::StorageFull);
    // The second write accepts nothing, only the newline, or the newline and part of the line.
    for second in [0, 1, 3] {
        let takes = [&[Take::Part(7), full][..], &[Take::Part(second), full][usize::from(second == 0)..]];
        let (sink, output) = Output::sink(&takes.concat());
        for _ in 0..2 {
            let error = sink.create(&event("a", 1)).unwrap_err();
            assert_eq!(error.kind(), SinkErrorKind::Unavailable);
        }
        create(&sink, "b c");
        let text = output.text();
        let readable: Vec<_> = text.lines().filter(|line| Event::from_json(line).is_ok()).collect();
        assert_eq!(readable, [event("b", 1).to_json(), event("c", 1).to_json()], "{text}");
    }
}

#[test]
fn an_output_that_panics_costs_one_line() {
    let (sink, output) = Output::sink(&[Take::Panic]);
    assert!(catch_unwind(AssertUnwindSafe(|| sink.create(&event("a", 1)))).is_err());
    create(&sink, "b c");
    assert_eq!(files_in(&output.text()[11..]), "b c");

    let (sink, output) = Output::sink(&[Take::Panic]);
    let ops = ["a", "b"].map(|name| SinkOp::Create(event(name, 1)));
    let answers = SinkBatch::perform(ops.to_vec(), &sink);
    let failed = answers[0].as_ref().unwrap_err();
    assert_eq!((failed.error().kind(), failed.op()), (SinkErrorKind::Rejected, &ops[0]));
    assert!(answers[1].is_ok());
    assert_eq!(files_in(&output.text()[11..]), "b");
}

/// A recording retries events that the output temporarily refuses. No events are lost, and the
/// lines are in bus order.
#[test]
fn a_recording_survives_an_output_that_fails_for_a_while() {
    let takes: Vec<_> =
        (1..20).flat_map(|part| [Take::Part(part), Take::Fail(ErrorKind::WouldBlock)]).collect();
    let (sink, output) = Output::sink(&takes);
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    let events =
        EventBroadcaster::builder().clock(clock.clock()).retry(at_once().attempts(100)).build().unwrap();
    events.record_to(sink.clone()).unwrap();
    for pod in 0..5 {
        record(&events, &format!("web-{pod}"), "Started");
    }
    events.flush(LONG).unwrap();
    assert!(events.shutdown().complete);
    let text = output.text();
    let pods: Vec<_> = text
        .lines()
        .filter_map(|line| Event::from_json(line).ok())
        .map(|event| event.involved_object.name.to_string())
        .collect();
    assert_eq!(pods, ["web-0", "web-1", "web-2", "web-3", "web-4"], "{text}");
    assert_eq!(sink.stats().lines, 5);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_makes_the_store_unavailable() {
    let full = File::options().append(true).open("/dev/full").unwrap();
    let error = JsonLinesSink::new(full).create(&event("a", 1)).unwrap_err();
    assert_eq!(error.to_string(), "unavailable: No space left on device (os error 28)");
}
