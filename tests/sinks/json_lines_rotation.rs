//! The JSON lines sink rotates full files, and does not lose events if a rotation fails.

use std::fs::{self, File};

use eventcast::EventSink;
use eventcast::sink::{JsonLinesOptions, JsonLinesSink, SinkErrorKind};
use tempfile::tempdir;

use crate::lines::{FILE, create, event, files, files_in, line, pairs, two_lines};

#[test]
fn a_full_file_is_put_aside_and_the_oldest_goes() {
    let folder = tempdir().unwrap();
    let sink = JsonLinesSink::with_options(folder.path().join(FILE), two_lines(2)).unwrap();
    create(&sink, "a b");
    assert_eq!(files(&folder), pairs([(FILE, "a b")]));
    create(&sink, "c");
    assert_eq!(files(&folder), pairs([(FILE, "c"), ("events.jsonl.1", "a b")]));
    create(&sink, "d e f g");
    assert_eq!(files(&folder), pairs([(FILE, "g"), ("events.jsonl.1", "e f"), ("events.jsonl.2", "c d")]));
    let stats = sink.stats();
    assert_eq!((stats.lines, stats.bytes, stats.rotations, stats.failed_rotations), (7, 7 * line(), 3, 0));

    // A new sink detects how full the file is and that all numbers are taken.
    let sink = JsonLinesSink::with_options(folder.path().join(FILE), two_lines(2)).unwrap();
    create(&sink, "h i");
    assert_eq!(files(&folder), pairs([(FILE, "i"), ("events.jsonl.1", "g h"), ("events.jsonl.2", "e f")]));
}

#[test]
fn without_files_to_keep_a_full_file_is_emptied() {
    let folder = tempdir().unwrap();
    let sink = JsonLinesSink::with_options(folder.path().join(FILE), two_lines(0)).unwrap();
    let reader = File::open(folder.path().join(FILE)).unwrap();
    create(&sink, "a b c d e");
    assert_eq!(files(&folder), pairs([(FILE, "e")]));
    // The reader still has the same file open.
    assert_eq!(reader.metadata().unwrap().len(), line());
    assert_eq!(sink.stats().rotations, 2);
}

#[cfg(unix)]
#[test]
fn a_new_file_has_the_permissions_of_the_previous_file() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempdir().unwrap();
    let sink = JsonLinesSink::with_options(folder.path().join(FILE), two_lines(1)).unwrap();
    fs::set_permissions(folder.path().join(FILE), fs::Permissions::from_mode(0o600)).unwrap();
    create(&sink, "a b c");
    assert_eq!(files(&folder), pairs([(FILE, "c"), ("events.jsonl.1", "a b")]));
    let mode = fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Another program has put a folder in the place of the file. The sink does not touch the folder,
/// and continues with its open file.
#[test]
fn a_folder_is_not_rotated() {
    let folder = tempdir().unwrap();
    for keep in [0, 1] {
        let (file, moved) = (folder.path().join(FILE), folder.path().join("moved"));
        let sink = JsonLinesSink::with_options(&file, two_lines(keep)).unwrap();
        create(&sink, "a b");
        fs::rename(&file, &moved).unwrap();
        fs::create_dir(&file).unwrap();
        create(&sink, "c");
        assert_eq!((sink.stats().lines, sink.stats().failed_rotations), (3, 1));
        assert_eq!(files_in(&fs::read_to_string(&moved).unwrap()), "a b c");
        fs::remove_dir(&file).unwrap();
    }
}

#[test]
fn an_event_that_is_larger_than_a_file_has_its_own() {
    let folder = tempdir().unwrap();
    let sink =
        JsonLinesSink::with_options(folder.path().join(FILE), JsonLinesOptions::default().max_bytes(1))
            .unwrap();
    create(&sink, "a b c");
    assert_eq!(files(&folder), pairs([(FILE, "c"), ("events.jsonl.1", "b"), ("events.jsonl.2", "a")]));
}

/// The full file ends in a torn line. A reader that joins the files must find all other lines.
#[test]
fn a_torn_line_ends_before_the_next_file() {
    let folder = tempdir().unwrap();
    let torn = "x".repeat(usize::try_from(2 * line()).unwrap());
    fs::write(folder.path().join(FILE), &torn).unwrap();
    let sink = JsonLinesSink::with_options(folder.path().join(FILE), two_lines(2)).unwrap();
    create(&sink, "a");
    assert_eq!(fs::read_to_string(folder.path().join("events.jsonl.1")).unwrap(), torn + "\n");
    assert_eq!(files_in(&fs::read_to_string(folder.path().join(FILE)).unwrap()), "a");
    assert_eq!(sink.stats().bytes, line() + 1);
}

