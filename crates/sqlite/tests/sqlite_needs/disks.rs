//! Tests of stores on a full disk and on a read-only disk. Each test mounts its own disk, which may
//! require privileges.

use std::fs;
use std::path::Path;
use std::process::Command;

use eventcast::EventSink;
use eventcast::sink::{SinkBatch, SinkErrorKind, SinkOp, Stored};
use eventcast_sqlite::{SqliteErrorKind, SqliteSink};
use tempfile::tempdir;
use test_support::{child, test_name};

use crate::stores::{crashed, event, filled};

/// Returns the reason why the tests in this file cannot run.
pub(crate) fn missing() -> Option<String> {
    let permits = |mount: &str| {
        let words = ["--user", "--map-root-user", "--mount", "sh", "-c", mount];
        Command::new("unshare").args(words).output().is_ok_and(|output| output.status.success())
    };
    let is_permitted = permits("mount -t tmpfs -o size=1m none /tmp")
        && permits("mount --bind /tmp /tmp && mount -o remount,bind,ro /tmp");
    (!is_permitted).then(|| "the system permits no mounts to this process".to_owned())
}

/// The test uses a disk with a size of one mebibyte, and runs in a separate process.
pub(crate) fn a_full_disk_is_reported_and_survived() {
    if let Some(orders) = child::orders() {
        return on_a_small_disk(orders[0].as_ref());
    }
    let folder = tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=1m none \"$1\" && shift && exec \"$@\"";
    let path = folder.path().to_str().unwrap();
    let through = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh", path];
    let mut child = child::Running::start_by(&through, test_name!(), &[path]);
    assert_eq!(child.hear().as_deref(), Some("begun"));
    assert_eq!(child.end().last().map(String::as_str), Some("done"));
}

/// Writes files until the disk is full.
fn fill(folder: &Path) {
    let mut size = 2 << 20;
    while size > 0 {
        let filler = folder.join(format!("filler-{size}"));
        if fs::write(&filler, vec![1; size]).is_ok() && fs::metadata(&filler).unwrap().len() == 0 {
            break;
        }
        size /= 2;
    }
}

fn empty(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_str().unwrap().starts_with("filler") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

fn on_a_small_disk(folder: &Path) {
    child::say("begun");
    let path = folder.join("events.db");

    // The disk has no space for a new store.
    fill(folder);
    let error = SqliteSink::open(&path).unwrap_err();
    assert_eq!(error.kind(), SqliteErrorKind::Full, "{error}");
    assert!(error.to_string().ends_with("; make room"), "{error}");
    empty(folder);

    // The disk fills up while the store is being written.
    let sink = SqliteSink::open(&path).unwrap();
    let mut stored = Vec::new();
    let refused = loop {
        let ops = (0..10).map(|i| SinkOp::Create(event(&format!("{}", stored.len() + i)))).collect();
        let answers = SinkBatch::perform(ops, &sink);
        assert_eq!(answers.len(), 10);
        if answers[0].is_err() {
            break answers;
        }
        stored.extend(answers.into_iter().map(Result::unwrap));
        assert!(stored.len() < 10_000, "the disk is not small");
    };
    for answer in refused {
        let failed = answer.unwrap_err();
        let error = failed.error();
        // No other event could be written at present either, so the error is `Unavailable`.
        assert_eq!(error.kind(), SinkErrorKind::Unavailable);
        assert!(error.to_string().contains("the disk is full"), "{error}");
    }
    assert!(stored.len() > 50, "{}", stored.len());
    let events = sink.events().unwrap();
    assert_eq!(events.iter().map(Stored::from).collect::<Vec<_>>(), stored);
    fill(folder);
    drop(sink);

    // Opening the store for writing may also fail, but no acknowledged event is lost.
    let _ =
        SqliteSink::open(&path).map_err(|error| assert_eq!(error.kind(), SqliteErrorKind::Full, "{error}"));
    empty(folder);
    let sink = SqliteSink::open(&path).unwrap();
    assert_eq!(sink.events().unwrap(), events);
    child::say("done");
}

/// The system does not permit the test to write to the files. The test runs in a separate process
/// with read-only mounts, because root can write to files with any mode.
pub(crate) fn a_store_that_cannot_be_written_is_refused() {
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
    assert_eq!(child.hear().as_deref(), Some("begun"));
    assert_eq!(child.end().last().map(String::as_str), Some("done"));
}

fn on_what_cannot_be_written(orders: &[String]) {
    child::say("begun");
    let (whole, lone) = (Path::new(&orders[0]).join("events.db"), Path::new(&orders[1]));
    for path in [&whole, lone] {
        let error = SqliteSink::open(path).unwrap_err();
        assert_eq!(error.kind(), SqliteErrorKind::ReadOnly, "{error}");
        assert!(
            error.to_string().contains(": it is not writable; make the file and its directory"),
            "{error}"
        );
    }
    // If there is no log, a reader needs only the database file.
    let sink = SqliteSink::open_read_only(&whole).unwrap();
    assert_eq!((sink.len().unwrap(), sink.events().unwrap().len()), (3, 3));
    assert!(!sink.stats().unwrap().to_string().is_empty());
    assert_eq!(SqliteSink::open_read_only(lone).unwrap().len().unwrap(), 3);

    // If the log cannot be used, opening the store reports this instead of silently ignoring the
    // log.
    let logged = Path::new(&orders[2]).join("events.db");
    let error = SqliteSink::open_read_only(&logged).unwrap_err();
    assert_eq!(error.kind(), SqliteErrorKind::Denied, "{error}");
    assert!(
        error
            .to_string()
            .ends_with("; make the file and its directory readable and writable, or choose another path"),
        "{error}"
    );

    // Another process can write to the same directory through another path.
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
