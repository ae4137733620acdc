//! Formats events as human-readable text, either as the table of `kubectl get events`, with the
//! counts that `kubectl events` shows, or as the `Events` section of `kubectl describe`.
//!
//! Both formats show the same times as kubectl, taken from the same fields. The cells are escaped,
//! and columns are aligned based on the display width of characters on a terminal.

use std::borrow::Cow;
use std::time::Duration;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::escape::{escape, escape_message};
use crate::record::event::{Event, Timestamp};

use super::rules::namespace_of;

/// Formats any list of events as text, either as a table like `kubectl get events` or like the
/// `Events` section in `kubectl describe`.
///
/// The table can be written in parts, so the number of events is not limited. Each call to
/// [`rows`](Self::rows) returns one part as text. The first part begins with the header, and the
/// cells in the first part determine the column widths. If a cell in a later part is wider, the
/// column becomes wider from that part onwards.
///
/// If an event was seen more than once, the table shows how often and over what period, for example
/// `2s (x5 over 30s)`, like `kubectl events`. All control characters are escaped. Columns remain
/// aligned even if they contain wide characters.
///
/// # Examples
///
/// ```
/// use eventcast::sink::EventTable;
/// use eventcast::testing::FakeClock;
/// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
/// use std::time::{Duration, SystemTime};
///
/// let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
/// let store = MemorySink::with_clock(Default::default(), clock.clock())?;
/// let events = EventBroadcaster::builder().clock(clock.clock()).build()?;
/// events.record_to(store.clone())?;
/// for _ in 0..5 {
///     events.recorder("kubelet").warning(ObjectReference::new("Pod", "web-0"), "BackOff", "restarting");
/// }
/// events.shutdown();
/// clock.advance(Duration::from_secs(3));
///
/// assert_eq!(
///     EventTable::new(clock.clock().now()).rows(&store.events()),
///     "LAST SEEN         TYPE      REASON    OBJECT      MESSAGE\n\
///      3s (x5 over 3s)   Warning   BackOff   pod/web-0   restarting\n"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a table writes nothing by itself"]
#[derive(Clone, Debug)]
pub struct EventTable {
    now: Timestamp,
    widths: [usize; 6],
    max_width: usize,
    /// Whether the namespaces are shown. `None` until the value is set by `namespaces` or
    /// determined by the first call to `rows`.
    has_namespaces: Option<bool>,
    has_color: bool,
    has_head: bool,
}

impl EventTable {
    /// Creates a table that shows ages relative to `now`, such as `SystemTime::now()`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::EventTable;
    /// use eventcast::{Event, Timestamp};
    /// use std::time::Duration;
    ///
    /// let mut event = Event::default();
    /// event.last_timestamp = Some(Timestamp::UNIX_EPOCH);
    /// let now = Timestamp::UNIX_EPOCH.saturating_add(Duration::from_secs(150));
    /// assert!(EventTable::new(now).rows(&[event]).contains("\n2m30s "));
    /// ```
    pub fn new(now: impl Into<Timestamp>) -> Self {
        Self {
            now: now.into(),
            widths: [0; 6],
            max_width: usize::MAX,
            has_namespaces: None,
            has_color: false,
            has_head: false,
        }
    }

    /// Sets whether the first column shows the namespace, like kubectl's `-A` option. By default,
    /// the namespace is shown if the events in the first call to [`rows`](Self::rows) are in more
    /// than one namespace.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::EventTable;
    /// use eventcast::{Event, Timestamp};
    ///
    /// let mut table = EventTable::new(Timestamp::UNIX_EPOCH).namespaces(true);
    /// let mut event = Event::default();
    /// event.metadata.namespace = "shop".into();
    /// let text = table.rows(&[event]);
    /// assert!(text.starts_with("NAMESPACE   LAST SEEN"));
    /// assert!(text.contains("\nshop        <unknown>"));
    /// ```
    pub fn namespaces(mut self, shown: bool) -> Self {
        self.has_namespaces = Some(shown);
        self
    }

    /// Sets the maximum width of a line, in terminal columns. If a line is wider, it is truncated,
    /// usually in the message, where `…` marks the truncation. By default, the width is unlimited.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::EventTable;
    /// use eventcast::{Event, Timestamp};
    ///
    /// let mut event = Event::default();
    /// (event.type_, event.reason, event.message) = ("Normal".into(), "Pulled".into(), "the image".into());
    /// let mut table = EventTable::new(Timestamp::UNIX_EPOCH).width(46);
    /// assert_eq!(
    ///     table.rows(&[event]),
    ///     "LAST SEEN   TYPE     REASON   OBJECT   MESSAGE\n\
    ///      <unknown>   Normal   Pulled            the im…\n"
    /// );
    /// ```
    pub fn width(mut self, columns: usize) -> Self {
        self.max_width = columns;
        self
    }

