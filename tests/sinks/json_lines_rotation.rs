//! The sink that writes lines puts full files aside, and loses nothing if it cannot.

use std::fs::{self, File};

use eventcast::sink::{JsonLinesOptions, JsonLinesSink};
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

    // The next sink knows how full the file is, and that all numbers are taken.
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
    // It is still the same file.
    assert_eq!(reader.metadata().unwrap().len(), line());
    assert_eq!(sink.stats().rotations, 2);
}

#[cfg(unix)]
#[test]
fn a_new_file_has_the_permissions_of_the_one_before_it() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempdir().unwrap();
    let sink = JsonLinesSink::with_options(folder.path().join(FILE), two_lines(1)).unwrap();
    fs::set_permissions(folder.path().join(FILE), fs::Permissions::from_mode(0o600)).unwrap();
    create(&sink, "a b c");
    assert_eq!(files(&folder), pairs([(FILE, "c"), ("events.jsonl.1", "a b")]));
    let mode = fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Another program put a folder where the file was. The sink leaves it alone, and goes on with its
/// own file.
#[test]
fn what_is_not_a_file_is_not_put_aside() {
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

/// The full file ends in a torn line. A reader that joins the files must find all others.
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
    // A folder cannot be replaced by a file.
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

/// A failure in the middle leaves a free number. However often the rotation is tried again, the
/// files before the free number stay.
#[test]
fn a_rotation_that_fails_in_the_middle_removes_nothing_more() {
    let folder = tempdir().unwrap();
    // Numbers 1 and 3 to 5: the state after `.2` became `.3`, and `.1` could not be moved.
    for (number, name) in [(1, "d"), (3, "c"), (4, "b"), (5, "a")] {
        fs::write(folder.path().join(format!("{FILE}.{number}")), event(name, 1).to_json() + "\n").unwrap();
    }
    let sink = JsonLinesSink::with_options(folder.path().join(FILE), two_lines(5)).unwrap();
    create(&sink, "e f g");
    let names = ["g", "e f", "d", "c", "b", "a"].map(str::to_owned);
    assert_eq!(files(&folder).into_iter().map(|(_, names)| names).collect::<Vec<_>>(), names);
}

/// This is also the state after a rotation that could not open the new file.
#[test]
fn a_file_that_another_program_moved_is_written_until_it_is_full() {
    let folder = tempdir().unwrap();
    let sink = JsonLinesSink::with_options(folder.path().join(FILE), two_lines(2)).unwrap();
    create(&sink, "a");
    fs::rename(folder.path().join(FILE), folder.path().join("events.jsonl.1")).unwrap();
    create(&sink, "b");
    assert_eq!(files(&folder), pairs([("events.jsonl.1", "a b")]));
    create(&sink, "c");
    assert_eq!(files(&folder), pairs([(FILE, "c"), ("events.jsonl.1", "a b")]));
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
