//! Scrubbing, and truncated messages.

use eventcast::EventType::Normal;
use eventcast::record::LossReason;
use eventcast::testing::FakeRecorder;
use eventcast::{Event, EventBroadcaster, MemorySink, Recorded};

use crate::support::{Scripted, clock, clocked, logged, pod, with_losses};

use super::{foo, lost, overfill};

/// A scrubbed event keeps the name that the scrub function gave it or left in place.
#[test]
fn a_scrub_function_sees_the_name_and_has_the_last_word() {
    for last_word in ["", ".mine"] {
        let (received, losses) = overfill(EventBroadcaster::builder().scrub(move |event| {
            assert!(event.metadata.name.starts_with("web-0."));
            assert_eq!(event.first_timestamp, event.last_timestamp);
            event.metadata.name = last_word.into();
            event.first_timestamp = None;
        }));
        let is_left = |event: &Event| event.metadata.name == last_word && event.first_timestamp.is_none();
        assert!(received.iter().all(is_left), "{received:?}");
        assert!(losses[0].2.contains(&format!("metadata: ObjectMeta {{ name: {last_word:?}")));
    }
}

/// Truncating the message first would leave `password=hun`, which the scrub function would not
/// find.
#[test]
fn scrubbing_precedes_the_cut_and_all_receivers() {
    let builder = EventBroadcaster::builder().max_message_len(18).scrub(|event| {
        event.message = event.message.replace("password=hunter2", "password=*").into();
    });
    let events = builder.build().unwrap();
    let mut watcher = events.watch_builder().watch().unwrap();
    let lines = logged(&events);
    let store = MemorySink::new();
    events.record_to(store.clone()).unwrap();
    let recorder = events.recorder("tester");
    recorder.normal(pod("a"), "Login", "xx password=hunter2");
    recorder.draft(pod("b"), Normal, "Login").message("yy password=hunter2 yy").record();
    recorder.normal(pod("c"), "Login", "äääääääääääääää");
    events.shutdown();
    let expected = ["xx password=*", "yy password=* yy", "äääääää..."];
    assert_eq!(watcher.events().map(|event| event.message).collect::<Vec<_>>(), expected);
    assert_eq!(store.events().iter().map(|event| event.message.to_string()).collect::<Vec<_>>(), expected);
    assert!(lines.lock().unwrap().iter().zip(expected).all(|(line, message)| line.ends_with(message)));
    assert_eq!(events.stats().recorder.truncated, 1);
}

#[test]
fn a_report_of_a_refused_event_has_been_scrubbed() {
    let builder = EventBroadcaster::builder().scrub(|event| {
        assert!(!event.message.contains("unscrubbable"), "cannot scrub this");
        for text in [&mut event.involved_object.name, &mut event.reason] {
            *text = text.replace("secret", "*").into();
        }
    });
    let (events, losses) = with_losses(builder, lost);
    let mut watcher = events.watch_builder().watch().unwrap();
    let recorder = events.recorder("tester");
    assert_eq!(recorder.normal(pod("secret-a"), "", ""), Recorded::EmptyReason);
    assert_eq!(recorder.normal(pod("secret-b"), "secret", "unscrubbable"), Recorded::ScrubPanicked);
    assert_eq!(recorder.normal(pod("secret-b"), "secret", "all clear"), Recorded::Accepted);
    events.close();
    assert_eq!(recorder.normal(pod("secret-c"), "secret", ""), Recorded::Closed);
    assert_eq!(recorder.draft(pod("secret-d"), Normal, "secret").record(), Recorded::Closed);
    events.shutdown();
    assert_eq!(watcher.events().map(|event| event.message).collect::<Vec<_>>(), ["all clear"]);
    let losses: Vec<_> = losses.try_iter().collect();
    let reasons: Vec<_> = losses.iter().map(|(reason, ..)| *reason).collect();
    let closed = LossReason::Closed;
    assert_eq!(reasons, [LossReason::EmptyReason, LossReason::ScrubPanicked, closed, closed]);
    for (_, about, shown) in losses {
        assert!(about.contains("Pod/*-") && !shown.contains("secret"), "{shown}");
    }
}

#[test]
fn an_event_that_cannot_be_scrubbed_is_reported_without_any_of_its_text() {
    let builder = EventBroadcaster::builder().scrub(|_| panic!("nothing can be scrubbed"));
    let (events, losses) = with_losses(builder, lost);
    let recorder = events.recorder("tester");
    assert_eq!(recorder.warning(pod("secret"), "secret", "secret"), Recorded::ScrubPanicked);
    events.close();
    assert_eq!(recorder.warning(pod("secret"), "secret", "secret"), Recorded::Closed);
    let losses: Vec<_> = losses.try_iter().collect();
    assert_eq!(losses.len(), 2);
    assert!(losses.iter().all(|(_, _, shown)| !shown.contains("secret")), "{losses:?}");
    let stats = recorder.stats();
    assert_eq!((stats.scrub_panics, stats.closed, stats.refused(), stats.hook_panics), (1, 1, 2, 0));
}

#[test]
fn long_messages_are_cut_at_a_character_and_counted() {
    let fake = FakeRecorder::new(10);
    let recorder = fake.recorder("tester");
    let limit = 16 * 1024;
    recorder.event(foo(), Normal, "R", "x".repeat(limit));
    // Each character has three bytes, so the limit falls in the middle of a character.
    recorder.event(foo(), Normal, "R", format_args!("{}", "€".repeat(limit)));
    let events = fake.take();
    assert_eq!(events[0].message.len(), limit);
    assert!(!events[0].message.ends_with("..."));
    let cut = events[1].message.as_str();
    assert!(cut.ends_with("€..."), "{}", &cut[cut.len() - 12..]);
    assert!((limit - 3..=limit).contains(&cut.len()), "{}", cut.len());
    assert_eq!(recorder.stats().truncated, 1);
}

#[test]
fn messages_are_cut_to_the_limit_whatever_it_is() {
    for (limit, message, expected) in [
        (1, "äöüäöü", "."),
        (3, "äöüäöü", "..."),
        (4, "äöüäöü", "..."),
        (5, "äöüäöü", "ä..."),
        (8, "ääääääää", "ää..."),
        (12, "äöüäöü", "äöüäöü"),
    ] {
        let events = EventBroadcaster::builder().max_message_len(limit).build().unwrap();
        let recorder = events.recorder("test");
        let mut watcher = events.watch_builder().watch().unwrap();
        assert!(recorder.event(pod("web-0"), Normal, "R", message).is_accepted());
        assert_eq!(watcher.recv().unwrap().event().unwrap().message, expected, "{limit}");
        assert_eq!(recorder.stats().truncated, u64::from(limit < 12));
    }
}

#[test]
fn the_limit_of_a_message_holds_except_for_the_prefix_of_a_group() {
    let clock = clock();
    let events = clocked(&clock).max_message_len(20).build().unwrap();
    let sink = Scripted::obedient(&clock);
    events.record_to(sink.clone()).unwrap();
    let recorder = events.recorder("tester");
    for i in 0..10 {
        recorder.event(pod("a"), Normal, "R", format_args!("{i}: a message that is too long"));
    }
    events.shutdown();
    let mut lens: Vec<_> = sink.store.events().iter().map(|event| event.message.len()).collect();
    assert_eq!(lens.pop(), Some(20 + "(combined from similar events): ".len()));
    assert_eq!(lens, [20; 9]);
}
