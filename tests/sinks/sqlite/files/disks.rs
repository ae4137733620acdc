//! Disks that are full, and files that cannot be written.

use std::fs;
use std::path::Path;
use std::time::Duration;

use eventcast::sink::{SinkErrorKind, SinkOp, SqliteErrorKind, SqliteSinkOptions, Stored};
use eventcast::{
    BusOptions, EventBroadcaster, EventSink, EventType, ObjectReference, OverflowPolicy, SqliteSink,
};
use tempfile::tempdir;
use test_support::{child, in_own_process, skipped, test_name};

use super::{at_birth, crashed, event, filled};

/// Uses a disk of one mebibyte, if the system lets a process have one. The test runs in a separate
/// process.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_and_survived() {
    if let Some(orders) = child::orders() {
        return on_a_small_disk(orders[0].as_ref());
    }
    let folder = tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=1m none \"$1\" && shift && exec \"$@\"";
    let path = folder.path().to_str().unwrap();
    let through = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh", path];
    let mut child = child::Running::start_by(&through, test_name!(), &[path]);
    if child.hear().is_none() {
        skipped("a_full_disk_is_told_and_survived", "no disk of its own can be had here");
        return;
    }
    assert_eq!(child.end().last().map(String::as_str), Some("done"));
}

#[cfg(target_os = "linux")]
fn on_a_small_disk(folder: &Path) {
    child::say("begun");
    let fill = || {
        let mut size = 2 << 20;
        while size > 0 {
            let filler = folder.join(format!("filler-{size}"));
            if fs::write(&filler, vec![1; size]).is_err() {
                size /= 2;
            } else if fs::metadata(&filler).unwrap().len() == 0 {
                break;
            } else {
                size /= 2;
            }
        }
    };
    let empty = || {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name().to_str().unwrap().starts_with("filler") {
                fs::remove_file(entry.path()).unwrap();
            }
        }
    };
    let path = folder.join("events.db");

    // The disk has no room for a new store.
    fill();
    let error = SqliteSink::open(&path).unwrap_err();
    assert_eq!(error.kind(), SqliteErrorKind::Full, "{error}");
    assert!(error.to_string().ends_with("; make room"), "{error}");
    empty();

    // The disk fills up while the store is written.
    let sink = SqliteSink::open(&path).unwrap();
    let mut stored = Vec::new();
    let refused = loop {
        let mut ops: Vec<_> =
            (0..10).map(|i| SinkOp::Create(event(&format!("{}", stored.len() + i)))).collect();
        let answers = sink.apply(&mut ops);
        assert_eq!(answers.len(), 10);
        if answers[0].is_err() {
            break answers;
        }
        stored.extend(answers.into_iter().map(Result::unwrap));
        assert!(stored.len() < 10_000, "the disk is not small");
    };
    for answer in refused {
        let error = answer.unwrap_err();
        // No other event could be written now either.
        assert_eq!(error.kind(), SinkErrorKind::Unavailable);
        assert!(error.to_string().contains("the disk is full"), "{error}");
    }
    assert!(stored.len() > 50, "{}", stored.len());
    let events = sink.events().unwrap();
    assert_eq!(events.iter().map(Stored::from).collect::<Vec<_>>(), stored);
    fill();
    drop(sink);

    // The store may be impossible to open for writing too, but no acknowledged event is lost.
    let _ =
        SqliteSink::open(&path).map_err(|error| assert_eq!(error.kind(), SqliteErrorKind::Full, "{error}"));
    empty();
    let sink = SqliteSink::open(&path).unwrap();
    assert_eq!(sink.events().unwrap(), events);
    child::say("done");
}

