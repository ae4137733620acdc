//! Documents that are states of the same event.

use eventcast::event::{EventReader, EventStates};

/// Returns the number of the event and the added occurrences for each document.
fn observed(states: &mut EventStates, input: &str) -> Vec<(u64, u32)> {
    let read = EventReader::new(input.as_bytes()).map(Result::unwrap);
    read.filter_map(|read| states.observe(&read)).map(|state| (state.number, state.added)).collect()
}

fn state(metadata: &str, count: &str) -> String {
    format!(r#"{{"metadata":{{{metadata}}},"reason":"R"{count}}}"#)
}

#[test]
fn a_later_state_adds_what_its_count_has_more() {
    let uid = r#""name":"n","uid":"u""#;
    let input: String =
        ["", r#","count":3"#, r#","count":3"#, r#","count":2"#, r#","count":3,"series":{"count":9}"#]
            .map(|count| state(uid, count))
            .concat();
    assert_eq!(observed(&mut EventStates::default(), &input), [(0, 1), (0, 2), (0, 0), (0, 0), (0, 6)]);
}

#[test]
fn the_name_space_name_and_uid_make_an_event_the_same() {
    let same = r#""name":"n","namespace":"a","uid":"u""#;
    let input: String = [
        same,
        same,
        r#""name":"n","namespace":"a","uid":"v""#,
        r#""name":"n","namespace":"b","uid":"u""#,
        r#""name":"m","namespace":"a","uid":"u""#,
    ]
    .map(|metadata| state(metadata, ""))
    .concat();
    let numbers: Vec<u64> =
        observed(&mut EventStates::default(), &input).into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, [0, 0, 1, 2, 3]);
}

#[test]
fn without_a_uid_the_first_time_decides() {
    let at = |field: &str, second: u32| {
        let time = format!(r#","{field}":"2024-01-01T00:00:0{second}Z","count":2"#);
        state(r#""name":"n""#, &time)
    };
    let input =
        [at("firstTimestamp", 1), at("firstTimestamp", 1), at("firstTimestamp", 2), at("eventTime", 2)]
            .concat();
    assert_eq!(observed(&mut EventStates::default(), &input), [(0, 2), (0, 0), (1, 2), (1, 0)]);
    let created =
        |second: u32| state(&format!(r#""name":"n","creationTimestamp":"2024-01-01T00:00:0{second}Z""#), "");
    assert_eq!(observed(&mut EventStates::default(), &(created(1) + &created(2))), [(0, 1), (1, 1)]);
    // Documents without a name are always separate events.
    let nameless = state("", "").repeat(2);
    assert_eq!(observed(&mut EventStates::default(), &nameless), [(0, 1), (1, 1)]);
}

#[test]
fn the_later_state_is_told_by_version_then_count_then_time() {
    let latest = |first: &str, second: &str| {
        let mut states = EventStates::default();
        let input = format!("{first}{second}");
        let all: Vec<bool> = EventReader::new(input.as_bytes())
            .map(|read| states.observe(&read.unwrap()).unwrap().is_latest)
            .collect();
        assert!(all[0]);
        all[1]
    };
    let version =
        |version: &str, rest: &str| state(&format!(r#""uid":"u","resourceVersion":"{version}""#), rest);
    let timed = |second: u32| version("x", &format!(r#","lastTimestamp":"2024-01-01T00:00:0{second}Z""#));
    for (first, second, is_latest) in [
        (version("9", r#","count":5"#), version("10", r#","count":1"#), true),
        (version("10", ""), version("9", r#","count":7"#), false),
        (version("9", ""), version("x", r#","count":2"#), true),
        (version("x", r#","count":3"#), version("9", r#","count":2"#), false),
        (timed(1), timed(2), true),
        (timed(2), timed(1), false),
        (timed(1), timed(1), false),
    ] {
        assert_eq!(latest(&first, &second), is_latest, "{first} {second}");
    }
}

#[test]
fn beyond_the_limit_nothing_more_is_remembered() {
    let input: String = ["a", "b", "a", "b", "c"].map(|uid| state(&format!(r#""uid":"{uid}""#), "")).concat();
    let mut states = EventStates::with_max_events(1);
    assert_eq!(observed(&mut states, &input), [(0, 1), (1, 1), (0, 0), (2, 1), (3, 1)]);
    assert_eq!(states.forgotten(), 3);
    assert_eq!(EventStates::default().forgotten(), 0);
}

#[test]
fn a_deletion_tells_nothing() {
    let watch = |verb: &str, count: u32| {
        let event = state(r#""name":"n","uid":"u""#, &format!(r#","count":{count}"#));
        format!(r#"{{"type":"{verb}","object":{event}}}"#)
    };
    let input = [watch("DELETED", 3), watch("ADDED", 2), watch("DELETED", 9), watch("MODIFIED", 3)].concat();
    assert_eq!(observed(&mut EventStates::default(), &input), [(0, 2), (0, 1)]);
}
