//! Events as text for people: the table that `kubectl get events` prints, and the section of
//! `kubectl describe`.
//!
//! Both show the times that kubectl shows, from the same fields. Texts are escaped, and columns are
//! aligned by the width that characters have on a terminal.

use std::time::Duration;

use unicode_width::UnicodeWidthStr;

use crate::escape::{escape, escape_message};
use crate::record::event::{Event, Timestamp};

use super::api_rules::namespace_of;

/// Returns the table of `kubectl get events`: a line of heads, then one line for each event. Every
/// line ends in a newline. If the events are in several namespaces, the table has the column that
/// kubectl shows for `-A`.
pub(super) fn render(events: &[Event], now: Timestamp) -> String {
    let is_several = events.windows(2).any(|events| namespace_of(&events[0]) != namespace_of(&events[1]));
    EventTable::new(now).with_namespaces(is_several).rows(events)
}

/// The table of `kubectl get events` in parts, for any number of events. Each part is text to be
/// written out.
///
/// The first part begins with the head, and its cells set the widths of the columns. A later cell
/// that is wider widens its column from that part on.
///
/// # Examples
///
/// ```
/// use eventcast::sink::EventTable;
/// use eventcast::{Event, ObjectReference, Timestamp};
///
/// let mut event = Event::default();
/// event.involved_object = ObjectReference::new("Pod", "web-0");
/// (event.type_, event.reason, event.message) = ("Normal".into(), "Started".into(), "it runs".into());
/// let mut table = EventTable::new(Timestamp::UNIX_EPOCH);
/// assert_eq!(
///     table.rows(&[event.clone()]),
///     "LAST SEEN   TYPE     REASON    OBJECT      MESSAGE\n\
///      <unknown>   Normal   Started   pod/web-0   it runs\n"
/// );
/// assert_eq!(table.rows(&[event]), "<unknown>   Normal   Started   pod/web-0   it runs\n");
/// ```
#[derive(Clone, Debug)]
pub struct EventTable {
    now: Timestamp,
    widths: [usize; 6],
    has_namespaces: bool,
    has_head: bool,
}

impl EventTable {
    /// Creates a table that shows ages as of `now`.
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
    pub fn new(now: Timestamp) -> Self {
        Self { now, widths: [0; 6], has_namespaces: false, has_head: false }
    }

    /// Sets whether the first column shows the namespace, as with kubectl's `-A`. Default false.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::EventTable;
    /// use eventcast::{Event, Timestamp};
    ///
    /// let mut table = EventTable::new(Timestamp::UNIX_EPOCH).with_namespaces(true);
    /// let mut event = Event::default();
    /// event.metadata.namespace = "shop".into();
    /// let text = table.rows(&[event]);
    /// assert!(text.starts_with("NAMESPACE   LAST SEEN"));
    /// assert!(text.contains("\nshop        <unknown>"));
    /// ```
    #[must_use]
    pub fn with_namespaces(mut self, shown: bool) -> Self {
        self.has_namespaces = shown;
        self
    }

    /// Returns the next lines: one for each event, with a newline at the end of each. The first
    /// call puts the head before them.
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
        let hidden = usize::from(!self.has_namespaces);
        let mut lines = String::new();
        align(&mut lines, "", 3, &mut self.widths[hidden..], rows.iter().map(|row| &row[hidden..]));
        lines
    }
}

/// Returns the section `Events` of `kubectl describe`. The event that was last seen longest ago
/// comes first.
pub(super) fn describe(mut events: Vec<Event>, now: Timestamp) -> String {
    if events.is_empty() {
        return "Events:  <none>\n".to_owned();
    }
    // kubectl sorts by the last timestamp alone, which events of the newer API lack.
    events.sort_by_key(last_seen);
    let head = ["Type", "Reason", "Age", "From", "Message"].map(str::to_owned);
    let line = ["----", "------", "----", "----", "-------"].map(str::to_owned);
    let mut section = "Events:\n".to_owned();
    let rows: Vec<_> =
        [head, line].into_iter().chain(events.iter().map(|event| described(event, now))).collect();
    align(&mut section, "  ", 2, &mut [0; 5], rows.iter().map(|row| &row[..]));
    section
}

/// Returns the time at which the event was last seen, or `None` if the event does not say.
pub(super) fn last_seen(event: &Event) -> Option<Timestamp> {
    let last = match event.series() {
        Some(series) => series.last_observed_time,
        None => event.last_timestamp,
    };
    last.or(event.first_timestamp).or(event.event_time())
}

/// Appends rows to `out`, each after `indent`, with `padding` blanks between the columns. The last
/// column is not padded. The function reads the rows twice: first for the widths, which grow as
/// needed, then for the text.
fn align<'a>(
    out: &mut String,
    indent: &str,
    padding: usize,
    widths: &mut [usize],
    rows: impl Iterator<Item = &'a [String]> + Clone,
) {
    for row in rows.clone() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.width().max(*width);
        }
    }
    for row in rows {
        let Some((last, columns)) = row.split_last() else { continue };
        out.push_str(indent);
        for (cell, width) in columns.iter().zip(&*widths) {
            out.push_str(cell);
            out.extend(std::iter::repeat_n(' ', width + padding - cell.width()));
        }
        out.push_str(last);
        out.push('\n');
    }
}

fn row(event: &Event, now: Timestamp) -> [String; 6] {
    let object = &event.involved_object;
    let kind = object.kind.to_lowercase();
    let target = if object.name.is_empty() { kind } else { format!("{kind}/{}", object.name) };
    let last = age(last_seen(event), now);
    let count = event.series().map_or(event.count, |series| series.count);
    let seen = if count > 1 {
        let first = age(event.first_timestamp.or(event.event_time()), now);
        format!("{last} (x{count} over {first})")
    } else {
        last
    };
    let [namespace, seen, type_, reason, target] =
        [namespace_of(event), seen.as_str(), &event.type_, &event.reason, &target]
            .map(|cell| escape(cell).to_string());
    [namespace, seen, type_, reason, target, message(event)]
}

/// Returns the cells of one line of the section. They differ from those of the table:
///
/// - The event time takes precedence over the first timestamp.
/// - A series shows its count even if it is 1.
/// - The message names the part of the object that the event is about.
fn described(event: &Event, now: Timestamp) -> [String; 5] {
    let first = age(event.event_time().or(event.first_timestamp), now);
    let again = |count: i32, last| format!("{} (x{count} over {first})", age(last, now));
    let seen = match event.series() {
        Some(series) => again(series.count, series.last_observed_time),
        None if event.count > 1 => again(event.count, event.last_timestamp),
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
        // A time that is less than two seconds ahead comes from the clock of another machine, and
        // counts as now.
        Some(at) if at.duration_since(now) >= Duration::from_secs(2) => "<invalid>".to_owned(),
        Some(at) => short(now.duration_since(at).as_secs()),
    }
}

/// Returns an age as kubectl shortens it: to about two figures, in finer units for younger ages.
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
    use super::{age, short};
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
    fn an_age_in_the_future_is_now_or_invalid() {
        let now = Timestamp::UNIX_EPOCH;
        let after = |millis| Some(now.saturating_add(Duration::from_millis(millis)));
        assert_eq!(age(after(1_999), now), "0s");
        assert_eq!(age(after(2_000), now), "<invalid>");
        assert_eq!(age(None, now), "<unknown>");
    }
}
