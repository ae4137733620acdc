//! Events for people: the table that `kubectl get events` prints.

use std::time::Duration;

use unicode_width::UnicodeWidthStr;

use crate::escape::escaped;
use crate::event::{Event, Timestamp};

const HEAD: [&str; 5] = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"];
/// kubectl's.
const PADDING: usize = 3;

/// One line for each event, columns aligned, and a newline at the end of each line.
pub(super) fn render(events: &[Event], now: Timestamp) -> String {
    let head = HEAD.map(str::to_owned);
    let rows: Vec<[String; 5]> =
        std::iter::once(head).chain(events.iter().map(|event| cells(event, now))).collect();
    let mut widths = [0; 5];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.width().max(*width);
        }
    }
    let mut table = String::new();
    for row in &rows {
        let [columns @ .., last] = row;
        for (cell, width) in columns.iter().zip(widths) {
            table.push_str(cell);
            table.extend(std::iter::repeat_n(' ', width + PADDING - cell.width()));
        }
        table.push_str(last);
        table.push('\n');
    }
    table
}

fn cells(event: &Event, now: Timestamp) -> [String; 5] {
    let object = &event.involved_object;
    let kind = object.kind.to_lowercase();
    let target = if object.name.is_empty() { kind } else { format!("{kind}/{}", object.name) };
    [
        last_seen(event, now),
        event.type_.to_string(),
        event.reason.to_string(),
        target,
        event.message.trim().to_owned(),
    ]
    .map(|cell| escaped(&cell).to_string())
}

/// When it was last seen; of what was seen more than once, how often and since when.
fn last_seen(event: &Event, now: Timestamp) -> String {
    let first = event.first_timestamp.or(event.event_time());
    let (count, last) = match event.series() {
        Some(series) => (series.count, series.last_observed_time),
        None => (event.count, event.last_timestamp),
    };
    let last = age(last.or(first), now);
    if count > 1 { format!("{last} (x{count} over {})", age(first, now)) } else { last }
}

fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    match since {
        None => "<unknown>".to_owned(),
        // Up to two seconds ahead is the other machine's clock.
        Some(at) if at.duration_since(now) >= Duration::from_secs(2) => "<invalid>".to_owned(),
        Some(at) => short(now.duration_since(at).as_secs()),
    }
}

/// As kubectl shortens ages: about two figures, the finer the younger.
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
    use crate::event::Timestamp;
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
