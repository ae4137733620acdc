//! Files that are not stores, are damaged, or cannot grow. Each is a clear error, and a file that
//! is refused stays as it is, byte for byte, with nothing beside it.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use eventcast::sink::{SinkErrorKind, SinkOp, SqliteErrorKind, SqliteSinkOptions};
use eventcast::testing::FakeClock;
use eventcast::{
    BusOptions, Event, EventBroadcaster, EventSink, EventType, ObjectReference, OverflowPolicy, SqliteSink,
};
use rusqlite::Connection;
use tempfile::{TempDir, tempdir};
use test_support::{child, in_own_process, skipped, test_name};

use crate::support::contents;

fn event(name: &str) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.to_owned().into();
    event.involved_object = ObjectReference::new("Pod", "web-0");
    event.reason = "Started".into();
    event.message = "m".repeat(1000).into();
    event
}

/// Creates a store with the given number of events, and closes it.
fn filled(path: &Path, events: usize) {
    let sink = SqliteSink::open(path).unwrap();
    let ops: Vec<_> = (0..events).map(|i| SinkOp::Create(event(&format!("{i}")))).collect();
    assert!(sink.apply(&ops).iter().all(Result::is_ok));
}

fn sql(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

/// Asserts that both ways of opening refuse the file, and that neither leaves a trace.
#[track_caller]
fn assert_refused(folder: &TempDir, kind: SqliteErrorKind) -> String {
    assert_not_read(folder, kind);
    assert_not_written(folder, kind)
}

#[track_caller]
fn assert_not_written(folder: &TempDir, kind: SqliteErrorKind) -> String {
    assert_not_written_by(folder, SqliteSinkOptions::default(), kind)
}

fn full_check() -> SqliteSinkOptions {
    SqliteSinkOptions::default().full_check(true)
}

#[track_caller]
fn assert_not_written_by(folder: &TempDir, options: SqliteSinkOptions, kind: SqliteErrorKind) -> String {
    let path = folder.path().join("events.db");
    let before = kept(folder);
    let error = SqliteSink::with_options(&path, options).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(error.path(), path);
    assert!(error.to_string().starts_with(path.to_str().unwrap()), "{error}");
    assert!(kept(folder) == before, "{error}: the file was touched: {:?}", names(folder));
    error.to_string()
}

#[track_caller]
fn assert_not_read(folder: &TempDir, kind: SqliteErrorKind) {
    let before = kept(folder);
    let read = SqliteSink::open_read_only(folder.path().join("events.db")).and_then(|sink| sink.events());
    let error = read.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(kept(folder) == before, "{error}: the reader touched it: {:?}", names(folder));
}

/// Returns all files except the shared memory beside a log. Any process that needs this memory
/// makes it anew.
fn kept(folder: &TempDir) -> Vec<(String, Vec<u8>)> {
    let is_kept = |name: &str| !folder.path().join("events.db-wal").exists() || !name.ends_with("-shm");
    contents(folder).into_iter().filter(|(name, _)| is_kept(name)).collect()
}

fn names(folder: &TempDir) -> Vec<(String, usize)> {
    contents(folder).into_iter().map(|(name, bytes)| (name, bytes.len())).collect()
}

/// Copies the files of a folder while a process has them open, as a crash would leave them.
fn crashed(from: &TempDir) -> TempDir {
    let to = tempdir().unwrap();
    for (name, bytes) in contents(from) {
        fs::write(to.path().join(&name), bytes).unwrap();
    }
    to
}

#[test]
fn what_is_no_database_is_left_alone() {
    let header = b"SQLite format 3\0";
    let texts: [&[u8]; 7] = [
        b"x",
        b"not a database",
        &[0; 100],
        &[0; 5000],
        &[0xFF; 5000],
        &[header.as_slice(), &[0xFF; 5000]].concat(),
        &header[..10],
    ];
    for bytes in texts {
        let folder = tempdir().unwrap();
        fs::write(folder.path().join("events.db"), bytes).unwrap();
        let error = assert_refused(&folder, SqliteErrorKind::NotADatabase);
        assert!(error.contains("not a SQLite database, left as it is"), "{error}");
    }
}

#[test]
fn the_database_of_another_program_is_left_alone() {
    for statements in [
        "CREATE TABLE t (x)",
        "PRAGMA application_id = 7",
        "PRAGMA user_version = 1",
        "PRAGMA journal_mode = wal; CREATE TABLE t (x); INSERT INTO t VALUES (1)",
        "PRAGMA application_id = 7; PRAGMA journal_mode = wal; CREATE TABLE events (x)",
    ] {
        let folder = tempdir().unwrap();
        sql(&folder.path().join("events.db"), statements);
        let error = assert_refused(&folder, SqliteErrorKind::Foreign);
        assert!(error.contains("a database of another program, left as it is"), "{error}");
    }
}

#[test]
fn so_is_one_whose_owner_crashed() {
    let live = tempdir().unwrap();
    let owner = Connection::open(live.path().join("events.db")).unwrap();
    owner.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (x)").unwrap();
    // Everything that the owner has written is in the log.
    let folder = crashed(&live);
    assert_eq!(names(&folder).len(), 3);
    assert_refused(&folder, SqliteErrorKind::Foreign);
}

#[test]
fn a_file_of_a_newer_version_is_left_alone() {
    let folder = tempdir().unwrap();
    filled(&folder.path().join("events.db"), 10);
    sql(&folder.path().join("events.db"), "PRAGMA user_version = 99");
    let error = assert_refused(&folder, SqliteErrorKind::Newer);
    assert!(error.contains("(version 99, known are 1 to 4)"), "{error}");

    // The same holds if only the log says so.
    let live = tempdir().unwrap();
    filled(&live.path().join("events.db"), 10);
    let newer = Connection::open(live.path().join("events.db")).unwrap();
    newer.execute_batch("PRAGMA user_version = 99").unwrap();
    let folder = crashed(&live);
    assert_eq!(names(&folder).len(), 3);
    assert_refused(&folder, SqliteErrorKind::Newer);
}

#[test]
fn a_damaged_file_is_left_alone() {
    let whole = tempdir().unwrap();
    filled(&whole.path().join("events.db"), 200);
    let bytes = fs::read(whole.path().join("events.db")).unwrap();
    assert!(bytes.len() > 200_000);
    let mut wrong_page = bytes.clone();
    wrong_page[100_000..140_000].fill(0x5A);
    let mut wrong_schema = bytes.clone();
    wrong_schema[100..4096].fill(0x5A);
    for bytes in [wrong_page, wrong_schema, bytes[..bytes.len() / 2].to_vec(), bytes[..5000].to_vec()] {
        let folder = tempdir().unwrap();
        fs::write(folder.path().join("events.db"), bytes).unwrap();
        let error = assert_not_written_by(&folder, full_check(), SqliteErrorKind::Corrupt);
        assert!(error.contains("the file is damaged"), "{error}");
        let read = SqliteSink::open_read_only(folder.path().join("events.db")).and_then(|sink| sink.events());
        assert_eq!(read.unwrap_err().kind(), SqliteErrorKind::Corrupt);
    }
    // These files are sound as databases, but not what their version promises.
    for statement in ["DROP TABLE store", "DELETE FROM store", "ALTER TABLE events DROP COLUMN rest"] {
        let folder = tempdir().unwrap();
        filled(&folder.path().join("events.db"), 10);
        sql(&folder.path().join("events.db"), statement);
        let before = contents(&folder);
        let error = SqliteSink::open(folder.path().join("events.db")).unwrap_err();
        assert_eq!(error.kind(), SqliteErrorKind::Corrupt, "{error}");
        assert!(contents(&folder) == before);
    }
}

#[test]
fn an_error_names_what_is_wrong_with_the_path() {
    let folder = tempdir().unwrap();
    let kind = |path: &Path| SqliteSink::open(path).unwrap_err().kind();
    let kind_read = |path: &Path| SqliteSink::open_read_only(path).unwrap_err().kind();
    fs::write(folder.path().join("file"), "").unwrap();
    assert_eq!(kind(folder.path()), SqliteErrorKind::NotAFile);
    assert_eq!(kind_read(folder.path()), SqliteErrorKind::NotAFile);
    assert_eq!(kind(&folder.path().join("no/events.db")), SqliteErrorKind::NoParent);
    assert_eq!(kind(&folder.path().join("file/events.db")), SqliteErrorKind::NoParent);
    assert_eq!(kind(Path::new("")), SqliteErrorKind::InvalidPath);
    assert_eq!(kind(&folder.path().join("a\0b")), SqliteErrorKind::InvalidPath);
    assert_eq!(kind_read(&folder.path().join("events.db")), SqliteErrorKind::Missing);
    assert_eq!(kind_read(&folder.path().join("file")), SqliteErrorKind::Older);
    // The path is escaped in an error.
    let error = SqliteSink::open(folder.path().join("\u{1b}[2J/events.db")).unwrap_err().to_string();
    assert!(error.contains(r"\u{1b}[2J") && !error.contains('\u{1b}'), "{error}");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path().join("nowhere"), folder.path().join("link")).unwrap();
        let error = SqliteSink::open(folder.path().join("link")).unwrap_err();
        assert_eq!(error.kind(), SqliteErrorKind::NotAFile, "{error}");
        fs::remove_file(folder.path().join("link")).unwrap();
    }
    assert_eq!(names(&folder), [("file".to_owned(), 0)]);
}

