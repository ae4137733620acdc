//! Strings, times and events that programs do not normally produce.

use eventcast::event::EventSeries;
use eventcast::{Event, EventSource, ObjectReference, Timestamp};
use proptest::prelude::*;

/// Generates arbitrary text, which usually contains parts that a terminal would interpret.
pub(crate) fn text() -> impl Strategy<Value = String> {
    let nasty = prop::sample::select(vec![
        "\0",
        "\n",
        "\r",
        "\t",
        "\u{7}",
        "\u{8}",
        "\u{1b}[2K",
        "\u{1b}]0;x\u{7}",
        "\u{7f}",
        "\u{85}",
        "\u{9b}1m",
        "\u{61c}",
        "\u{200e}",
        "\u{200f}",
        "\u{202a}",
        "\u{202e}",
        "\u{2028}",
        "\u{2029}",
        "\u{2066}",
        "\u{2069}",
        "\u{feff}",
        "\u{fffd}",
        "\u{10ffff}",
        "\"",
        "\\",
        "\\u0000",
        "<&>",
        "é",
        "日本",
        "😀",
        "web-0",
        "BackOff",
        " ",
    ]);
    let soup = prop::collection::vec(nasty, 0..8).prop_map(|parts| parts.concat());
    prop_oneof![1 => Just(String::new()), 3 => soup, 2 => any::<String>(), 1 => "[a-z]{1,8}"]
}

pub(crate) fn time() -> impl Strategy<Value = Timestamp> {
    let seconds =
        prop_oneof![any::<i64>(), -62_167_219_200..253_402_300_800_i64, 1_700_000_000..1_700_001_000_i64];
    (seconds, any::<u32>()).prop_filter_map("a time that there is", |(seconds, nanoseconds)| {
        Timestamp::new(seconds, nanoseconds % 1_000_000_000)
    })
}

pub(crate) fn reference() -> impl Strategy<Value = ObjectReference> {
    [text(), text(), text(), text(), text()].prop_map(|[kind, name, namespace, uid, path]| {
        let mut object = ObjectReference::new(kind, name).in_namespace(namespace);
        object.uid = uid.into();
        object.field_path = path.into();
        object
    })
}

pub(crate) fn event() -> impl Strategy<Value = Event> {
    let times = (prop::option::of(time()), prop::option::of(time()), prop::option::of(time()));
    let names = [text(), text(), text(), text(), text(), text()];
    let rare = (prop::option::of((any::<i32>(), time())), prop::option::of(reference()), text());
    (reference(), names, times, any::<i32>(), rare).prop_map(|(object, names, times, count, rare)| {
        let [name, namespace, reason, message, component, type_] = names;
        let mut event = Event::default();
        event.metadata.name = name.into();
        event.metadata.namespace = namespace.into();
        event.metadata.labels_mut().insert(reason.clone().into(), message.clone().into());
        event.involved_object = object;
        event.reason = reason.into();
        event.message = message.into();
        event.source = EventSource::from(component);
        event.type_ = type_.into();
        (event.first_timestamp, event.last_timestamp) = (times.0, times.1);
        event.set_event_time(times.2);
        event.count = count;
        event.set_series(rare.0.map(|(count, at)| EventSeries::new(count, at)));
        event.set_related(rare.1);
        event.set_action(rare.2);
        event
    })
}

/// Returns whether a terminal or a log would treat the character as something other than text. The
/// test has its own list, so that the library does not decide which characters it has to escape.
pub(crate) fn is_dangerous(c: char) -> bool {
    let code = u32::from(c);
    matches!(code, 0..=0x1f | 0x7f..=0x9f | 0x61c | 0x200e | 0x200f | 0x2028..=0x202e | 0x2066..=0x2069)
}