#[test]
fn a_rotation_that_fails_loses_nothing_and_is_tried_again() {
    let folder = tempdir().unwrap();
    let sink = JsonLinesSink::with_options(folder.path().join(FILE), two_lines(3)).unwrap();
    create(&sink, "a b c d e");
    assert_eq!(files(&folder), pairs([(FILE, "e"), ("events.jsonl.1", "c d"), ("events.jsonl.2", "a b")]));
    // A file cannot replace a folder.
    let obstacle = folder.path().join("events.jsonl.3");
    fs::create_dir(&obstacle).unwrap();
    fs::write(obstacle.join("full"), "").unwrap();
    create(&sink, "f g h i");
    let stats = sink.stats();
    assert_eq!((stats.lines, stats.rotations, stats.failed_rotations), (9, 2, 3));
    assert!(stats.to_string().contains(", last rotation failure: "), "{stats}");
    fs::remove_dir_all(&obstacle).unwrap();
    assert_eq!(
        files(&folder),
        pairs([(FILE, "e f g h i"), ("events.jsonl.1", "c d"), ("events.jsonl.2", "a b")])
    );
    create(&sink, "j");
    assert_eq!(
        files(&folder),
        pairs([
            (FILE, "j"),
            ("events.jsonl.1", "e f g h i"),
            ("events.jsonl.2", "c d"),
            ("events.jsonl.3", "a b")
        ])
    );
    assert_eq!(sink.stats().rotations, 3);
}

/// A failure in the middle of a rotation leaves a number unused. However many times the rotation is
/// retried, the files before the unused number are kept.
#[test]
fn a_rotation_that_fails_in_the_middle_removes_nothing_more() {
    let folder = tempdir().unwrap();
    // The files 1 and 3 to 5 exist. This is the state after `.2` became `.3`, and `.1` could not be
    // moved.
    for (number, name) in [(1, "d"), (3, "c"), (4, "b"), (5, "a")] {
        fs::write(folder.path().join(format!("{FILE}.{number}")), event(name, 1).to_json() + "\n").unwrap();
    }
    let sink = JsonLinesSink::with_options(folder.path().join(FILE), two_lines(5)).unwrap();
    create(&sink, "e f g");
    let names = ["g", "e f", "d", "c", "b", "a"].map(str::to_owned);
    assert_eq!(files(&folder).into_iter().map(|(_, names)| names).collect::<Vec<_>>(), names);
}

/// A rotation that could not open the new file leaves the same state as a program that moved the
/// file.
#[test]
fn a_file_that_another_program_moved_is_followed_by_a_new_one() {
    let folder = tempdir().unwrap();
    let sink = JsonLinesSink::with_options(folder.path().join(FILE), two_lines(2)).unwrap();
    create(&sink, "a");
    fs::rename(folder.path().join(FILE), folder.path().join("events.jsonl.1")).unwrap();
    create(&sink, "b c");
    assert_eq!(files(&folder), pairs([(FILE, "b c"), ("events.jsonl.1", "a")]));
    // The new file holds two lines as well.
    create(&sink, "d");
    assert_eq!(files(&folder), pairs([(FILE, "d"), ("events.jsonl.1", "b c"), ("events.jsonl.2", "a")]));
    assert_eq!((sink.stats().lines, sink.stats().rotations, sink.stats().reopens), (4, 1, 1));
}

/// An external log rotation program renames the file, compresses it, and deletes it.
#[test]
fn no_line_goes_to_a_file_that_was_renamed_and_deleted() {
    let folder = tempdir().unwrap();
    let (file, moved) = (folder.path().join(FILE), folder.path().join("moved"));
    let sink = JsonLinesSink::open(&file).unwrap();
    for round in ["a b", "c d", "e f"] {
        create(&sink, round);
        assert_eq!(files(&folder), pairs([(FILE, round)]));
        fs::rename(&file, &moved).unwrap();
        fs::remove_file(&moved).unwrap();
    }
    assert_eq!((sink.stats().lines, sink.stats().reopens), (6, 2));
}

/// The rotation program may also create the next file, with an owner and mode of its choice.
#[cfg(unix)]
#[test]
fn a_file_that_replaces_the_sinks_file_is_continued() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempdir().unwrap();
    let (file, moved) = (folder.path().join(FILE), folder.path().join("moved"));
    let sink = JsonLinesSink::open(&file).unwrap();
    create(&sink, "a");
    fs::rename(&file, &moved).unwrap();
    fs::write(&file, event("other", 1).to_json() + "\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    create(&sink, "b c");
    assert_eq!(files(&folder), pairs([(FILE, "other b c"), ("moved", "a")]));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!((sink.stats().reopens, sink.stats().failed_rotations), (1, 0));
}