#[test]
fn options_out_of_range_touch_nothing() {
    let folder = tempdir().unwrap();
    for json in [r#"{"max_events": 0}"#, r#"{"ttl": "0s"}"#, r#"{"busy_timeout": "61m"}"#] {
        let options: SqliteSinkOptions = serde_json::from_str(json).unwrap();
        let error = SqliteSink::with_options(folder.path().join("events.db"), options).unwrap_err();
        assert_eq!(error.kind(), SqliteErrorKind::InvalidOption);
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(
            error.to_string().contains(&cause) && json.contains(cause.split(' ').next().unwrap()),
            "{error}"
        );
    }
    assert!(contents(&folder).is_empty());
}

/// Runs in a separate process, because it changes to another folder.
#[test]
fn a_path_is_never_a_uri_nor_a_special_name() {
    if let Some(orders) = child::orders() {
        std::env::set_current_dir(&orders[0]).unwrap();
        for name in
            [":memory:", "file:a?mode=memory", "file::memory:?cache=shared", "a%20b#c?d=e&immutable=1"]
        {
            let sink = SqliteSink::open(name).unwrap();
            sink.create(&event("a")).unwrap();
            drop(sink);
            assert!(Path::new(name).is_file(), "{name}");
            assert_eq!(SqliteSink::open(name).unwrap().len().unwrap(), 1);
            assert_eq!(SqliteSink::open_read_only(name).unwrap().len().unwrap(), 1);
        }
        return child::say("done");
    }
    let folder = tempdir().unwrap();
    let child = child::Running::start(test_name!(), &[folder.path().to_str().unwrap()]);
    assert_eq!(child.end(), ["done"]);
}