    /// Sets whether ANSI escape sequences colour the type `Warning` yellow and the reason `Failed`
    /// red. A type or reason that merely contains one of these words is not coloured. Defaults to
    /// `false`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::EventTable;
    /// use eventcast::{Event, Timestamp};
    ///
    /// let mut event = Event::default();
    /// (event.type_, event.reason) = ("Warning".into(), "Failed".into());
    /// let table = EventTable::new(Timestamp::UNIX_EPOCH).color(true).rows(&[event]);
    /// assert!(table.contains("   \u{1b}[33mWarning\u{1b}[0m   \u{1b}[31mFailed\u{1b}[0m   "));
    /// ```
    pub fn color(mut self, shown: bool) -> Self {
        self.has_color = shown;
        self
    }

    /// Returns the next lines of the table, with one line per event. Each line has a trailing
    /// newline. On the first call, the lines are preceded by the header.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::EventTable;
    /// use eventcast::{Event, Timestamp};
    ///
    /// let mut table = EventTable::new(Timestamp::UNIX_EPOCH);
    /// assert_eq!(table.rows(&[]), "LAST SEEN   TYPE   REASON   OBJECT   MESSAGE\n");
    /// assert_eq!(table.rows(&[Event::default(), Event::default()]).lines().count(), 2);
    /// assert_eq!(table.rows(&[]), "");
    /// ```
    pub fn rows(&mut self, events: &[Event]) -> String {
        let head = ["NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"].map(str::to_owned);
        let head = (!self.has_head).then_some(head);
        self.has_head = true;
        let rows: Vec<_> = head.into_iter().chain(events.iter().map(|event| row(event, self.now))).collect();
        let has_namespaces = *self.has_namespaces.get_or_insert_with(|| {
            events.windows(2).any(|pair| namespace_of(&pair[0]) != namespace_of(&pair[1]))
        });
        let hidden = usize::from(!has_namespaces);
        let layout = self.layout("", 3, 2 - hidden);
        let mut lines = String::new();
        layout.align(&mut lines, &mut self.widths[hidden..], rows.iter().map(|row| &row[hidden..]));
        lines
    }

    /// Formats the events like the `Events` section in `kubectl describe`, with this table's width
    /// and colours. The least recently seen event is listed first. If an event concerns only a part
    /// of the object, the part precedes the message, as in
    /// `spec.containers{web}: Started container`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::EventTable;
    /// use eventcast::{Event, Timestamp};
    ///
    /// let mut event = Event::default();
    /// (event.type_, event.reason, event.message) = ("Normal".into(), "Started".into(), "it runs".into());
    /// assert_eq!(
    ///     EventTable::new(Timestamp::UNIX_EPOCH).describe(&[event]),
    ///     "Events:\n  \
    ///        Type    Reason   Age        From  Message\n  \
    ///        ----    ------   ----       ----  -------\n  \
    ///        Normal  Started  <unknown>        it runs\n"
    /// );
    /// assert_eq!(EventTable::new(Timestamp::UNIX_EPOCH).describe(&[]), "Events:  <none>\n");
    /// ```
    pub fn describe(&self, events: &[Event]) -> String {
        if events.is_empty() {
            return "Events:  <none>\n".to_owned();
        }
        let mut events: Vec<&Event> = events.iter().collect();
        // kubectl sorts only by the last timestamp, which is missing in events of the newer API.
        events.sort_by_key(|event| event.last_seen());
        let head = ["Type", "Reason", "Age", "From", "Message"].map(str::to_owned);
        let line = ["----", "------", "----", "----", "-------"].map(str::to_owned);
        let events = events.into_iter().map(|event| described(event, self.now));
        let rows: Vec<_> = [head, line].into_iter().chain(events).collect();
        let mut section = "Events:\n".to_owned();
        self.layout("  ", 2, 0).align(&mut section, &mut [0; 5], rows.iter().map(|row| &row[..]));
        section
    }

    fn layout(&self, indent: &'static str, padding: usize, type_at: usize) -> Layout {
        Layout { indent, padding, max_width: self.max_width, type_at: self.has_color.then_some(type_at) }
    }
}

/// The layout of the lines in a table or section.
struct Layout {
    /// The string at the beginning of each line.
    indent: &'static str,
    /// The number of spaces between columns.
    padding: usize,
    max_width: usize,
    /// The index of the type column, or `None` if colours are disabled. The next column is the
    /// reason.
    type_at: Option<usize>,
}