/// The old file's permissions are the sink's only indication that the new file should be just as
/// private.
#[cfg(unix)]
#[test]
fn a_recreated_file_has_the_permissions_of_the_previous_file() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempdir().unwrap();
    let file = folder.path().join(FILE);
    let sink = JsonLinesSink::open(&file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(&file).unwrap();
    create(&sink, "a");
    assert_eq!(files(&folder), pairs([(FILE, "a")]));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A reader that joins the two files must find the first line of the second file.
#[test]
fn a_torn_line_in_a_moved_file_is_ended_there() {
    let folder = tempdir().unwrap();
    let (file, moved) = (folder.path().join(FILE), folder.path().join("moved"));
    fs::write(&file, "{\"torn").unwrap();
    let sink = JsonLinesSink::open(&file).unwrap();
    fs::rename(&file, &moved).unwrap();
    create(&sink, "a");
    assert_eq!(fs::read_to_string(&moved).unwrap(), "{\"torn\n");
    assert_eq!(files_in(&fs::read_to_string(&file).unwrap()), "a");
}

#[test]
fn reopen_continues_the_file_at_the_path() {
    let folder = tempdir().unwrap();
    let (file, moved) = (folder.path().join(FILE), folder.path().join("moved"));
    let sink = JsonLinesSink::with_options(&file, two_lines(2)).unwrap();
    create(&sink, "a");
    fs::rename(&file, &moved).unwrap();
    sink.clone().reopen().unwrap();
    assert_eq!(files(&folder), pairs([(FILE, ""), ("moved", "a")]));
    create(&sink, "b c");
    // Another program copies the file and truncates it to zero, so two lines fit again.
    File::create(&file).unwrap();
    sink.reopen().unwrap();
    create(&sink, "d e");
    assert_eq!(files(&folder), pairs([(FILE, "d e"), ("moved", "a")]));
    let stats = sink.stats();
    assert_eq!((stats.lines, stats.rotations, stats.failed_rotations, stats.reopens), (5, 0, 0, 2));
    assert!(stats.to_string().ends_with(", reopens 2"), "{stats}");
}

#[cfg(unix)]
#[test]
fn a_reopen_that_fails_keeps_the_file() {
    let folder = tempdir().unwrap();
    let (file, moved) = (folder.path().join(FILE), folder.path().join("moved"));
    let sink = JsonLinesSink::open(&file).unwrap();
    create(&sink, "a");
    fs::rename(&file, &moved).unwrap();
    fs::create_dir(&file).unwrap();
    let error = sink.reopen().unwrap_err().to_string();
    assert!(error.starts_with("cannot open ") && error.ends_with(": not a regular file"), "{error}");
    create(&sink, "b");
    assert_eq!(files_in(&fs::read_to_string(&moved).unwrap()), "a b");
    assert_eq!((sink.stats().reopens, sink.stats().failed_rotations), (0, 2));

    let pipe = JsonLinesSink::new(Vec::new());
    pipe.reopen().unwrap();
    assert_eq!(pipe.stats().reopens, 0);
}

/// If the sink's folder is missing, the sink cannot write anywhere, so it does not acknowledge any
/// events.
#[cfg(unix)]
#[test]
fn a_line_without_a_place_is_refused_until_there_is_one() {
    let folder = tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let sink = JsonLinesSink::open(inner.join(FILE)).unwrap();
    create(&sink, "a");
    fs::remove_dir_all(&inner).unwrap();
    for failed in 1..=2 {
        let error = sink.create(&event("b", 1)).unwrap_err();
        assert_eq!(error.kind(), SinkErrorKind::Unavailable);
        assert_eq!((sink.stats().lines, sink.stats().failed_rotations), (1, failed));
    }
    fs::create_dir(&inner).unwrap();
    create(&sink, "b");
    assert_eq!(files_in(&fs::read_to_string(inner.join(FILE)).unwrap()), "b");
    assert_eq!((sink.stats().lines, sink.stats().reopens), (2, 1));
}

#[cfg(unix)]
#[test]
fn a_link_leads_to_the_real_file_and_its_folder() {
    let (folder, real) = (tempdir().unwrap(), tempdir().unwrap());
    std::os::unix::fs::symlink(real.path().join(FILE), folder.path().join("link")).unwrap();
    let sink = JsonLinesSink::with_options(folder.path().join("link"), two_lines(2)).unwrap();
    create(&sink, "a b c");
    assert_eq!(files(&real), pairs([(FILE, "c"), ("events.jsonl.1", "a b")]));
    assert_eq!(files(&folder), pairs([("link", "c")]));
}