#[cfg(unix)]
#[test]
fn files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempdir().unwrap();
    let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777;
    let sink = SqliteSink::open(folder.path().join("events.db")).unwrap();
    sink.create(&event("a")).unwrap();
    for name in ["events.db", "events.db-wal", "events.db-shm"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    drop(sink);
    // A mode that somebody has chosen stays.
    fs::set_permissions(folder.path().join("events.db"), fs::Permissions::from_mode(0o640)).unwrap();
    let sink = SqliteSink::open(folder.path().join("events.db")).unwrap();
    sink.create(&event("b")).unwrap();
    assert_eq!((mode("events.db"), mode("events.db-wal")), (0o640, 0o640));
}

/// The file of the first version, as its writer left it.
const VERSION_1: &str = include_str!("version-1.sql");

fn version_1(path: &Path) {
    sql(path, VERSION_1);
}

fn indexes(path: &Path) -> i64 {
    let count = "SELECT count(*) FROM sqlite_master WHERE type = 'index'";
    Connection::open(path).unwrap().query_row(count, [], |row| row.get(0)).unwrap()
}

fn at_birth() -> FakeClock {
    FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
}

#[test]
fn a_file_of_an_older_version_is_brought_up_to_date() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("events.db");
    version_1(&path);
    let error = SqliteSink::open_read_only(&path).unwrap_err();
    assert_eq!(error.kind(), SqliteErrorKind::Older, "{error}");
    assert_eq!(indexes(&path), 2);

    let sink = SqliteSink::with_clock(&path, SqliteSinkOptions::default(), at_birth().clock()).unwrap();
    let events = sink.events().unwrap();
    assert_eq!(events.len(), 2);
    assert_eq!(events[0].message, "it's \"started\"");
    assert_eq!(events[1].metadata.labels()["team"], "blue");
    let third = sink.create(&event("third")).unwrap();
    assert_eq!(third.metadata.resource_version(), "6");
    assert_eq!(third.metadata.uid(), "17979cfe-362a-4000-8000-000000000004");
    assert_eq!(sink.stats().unwrap().created, 4);
    drop(sink);
    assert_eq!(indexes(&path), 7);
    let version: i32 =
        Connection::open(&path).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 4);
}

#[test]
fn a_limit_ends_the_search_in_a_namespace() {
    let folder = tempdir().unwrap();
    filled(&folder.path().join("events.db"), 10);
    let connection = Connection::open(folder.path().join("events.db")).unwrap();
    let sql = "EXPLAIN QUERY PLAN SELECT * FROM events WHERE +expires > '' AND namespace = 'a' \
               ORDER BY resourceVersion DESC LIMIT 10";
    let mut statement = connection.prepare(sql).unwrap();
    let plan = statement.query_map([], |row| row.get::<_, String>(3)).unwrap();
    let plan: Vec<String> = plan.map(Result::unwrap).collect();
    assert_eq!(plan, ["SEARCH events USING INDEX eventsByNamespace (namespace=?)"], "and no sorting");
}