/// Files that the system lets nobody write. The test runs in a separate process with read-only
/// mounts, because root may write files of any mode.
#[cfg(target_os = "linux")]
#[test]
fn a_store_that_cannot_be_written_is_refused() {
    if let Some(orders) = child::orders() {
        return on_what_cannot_be_written(&orders);
    }
    let (whole, lone, live, theirs, ours) =
        (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
    for folder in [&whole, &lone, &live, &theirs] {
        filled(&folder.path().join("events.db"), 3);
    }
    let open = SqliteSink::open(live.path().join("events.db")).unwrap();
    open.create(&event("in the log")).unwrap();
    let logged = crashed(&live);
    fs::remove_file(logged.path().join("events.db-shm")).unwrap();
    let lone = lone.path().join("events.db");
    let folders = [whole.path(), &lone, logged.path(), ours.path(), theirs.path()];
    let folders = folders.map(|path| path.to_str().unwrap());
    let mount = "mount --bind \"$5\" \"$4\" && mount -o remount,bind,ro \"$4\" || exit; \
                 for it in \"$1\" \"$2\" \"$3\"; do \
                 mount --bind \"$it\" \"$it\" && mount -o remount,bind,ro \"$it\" || exit; \
                 done; shift 5; exec \"$@\"";
    let through: Vec<_> = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
        .into_iter()
        .chain(folders)
        .collect();
    let mut child = child::Running::start_by(&through, test_name!(), &folders);
    if child.hear().is_none() {
        skipped("a_store_that_cannot_be_written_is_refused", "nothing can be made read-only here");
        return;
    }
    assert_eq!(child.end().last().map(String::as_str), Some("done"));
}

#[cfg(target_os = "linux")]
fn on_what_cannot_be_written(orders: &[String]) {
    child::say("begun");
    let (whole, lone) = (Path::new(&orders[0]).join("events.db"), Path::new(&orders[1]));
    for path in [&whole, lone] {
        let error = SqliteSink::open(path).unwrap_err();
        assert_eq!(error.kind(), SqliteErrorKind::ReadOnly, "{error}");
        assert!(
            error.to_string().contains(": it cannot be written; make the file and its folder"),
            "{error}"
        );
    }
    // A reader needs only the file, if there is no log.
    let sink = SqliteSink::open_read_only(&whole).unwrap();
    assert_eq!((sink.len().unwrap(), sink.events().unwrap().len()), (3, 3));
    assert!(sink.table().unwrap().contains("Started") && !sink.stats().unwrap().to_string().is_empty());
    assert_eq!(SqliteSink::open_read_only(lone).unwrap().len().unwrap(), 3);

    // A log that cannot be used is reported, and not left out in silence.
    let logged = Path::new(&orders[2]).join("events.db");
    let error = SqliteSink::open_read_only(&logged).unwrap_err();
    assert_eq!(error.kind(), SqliteErrorKind::Denied, "{error}");
    assert!(
        error.to_string().ends_with("; the file and its folder must be readable and writable"),
        "{error}"
    );

    // Another process can write the same folder under another name.
    let (theirs, ours) = (Path::new(&orders[4]).join("events.db"), Path::new(&orders[3]).join("events.db"));
    let sink = SqliteSink::open_read_only(&ours).unwrap();
    assert_eq!(sink.len().unwrap(), 3);
    let writer = SqliteSink::open(&theirs).unwrap();
    for number in 0..3 {
        writer.create(&event(&format!("new-{number}"))).unwrap();
        assert_eq!(sink.len().unwrap(), 4 + number);
    }
    drop(writer);
    assert_eq!(sink.len().unwrap(), 6);
    let writer = SqliteSink::open(&theirs).unwrap();
    writer.create(&event("last")).unwrap();
    drop(writer);
    assert_eq!(sink.len().unwrap(), 7);
    child::say("done");
}

/// A recording on a file that may not grow: the bus continues, the events wait, and they are stored
/// when the file may grow again. The test runs in a separate process, because the limit belongs to
/// the process.
#[cfg(unix)]
#[test]
fn the_bus_goes_on_while_the_disk_is_full() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    in_own_process!();
    // A process that writes beyond the limit gets a signal, which would end the process.
    let noticed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(rustix::process::Signal::XFSZ.as_raw(), noticed.clone()).unwrap();
    let folder = tempdir().unwrap();
    let clock = at_birth();
    let path = folder.path().join("events.db");
    let options = SqliteSinkOptions::default().ttl(Duration::from_secs(1_000_000_000));
    let store = SqliteSink::with_clock(&path, options, clock.clock()).unwrap();
    let all = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: Some(200_000), maximum: all.maximum }).unwrap();

    const EVENTS: usize = 200;
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .bus(BusOptions::default().incoming_len(2 * EVENTS))
        .build()
        .unwrap();
    let mut other =
        events.watch_builder().queue_len(2 * EVENTS).overflow(OverflowPolicy::Wait).watch().unwrap();
    let recording = events.recording().queue_len(2 * EVENTS).start(store.clone()).unwrap();
    let recorder = events.new_recorder("test");
    for i in 0..EVENTS {
        let object = ObjectReference::new("Pod", format!("web-{i}"));
        assert!(recorder.event(&object, EventType::Normal, "Started", "m".repeat(2000)).is_accepted());
    }
    // The recording waits by the clock, so its write has been refused. The other watcher has
    // received everything.
    clock.wait_for_waiters(1);
    assert_eq!((0..EVENTS).filter(|_| other.recv().is_ok()).count(), EVENTS);
    assert!(noticed.load(std::sync::atomic::Ordering::SeqCst));
    let before = store.len().unwrap();
    assert!(before < EVENTS, "{before} were stored in so small a file");

    setrlimit(Resource::Fsize, all).unwrap();
    let handled = |stats: eventcast::stats::RecordingStats| (stats.created + stats.exhausted) as usize;
    while handled(recording.stats()) < EVENTS {
        if clock.waiters() > 0 {
            clock.advance(Duration::from_secs(10));
        }
        std::thread::yield_now();
    }
    assert!(events.shutdown().complete);
    assert_eq!(recording.stats().created, EVENTS as u64);
    assert_eq!(store.stats().unwrap().stored, EVENTS as u64);
}
