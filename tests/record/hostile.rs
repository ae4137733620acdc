//! A hostile event, and checks that its text has no effect on a terminal.

use eventcast::{Event, ObjectReference};

/// Text that clears the screen, moves the cursor to the corner, changes colours with a sequence
/// that is one byte shorter, overwrites the line, moves back, deletes, reverses the writing
/// direction, and begins a new line. This is followed by a title that the terminal could send back
/// to a shell, and by invisible characters: a zero-width space, a joiner that joins nothing, a
/// selector without a symbol, a Hangul filler, and a word in tag characters.
pub(crate) const PAYLOAD: &str = "\u{1b}[2J\u{1b}[1;1H\u{9b}31mpwned\rNormal\u{8}\u{7f}\u{202e}txet\u{2066}\u{2028}next\n\
                       LAST SEEN\t\u{1b}]0;title\u{7}\u{0}\u{85}\u{200f}pod-\u{200b}\u{200d}0\u{fe0f}\u{3164}\u{e0072}\u{e006d}\u{e0100}";
pub(crate) const SHOWN: &str = r"\u{1b}[2J\u{1b}[1;1H\u{9b}31mpwned\rNormal\u{8}\u{7f}\u{202e}txet\u{2066}\u{2028}next\nLAST SEEN\t\u{1b}]0;title\u{7}\u{0}\u{85}\u{200f}pod-\u{200b}\u{200d}0\u{fe0f}\u{3164}\u{e0072}\u{e006d}\u{e0100}";

pub(crate) fn hostile() -> Event {
    let mut event = Event::default();
    event.metadata.name = PAYLOAD.into();
    event.involved_object = ObjectReference::new(PAYLOAD, PAYLOAD).in_namespace(PAYLOAD);
    event.involved_object.uid = PAYLOAD.into();
    event.involved_object.field_path = PAYLOAD.into();
    event.involved_object.api_version = PAYLOAD.into();
    (event.type_, event.reason, event.message) = (PAYLOAD.into(), PAYLOAD.into(), PAYLOAD.into());
    event.source = PAYLOAD.into();
    event.reporting_controller = PAYLOAD.into();
    event
}

/// The beginning of the payload as it is displayed. Text from a store is displayed only up to a
/// maximum length.
pub(crate) const BEGINNING: &str = r"\u{1b}[2J\u{1b}[1;1H\u{9b}31mpwned\rNormal";

/// Asserts that the text is harmless and contains the payload.
#[track_caller]
pub(crate) fn assert_harmless_error(shown: &str) {
    assert_harmless(shown, 1, 0);
    assert!(shown.contains(BEGINNING), "{shown}");
}

/// Asserts that the text has `lines` lines, contains nothing that a terminal would interpret, and
/// contains the payload in escaped form at least `times` times.
#[track_caller]
pub(crate) fn assert_harmless(shown: &str, lines: usize, times: usize) {
    let is_obeyed = |c: char| (c.is_control() && c != '\n') || is_hidden(c);
    assert!(!shown.contains(is_obeyed), "{shown:?}");
    assert_eq!(shown.lines().count(), lines, "{shown}");
    // Kinds are displayed in lower case.
    let found = shown.to_lowercase().matches(&SHOWN.to_lowercase()).count();
    assert!(found >= times, "{found} times in {shown}");
}

/// Returns whether the character changes the writing direction, separates lines, or is not shown.
pub(crate) fn is_hidden(c: char) -> bool {
    let single = "\u{ad}\u{34f}\u{61c}\u{115f}\u{1160}\u{17b4}\u{17b5}\u{3164}\u{feff}\u{ffa0}";
    single.contains(c)
        || matches!(
            u32::from(c),
            0x180b..=0x180f | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfe00..=0xfe0f
                | 0xfff0..=0xfffc | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0000..=0xe0fff
        )
}
