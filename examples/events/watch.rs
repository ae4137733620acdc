//! Prints what is in the store, and then what is written to it, line by line.

use std::error::Error;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use eventcast::escape::escape_message;
use eventcast::sink::EventQuery;
use eventcast::{Event, SqliteSink};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::args::Form;
use super::show::is_read;
use super::support::output::complain;
use super::support::text::{harmless_json, plain};

/// The longest time that Ctrl-C may have to wait.
const NAP: Duration = Duration::from_millis(50);

pub(crate) fn watch(
    mut store: SqliteSink,
    query: &EventQuery,
    limit: Option<usize>,
    form: Form,
    interval: Duration,
) -> Result<(), Box<dyn Error>> {
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, is_over.clone())
            .map_err(|error| format!("cannot wait for signals: {error}"))?;
    }
    let mut file = identity(store.path());
    // The limit is about the events that are there at first.
    let mut first = limit.map(|limit| query.clone().limit(limit));
    let mut seen = 0;
    loop {
        let newest = store.version()?;
        if newest < seen {
            complain("events: the store was emptied, and the watch begins again");
            seen = 0;
        }
        let wanted = first.take().unwrap_or_else(|| query.clone()).after(seen);
        for event in store.stream(&wanted)? {
            let event = event?;
            seen = event.metadata.resource_version().parse()?;
            if !print(&event, form)? {
                return Ok(());
            }
        }
        seen = seen.max(newest);
        if !print_out()? || !rest(interval, &is_over) {
            return Ok(());
        }
        // A program that has a file open still sees the file after its removal, and nothing is
        // written there any more.
        let now = identity(store.path());
        if now.is_some() && now != file {
            // A file that is still being made is not a store yet.
            let Ok(other) = SqliteSink::open_read_only(store.path()) else { continue };
            complain("events: another file replaced the store, and the watch begins again");
            (store, file, seen) = (other, now, 0);
        }
    }
}

/// Returns which file there is at a path, as far as files can be distinguished, or `None` if there
/// is none.
fn identity(path: &Path) -> Option<(u64, u64)> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
    }
    #[cfg(not(unix))]
    fs::metadata(path).ok().map(|_| (0, 0))
}

/// Prints an event. Returns whether anybody still reads.
fn print(event: &Event, form: Form) -> Result<bool, Box<dyn Error>> {
    is_read(io::stdout().lock().write_all((line(event, form) + "\n").as_bytes()))
}

/// Prints what is still in the buffer, as [`print`] does.
fn print_out() -> Result<bool, Box<dyn Error>> {
    is_read(io::stdout().lock().flush())
}

/// Waits for the interval. Returns whether to go on: nobody has asked the program to end, and
/// somebody may still read.
fn rest(interval: Duration, is_over: &AtomicBool) -> bool {
    let start = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        let left = interval.saturating_sub(start.elapsed());
        if left.is_zero() {
            return true;
        }
        if has_no_reader_within(left.min(NAP)) {
            return false;
        }
    }
    false
}

/// Waits for this time at most, and only while stdout has a reader. Returns whether stdout has no
/// reader any more. A file and a terminal always have one.
#[cfg(unix)]
fn has_no_reader_within(nap: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let out = io::stdout();
    // No events are asked for, because the system always reports that the other end was closed.
    let mut pipe = [PollFd::new(&out, PollFlags::empty())];
    let nap = Timespec { tv_sec: 0, tv_nsec: nap.min(NAP).subsec_nanos().into() };
    // An error means that a signal came.
    poll(&mut pipe, Some(&nap)).is_ok() && !pipe[0].revents().is_empty()
}

#[cfg(not(unix))]
fn has_no_reader_within(nap: Duration) -> bool {
    std::thread::sleep(nap);
    false
}

/// Returns an event on one line.
fn line(event: &Event, form: Form) -> String {
    if form == Form::Json {
        return harmless_json(&event.to_json());
    }
    let Event { involved_object: object, type_, reason, message, .. } = event;
    let (count, last) = match event.series() {
        Some(series) => (series.count, series.last_observed_time),
        None => (event.count, event.last_timestamp),
    };
    let last = last.or(event.first_timestamp).or(event.event_time());
    let at = last.map_or_else(|| "<unknown>".to_owned(), |at| format!("{at:.0}"));
    let slash = if object.name.is_empty() { "" } else { "/" };
    let object = format!("{}{slash}{}", object.kind.to_lowercase(), object.name);
    let times = if count > 1 { format!(" (x{count})") } else { String::new() };
    let [type_, reason, object] = [type_.as_str(), reason.as_str(), &object].map(plain);
    let message = escape_message(message.trim());
    format!("{at:20}  {type_:7}  {reason}  {object}  {message}{times}")
}

#[cfg(test)]
mod tests {
    use super::{Form, line};
    use eventcast::event::EventSeries;
    use eventcast::{Event, ObjectReference, Timestamp};

    #[test]
    fn a_line_says_when_what_and_how_often() {
        let mut event = Event::default();
        event.involved_object = ObjectReference::new("Pod", "web-0");
        event.type_ = "Normal".into();
        event.reason = "Started".into();
        event.message = " it's up\n".into();
        assert_eq!(line(&event, Form::Table), "<unknown>             Normal   Started  pod/web-0  it's up");
        event.first_timestamp = Timestamp::new(1_700_000_000, 5);
        event.count = 3;
        event.type_ = "Warning".into();
        assert_eq!(
            line(&event, Form::Table),
            "2023-11-14T22:13:20Z  Warning  Started  pod/web-0  it's up (x3)"
        );
        event.set_series(EventSeries::new(7, Timestamp::new(1_700_000_001, 0).unwrap()));
        assert!(line(&event, Form::Table).starts_with("2023-11-14T22:13:21Z  "));
        assert!(line(&event, Form::Table).ends_with(" (x7)"));
        assert_eq!(line(&event, Form::Json), event.to_json());
    }
}