impl Layout {
    /// Appends rows to `out`. The last column is not padded. The rows are iterated over twice,
    /// first to increase the widths as needed, and then to write the text.
    fn align<'a>(
        &self,
        out: &mut String,
        widths: &mut [usize],
        rows: impl Iterator<Item = &'a [String]> + Clone,
    ) {
        for row in rows.clone() {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        for row in rows {
            self.append(out, row, widths);
        }
    }

    /// Appends one row, truncated to the maximum width.
    fn append(&self, out: &mut String, row: &[String], widths: &[usize]) {
        let mut left = self.max_width - self.indent.len().min(self.max_width);
        out.push_str(self.indent);
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let shown = cut(cell, left);
            out.push_str(&self.painted(column, &shown));
            let used = shown.width();
            left -= used;
            if column + 1 < row.len() {
                let blanks = (width + self.padding - used).min(left);
                out.extend(std::iter::repeat_n(' ', blanks));
                left -= blanks;
            }
        }
        out.push('\n');
    }

    fn painted<'a>(&self, column: usize, cell: &'a str) -> Cow<'a, str> {
        let is_at = |offset| self.type_at.is_some_and(|type_at| type_at + offset == column);
        let color = match cell {
            "Warning" if is_at(0) => 33,
            "Failed" if is_at(1) => 31,
            _ => return cell.into(),
        };
        format!("\u{1b}[{color}m{cell}\u{1b}[0m").into()
    }
}

/// Truncates the text to a number of columns. Truncated text ends with `…`, unless `columns` is 0.
fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    if text.width() <= columns {
        return text.into();
    }
    let Some(room) = columns.checked_sub(1) else { return "".into() };
    // A sequence of characters can be narrower or wider than the sum of their widths. The sum is
    // used first, to avoid measuring long text repeatedly.
    let mut sum = 0;
    let is_beyond = |c: char| {
        sum += c.width().unwrap_or(0);
        sum > room
    };
    let mut kept = &text[..text.find(is_beyond).unwrap_or(text.len())];
    while kept.width() > room {
        kept = &kept[..kept.char_indices().next_back().map_or(0, |(at, _)| at)];
    }
    format!("{kept}…").into()
}

fn row(event: &Event, now: Timestamp) -> [String; 6] {
    let object = &event.involved_object;
    let kind = object.kind.to_lowercase();
    let target = if object.name.is_empty() { kind } else { format!("{kind}/{}", object.name) };
    let last = age(event.last_seen(), now);
    let count = event.occurrences();
    let seen = if count > 1 {
        let first = age(event.first_seen(), now);
        format!("{last} (x{count} over {first})")
    } else {
        last
    };
    let [namespace, seen, type_, reason, target] =
        [namespace_of(event), seen.as_str(), &event.type_, &event.reason, &target]
            .map(|cell| escape(cell).to_string());
    [namespace, seen, type_, reason, target, message(event)]
}

/// Returns the cells for a line in the `Events` section. These cells differ from the table's as
/// follows:
///
/// - The event time takes precedence over the first timestamp.
/// - A series shows its count even if it is 1.
/// - The message names the part of the object that the event is about.
fn described(event: &Event, now: Timestamp) -> [String; 5] {
    let first = age(event.event_time().or(event.first_timestamp), now);
    let again = |count: i32| format!("{} (x{count} over {first})", age(event.last_seen(), now));
    let seen = match event.series() {
        Some(series) => again(series.count),
        None if event.count > 1 => again(event.count),
        None => first,
    };
    let component = &event.source.component;
    let from = if component.is_empty() { &event.reporting_controller } else { component };
    let [type_, reason, seen, from] =
        [&event.type_, &event.reason, seen.as_str(), from].map(|cell| escape(cell).to_string());
    let part = event.involved_object.field_path.as_str();
    let message = message(event);
    let message = if part.is_empty() { message } else { format!("{}: {message}", escape(part)) };
    [type_, reason, seen, from, message]
}

fn message(event: &Event) -> String {
    escape_message(event.message.trim()).to_string()
}

fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    match since {
        None => "<unknown>".to_owned(),
        // A time less than two seconds in the future is attributed to another machine's clock, and
        // is treated as the current time.
        Some(at) if at.duration_since(now) >= Duration::from_secs(2) => "<invalid>".to_owned(),
        Some(at) => short(now.duration_since(at).as_secs()),
    }
}