#[test]
fn a_step_that_fails_changes_nothing() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("events.db");
    version_1(&path);
    // The last index of the second step is there already.
    sql(&path, "CREATE INDEX eventsByLastSeen ON events (name)");
    let before = contents(&folder);
    let error = SqliteSink::open(&path).unwrap_err();
    assert!(error.to_string().contains("eventsByLastSeen"), "{error}");
    assert!(contents(&folder) == before || indexes(&path) == 3);
    sql(&path, "DROP INDEX eventsByLastSeen");
    assert!(SqliteSink::open(&path).is_ok());
}

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
        let ops: Vec<_> = (0..10).map(|i| SinkOp::Create(event(&format!("{}", stored.len() + i)))).collect();
        let answers = sink.apply(&ops);
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
        assert_eq!((error.kind(), error.is_unreachable()), (SinkErrorKind::Retry, true));
        assert!(error.to_string().contains("the disk is full"), "{error}");
    }
    assert!(stored.len() > 50, "{}", stored.len());
    assert_eq!(sink.events().unwrap(), stored);
    fill();
    drop(sink);

    // The store may be impossible to open for writing too, but no acknowledged event is lost.
    let _ =
        SqliteSink::open(&path).map_err(|error| assert_eq!(error.kind(), SqliteErrorKind::Full, "{error}"));
    empty();
    let sink = SqliteSink::open(&path).unwrap();
    assert_eq!(sink.events().unwrap(), stored);
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

/// A process was killed between the two steps that make a file a store: the mark is in the file,
/// and beside it is the journal that says that there was nothing before. The next process that
/// opens the file makes it anew.
#[test]
fn a_file_whose_making_was_broken_off_is_made_anew() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("events.db");
    filled(&path, 1);
    // The head of a rollback journal: the mark, no pages, and a size of zero for the database
    // before.
    let mut journal = vec![0; 512];
    journal[..8].copy_from_slice(&[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
    journal[20..24].copy_from_slice(&512_u32.to_be_bytes());
    journal[24..28].copy_from_slice(&4096_u32.to_be_bytes());
    fs::write(folder.path().join("events.db-journal"), journal).unwrap();

    let sink = SqliteSink::open(&path).unwrap();
    assert!(sink.events().unwrap().is_empty());
    sink.create(&event("new")).unwrap();
    drop(sink);
    assert_eq!(SqliteSink::open_read_only(&path).unwrap().len().unwrap(), 1);
}

/// A read of the whole file takes long, so the store makes it only if the file may have suffered:
/// after an end that left a log.
#[test]
fn the_whole_file_is_read_after_an_unclean_end_only() {
    let live = tempdir().unwrap();
    filled(&live.path().join("events.db"), 200);
    let damage = |folder: &TempDir| {
        let path = folder.path().join("events.db");
        let mut bytes = fs::read(&path).unwrap();
        bytes[100_000..140_000].fill(0x5A);
        fs::write(path, bytes).unwrap();
    };
    let clean = crashed(&live);
    damage(&clean);
    let sink = SqliteSink::open(live.path().join("events.db")).unwrap();
    sink.create(&event("last")).unwrap();
    let unclean = crashed(&live);
    damage(&unclean);
    assert_not_written(&unclean, SqliteErrorKind::Corrupt);
    assert_not_written_by(&clean, full_check(), SqliteErrorKind::Corrupt);

    // Otherwise the store finds the damage when it reads the damaged part, and acknowledges nothing
    // that lies there.
    let sink = SqliteSink::open(clean.path().join("events.db")).unwrap();
    assert_eq!(sink.events().unwrap_err().kind(), SqliteErrorKind::Corrupt);
}

/// A file of the second version had no limit. The events that it holds by now are not discarded.
#[test]
fn an_older_file_keeps_what_it_holds() {
    for (created, limit) in [(7, 100_000), (300_009, 300_003)] {
        let folder = tempdir().unwrap();
        let path = folder.path().join("events.db");
        version_1(&path);
        sql(&path, &format!("UPDATE store SET created = {created}, expired = 2, evicted = 4"));
        let sink = SqliteSink::with_clock(&path, SqliteSinkOptions::default(), at_birth().clock()).unwrap();
        assert_eq!(sink.stats().unwrap().max_events, limit);
    }
}
