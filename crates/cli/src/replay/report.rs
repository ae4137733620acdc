//! Prints the result of a run, as one human-readable screen or as JSON.

use std::fmt::Write as _;

use serde_json::json;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::input::Input;
use super::run::{Key, Outcome, Tally};
use crate::support::duration::rough;
use crate::support::number::{counted, grouped};
use crate::support::text::{cut as start, harmless_json, plain};

/// The number of noisiest keys to show.
const NOISIEST: usize = 10;
/// The maximum widths of an object and of the other names, in terminal columns.
const OBJECT: usize = 56;
const WIDTH: usize = 28;
/// The minimum width left for the names on a narrow terminal, in columns.
const LEAST: usize = 20;

/// Returns the report. On a terminal, lines that contain names are truncated to the terminal's
/// width.
pub(crate) fn text(input: &Input, outcome: &Outcome, columns: Option<usize>) -> String {
    let mut out = String::new();
    // Writing to a string never fails.
    let _ = write_head(&mut out, input, outcome).and_then(|()| {
        // If no events were replayed, there are no figures to show.
        if outcome.keys.is_empty() {
            return Ok(());
        }
        write_figures(&mut out, outcome).and_then(|()| write_noisiest(&mut out, outcome, columns))
    });
    out
}

fn write_head(out: &mut String, input: &Input, outcome: &Outcome) -> std::fmt::Result {
    if let Some((first, last)) = input.span {
        let span = last.duration_since(first).as_secs();
        let all = counted(input.number, "event");
        writeln!(out, "{all} in {}, from {first:.0} to {last:.0}", rough(span))?;
    }
    let lost = input.problems.lost();
    if lost > 0 {
        writeln!(out, "{} could not be read", grouped(lost))?;
    }
    if input.without_object > 0 {
        let which = match (input.without_object, input.number) {
            (1, 1) => "It names".to_owned(),
            (one, all) if one == all => "They name".to_owned(),
            (1, _) => "1 of them names".to_owned(),
            (some, _) => format!("{} of them name", grouped(some)),
        };
        writeln!(out, "{which} no object, so no correlator can process them: see 'involvedObject'")?;
    }
    if !input.is_expanded && input.occurrences > input.number {
        let occurrences = grouped(input.occurrences);
        writeln!(out, "Their counts add up to {occurrences}; --expand replays every one.")?;
    }
    if outcome.reporters > 1 {
        let reporters = grouped(outcome.reporters);
        writeln!(out, "{reporters} programs reported them, each with its own correlator.")?;
    }
    Ok(())
}

fn write_figures(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let (events, stats) = (outcome.events(), outcome.stats);
    writeln!(out)?;
    let mut row = |name: &str, count: u64, note: &str| {
        let share = percent(count, events);
        writeln!(out, "{name:<12}{:>12}{share:>9.1} %  {note}", grouped(count)).map(|()| ())
    };
    row("created", stats.created, "stored as new events")?;
    row("updated", stats.updated, "counted on stored events")?;
    row("filtered", stats.filtered, "too many of one source about one object")?;
    row("aggregated", stats.aggregated, "of all these: folded with similar ones")?;
    let calls = outcome.calls();
    row("API calls", calls, &format!("saved: {:.1} %", 100.0 - percent(calls, events)))?;
    if stats.evicted > 0 {
        let evicted = grouped(stats.evicted);
        writeln!(out, "\nThe caches evicted {evicted} entries to make room: raise --cache-size")?;
    }
    Ok(())
}

fn write_noisiest(out: &mut String, outcome: &Outcome, columns: Option<usize>) -> std::fmt::Result {
    writeln!(out, "\n{:>9}{:>9}{:>9}{:>9}  NOISIEST", "EVENTS", "CREATED", "UPDATED", "FILTERED")?;
    for (key, Tally { events, created, updated, filtered }) in outcome.keys.iter().take(NOISIEST) {
        let Key { object, reason, source } = key;
        let [object, reason, source] = [(object.as_str(), OBJECT), (reason, WIDTH), (source, WIDTH)]
            .map(|(name, width)| cut(&plain(name), width));
        let [events, created, updated, filtered] = [events, created, updated, filtered].map(|n| grouped(*n));
        let figures = format!("{events:>9}{created:>9}{updated:>9}{filtered:>9}  ");
        let room = columns.map_or(usize::MAX, |columns| columns.saturating_sub(figures.len()).max(LEAST));
        let source = if source.is_empty() { String::new() } else { format!(" ({source})") };
        writeln!(out, "{figures}{}", cut(&format!("{reason} {object}{source}"), room))?;
    }
    if outcome.keys.len() > NOISIEST {
        writeln!(out, "and {} more", grouped((outcome.keys.len() - NOISIEST) as u64))?;
    }
    Ok(())
}

pub(crate) fn json(input: &Input, outcome: &Outcome) -> String {
    let noisiest: Vec<_> = outcome
        .keys
        .iter()
        .take(NOISIEST)
        .map(|(key, tally)| {
            json!({
                "object": key.object, "reason": &*key.reason, "source": &*key.source, "events": tally.events,
                "created": tally.created, "updated": tally.updated, "filtered": tally.filtered,
            })
        })
        .collect();
    let report = json!({
        "events": input.number,
        "first": input.span.map(|(first, _)| first.to_string()),
        "last": input.span.map(|(_, last)| last.to_string()),
        "unreadable": input.problems.lost(),
        "withoutObject": input.without_object,
        "occurrences": input.occurrences,
        "stats": outcome.stats,
        "apiCalls": outcome.calls(),
        "apiCallsSavedPercent": 100.0 - percent(outcome.calls(), outcome.events()),
        "reporters": outcome.reporters,
        "keys": outcome.keys.len(),
        "noisiest": noisiest,
    });
    format!("{}\n", harmless_json(&report.to_string()))
}

#[allow(clippy::cast_precision_loss, reason = "counts of events are far below 2^53")]
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Removes the middle of text that is wider than `width` columns. The end is kept because names
/// often differ only at the end.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let half = (width - 2) / 2;
    let mut used = 0;
    let fits = |(_, c): &(usize, char)| {
        used += c.width().unwrap_or(0);
        used <= half
    };
    let end = text.char_indices().rev().take_while(fits).last().map_or("", |(at, _)| &text[at..]);
    format!("{}..{end}", start(text, half))
}

#[cfg(test)]
mod tests {
    use super::{cut, text};
    use crate::replay::input::Input;
    use crate::replay::run::{Key, Outcome, Tally};
    use eventcast::stats::CorrelatorStats;

    #[test]
    fn names_are_cut_in_the_middle() {
        assert_eq!(cut("web-frontend-0", 14), "web-frontend-0");
        assert_eq!(cut("web-frontend-0", 10), "web-..nd-0");
        // Each of the following characters is two columns wide.
        assert_eq!(cut("起動起動起動", 12), "起動起動起動");
        assert_eq!(cut("起動起動起動", 10), "起動..起動");
        assert_eq!(cut("起動起動起動", 8), "起..動");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let object = format!("Pod/default/{}", "x".repeat(60));
        let key = Key { object, reason: "BackOff".into(), source: "kubelet".into() };
        let tally = Tally { events: 7, created: 1, updated: 6, filtered: 0 };
        let outcome = Outcome { stats: CorrelatorStats::default(), reporters: 1, keys: vec![(key, tally)] };
        let widest = |columns| {
            let text = text(&Input::default(), &outcome, columns);
            text.lines().map(|line| line.chars().count()).max().unwrap()
        };
        assert_eq!((widest(None), widest(Some(500)), widest(Some(80))), (112, 112, 80));
    }
}