/// Formats an age like kubectl, with about two digits, and with finer units for shorter ages.
fn short(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => pair(days, "d", hours % 24, "h"),
        () if days < 2 * 365 => format!("{days}d"),
        () if days < 8 * 365 => pair(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}

fn pair(large: u64, unit: &str, small: u64, small_unit: &str) -> String {
    if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
}

#[cfg(test)]
mod tests {
    use super::{EventTable, age, cut, short};
    use crate::record::event::Event;
    use crate::record::event::Timestamp;
    use std::time::Duration;

    #[test]
    fn ages_are_shortened_as_kubectl_does() {
        let (minute, hour, day, year) = (60, 3600, 86_400, 365 * 86_400);
        for (seconds, expected) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (10 * minute - 1, "9m59s"),
            (10 * minute, "10m"),
            (3 * hour - 1, "179m"),
            (3 * hour, "3h"),
            (3 * hour + 5 * minute, "3h5m"),
            (8 * hour - 1, "7h59m"),
            (8 * hour, "8h"),
            (2 * day - 1, "47h"),
            (2 * day, "2d"),
            (2 * day + hour, "2d1h"),
            (8 * day - 1, "7d23h"),
            (8 * day, "8d"),
            (2 * year - 1, "729d"),
            (2 * year, "2y"),
            (2 * year + day, "2y1d"),
            (8 * year - 1, "7y364d"),
            (8 * year, "8y"),
        ] {
            assert_eq!(short(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn a_cut_text_has_room_for_its_mark() {
        // This emoji is displayed as one character of width 2, but consists of three characters.
        let hair = "\u{1f469}\u{200d}\u{1f9b0}";
        for (text, columns, expected) in [
            ("message", 7, "message"),
            ("message", 6, "messa…"),
            ("message", 1, "…"),
            ("message", 0, ""),
            ("", 0, ""),
            ("起動する", 8, "起動する"),
            ("起動する", 7, "起動す…"),
            ("起動する", 6, "起動…"),
            (hair, 2, hair),
            ("\u{2764}\u{fe0f}\u{2764}\u{fe0f}", 3, "\u{2764}\u{fe0f}…"),
            ("\u{2764}\u{fe0f}\u{2764}\u{fe0f}", 2, "\u{2764}…"),
        ] {
            assert_eq!(cut(text, columns), expected, "{text} in {columns}");
        }
    }

    #[test]
    fn no_line_is_wider_than_asked_for() {
        use unicode_width::UnicodeWidthStr as _;
        let mut event = Event::default();
        (event.type_, event.reason) = ("Warning".into(), "FailedScheduling".into());
        event.message = "起動 cannot \u{1b}[2J be scheduled 🙂🙂🙂".repeat(9).into();
        for width in 0..200 {
            for namespaces in [false, true] {
                let table = EventTable::new(Timestamp::UNIX_EPOCH).namespaces(namespaces);
                let mut table = table.width(width);
                let text = table.rows(&[event.clone()]) + &table.describe(&[event.clone()]);
                let lines = text.lines().filter(|line| *line != "Events:");
                for line in lines {
                    assert!(line.width() <= width.max(2), "{width}: {line}");
                    let is_cut = line.ends_with('…');
                    assert!(is_cut || width < 90 || !line.contains("FailedScheduling"), "{line}");
                }
            }
        }
    }

    #[test]
    fn only_whole_words_in_their_columns_have_colours() {
        let mut event = Event::default();
        (event.type_, event.reason, event.message) =
            ("Failed".into(), "Warning".into(), "Failed Warning".into());
        let mut longer = event.clone();
        (longer.type_, longer.reason) = ("Warnings".into(), "FailedMount".into());
        let mut failed = event.clone();
        (failed.type_, failed.reason) = ("Warning".into(), "Failed".into());
        let (now, others) = (Timestamp::UNIX_EPOCH, [event, longer]);
        let table = EventTable::new(now).color(true);
        for plain in [table.clone().rows(&others), table.describe(&others)] {
            assert!(!plain.contains('\u{1b}'), "{plain}");
        }
        for namespaces in [false, true] {
            let mut table = table.clone().namespaces(namespaces);
            let colored = [table.rows(&[failed.clone()]), table.describe(&[failed.clone()])];
            for text in colored {
                let words = ["\u{1b}[33mWarning\u{1b}[0m", "\u{1b}[31mFailed\u{1b}[0m"];
                assert!(words.iter().all(|word| text.matches(word).count() == 1), "{text}");
                assert_eq!(text.matches('\u{1b}').count(), 4, "{text}");
            }
        }
    }

    #[test]
    fn an_age_in_the_future_is_now_or_invalid() {
        let now = Timestamp::UNIX_EPOCH;
        let after = |millis| Some(now.saturating_add(Duration::from_millis(millis)));
        assert_eq!(age(after(1_999), now), "0s");
        assert_eq!(age(after(2_000), now), "<invalid>");
        assert_eq!(age(None, now), "<unknown>");
    }
}
