//! Prints the existing events in the store, and then each new event as it is written, one per line.

use std::error::Error;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use eventcast::escape::escape_message;
use eventcast::{Event, Text};
use eventcast_sqlite::SqliteSink;
#[cfg(unix)]
use rustix::event::PollFlags;

use super::args::{Form, FormArgs, WatchArgs};
use super::show::is_read;
use crate::support::color::{paint_reason, paint_type};
use crate::support::file::identity;
use crate::support::log_columns::LogColumns;
use crate::support::output::complain;
use crate::support::signals::flag_of_signals;
use crate::support::text::{harmless_json, plain};

/// The maximum time between two checks of the signal flag while the watch is waiting for events.
const NAP: Duration = Duration::from_millis(50);

pub(crate) fn watch(mut store: SqliteSink, args: &WatchArgs) -> Result<(), Box<dyn Error>> {
    let query = args.filter.query();
    if let Some(hint) = args.filter.hint() {
        complain(&format!("eventcast: {hint}"));
    }
    let mut printer = Printer::new(args.form);
    let is_over = flag_of_signals().map_err(|error| format!("cannot wait for signals: {error}"))?;
    let mut file = identity_of(store.path());
    // The limit applies only to the events that exist at the start.
    let mut first = args.limit.map(|limit| query.clone().last(limit));
    let mut seen = 0;
    loop {
        let newest = store.version()?;
        if newest < seen {
            complain("eventcast: the store was emptied, restarting the watch");
            seen = 0;
        }
        let wanted = first.take().unwrap_or_else(|| query.clone()).after(seen);
        for event in store.stream(&wanted)? {
            let event = event?;
            seen = event.metadata.resource_version().parse()?;
            if !printer.print(&event)? || is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        seen = seen.max(newest);
        if !print_out()? || !rest(args.interval, &is_over) {
            return Ok(());
        }
        // A program that holds a file open can still read the file after it was removed, but new
        // events are written to the file that replaced it.
        let now = identity_of(store.path());
        if now.is_some() && now != file {
            // If the file is still being created, it is not yet a valid store.
            let Ok(other) = SqliteSink::open_read_only(store.path()) else { continue };
            complain("eventcast: the store was replaced by another file, restarting the watch");
            (store, file, seen) = (other, now, 0);
        }
    }
}

/// Returns the identity of the file at a path. Returns `None` if there is no file.
fn identity_of(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|found| identity(&found))
}

/// Flushes stdout. Returns whether stdout still has a reader.
fn print_out() -> Result<bool, Box<dyn Error>> {
    is_read(io::stdout().lock().flush())
}

/// Waits for the interval. Returns `false` if the program was asked to exit or stdout is known to
/// have no reader, and `true` otherwise.
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

/// Waits for at most this time, and only while stdout has a reader. Returns whether the reader has
/// closed its end. Files and terminals always count as having a reader.
#[cfg(unix)]
fn has_no_reader_within(nap: Duration) -> bool {
    use rustix::event::{PollFd, Timespec, poll};
    let out = io::stdout();
    // No events are requested, because the system reports a closed other end in any case.
    let mut pipe = [PollFd::new(&out, PollFlags::empty())];
    let timeout = Timespec { tv_sec: 0, tv_nsec: nap.min(NAP).subsec_nanos().into() };
    // The call fails only if it is interrupted by a signal.
    if poll(&mut pipe, Some(&timeout)).is_err() {
        return false;
    }
    let found = pipe[0].revents();
    if found.contains(PollFlags::NVAL) {
        // The system cannot poll this kind of file, so poll has returned immediately.
        std::thread::sleep(nap);
    }
    is_left(found)
}

/// Returns whether the other end of stdout was closed.
#[cfg(unix)]
fn is_left(found: PollFlags) -> bool {
    found.intersects(PollFlags::ERR | PollFlags::HUP)
}

#[cfg(not(unix))]
fn has_no_reader_within(nap: Duration) -> bool {
    std::thread::sleep(nap);
    false
}

/// Prints events to stdout, one per line.
struct Printer {
    form: Form,
    is_colored: bool,
    namespaces: Namespaces,
    columns: LogColumns,
}

/// The namespaces of the events printed so far.
enum Namespaces {
    None,
    One(Text),
    Several,
}

impl Printer {
    fn new(args: FormArgs) -> Self {
        let is_colored = args.color.is_on(&io::stdout());
        Self { form: args.form, is_colored, namespaces: Namespaces::None, columns: LogColumns::default() }
    }

    /// Prints an event. Returns whether stdout still has a reader.
    fn print(&mut self, event: &Event) -> Result<bool, Box<dyn Error>> {
        is_read(io::stdout().lock().write_all((self.line(event) + "\n").as_bytes()))
    }

    /// Formats an event as one line. Unless the format is JSON, each line begins with the event's
    /// namespace, starting with the first event from a second namespace.
    fn line(&mut self, event: &Event) -> String {
        if self.form == Form::Json {
            return harmless_json(&event.to_json());
        }
        let namespace = &event.metadata.namespace;
        match &self.namespaces {
            Namespaces::None => self.namespaces = Namespaces::One(namespace.clone()),
            Namespaces::One(first) if first != namespace => self.namespaces = Namespaces::Several,
            _ => {}
        }
        let line = columns(event, self.is_colored, &mut self.columns);
        match self.namespaces {
            Namespaces::Several => format!("{}  {line}", plain(namespace)),
            _ => line,
        }
    }
}

/// Formats the columns of an event, separated by two spaces. A column is never narrower than it was
/// in earlier lines.
fn columns(event: &Event, is_colored: bool, columns: &mut LogColumns) -> String {
    let Event { involved_object: object, type_, reason, message, .. } = event;
    let count = event.occurrences();
    let at = event.last_seen().map_or_else(|| "<unknown>".to_owned(), |at| format!("{at:.0}"));
    let slash = if object.name.is_empty() { "" } else { "/" };
    let object = format!("{}{slash}{}", object.kind.to_lowercase(), object.name);
    let times = if count > 1 { format!(" (x{count})") } else { String::new() };
    let [type_, reason, object] = [type_.as_str(), reason.as_str(), &object].map(plain);
    let [reason, object] = columns.pad([&reason, &object]);
    let message = escape_message(message.trim());
    let type_ = format!("{type_:7}");
    let (type_, reason) =
        if is_colored { (paint_type(&type_), paint_reason(&reason)) } else { (type_, reason) };
    format!("{at:20}  {type_}  {reason}  {object}  {message}{times}")
}

#[cfg(test)]
mod tests {
    use super::{Form, LogColumns, Namespaces, Printer};
    use eventcast::event::EventSeries;
    use eventcast::{Event, ObjectReference, Timestamp};

    fn printer(form: Form, is_colored: bool) -> Printer {
        Printer { form, is_colored, namespaces: Namespaces::None, columns: LogColumns::default() }
    }

    fn event() -> Event {
        let mut event = Event::default();
        event.involved_object = ObjectReference::new("Pod", "web-0");
        event.type_ = "Normal".into();
        event.reason = "Started".into();
        event.message = " it's up\n".into();
        event
    }

    #[test]
    fn a_line_has_the_time_reason_and_count() {
        let line = |event: &Event| printer(Form::Table, false).line(event);
        let mut event = event();
        assert_eq!(line(&event), "<unknown>             Normal   Started  pod/web-0  it's up");
        event.first_timestamp = Timestamp::new(1_700_000_000, 5);
        event.count = 3;
        event.type_ = "Warning".into();
        assert_eq!(line(&event), "2023-11-14T22:13:20Z  Warning  Started  pod/web-0  it's up (x3)");
        event.set_series(EventSeries::new(7, Timestamp::new(1_700_000_001, 0).unwrap()));
        assert!(line(&event).starts_with("2023-11-14T22:13:21Z  "));
        assert!(line(&event).ends_with(" (x7)"));
        assert_eq!(printer(Form::Json, true).line(&event), event.to_json());
        let mut printer = printer(Form::Table, false);
        printer.line(&event);
        (event.reason, event.involved_object.name) = ("Up".into(), "a".into());
        assert!(printer.line(&event).contains("  Warning  Up       pod/a      it's up (x7)"));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_poll_does_not_know_still_has_a_reader() {
        use super::{PollFlags, is_left};
        assert!(is_left(PollFlags::ERR) && is_left(PollFlags::HUP));
        assert!(!is_left(PollFlags::NVAL) && !is_left(PollFlags::empty()));
    }

    #[test]
    fn the_namespace_is_shown_once_there_are_several() {
        let mut printer = printer(Form::Table, false);
        let (mut shop, mut blue) = (event(), event());
        shop.metadata.namespace = "shop".into();
        blue.metadata.namespace = "blue".into();
        for (event, start) in [(&shop, "<unk"), (&shop, "<unk"), (&blue, "blue  <unk"), (&shop, "shop  <unk")]
        {
            let line = printer.line(event);
            assert!(line.starts_with(start), "{start}: {line}");
        }
    }

    #[test]
    fn a_warning_has_its_color() {
        let mut event = event();
        (event.type_, event.reason) = ("Warning".into(), "Failed".into());
        assert_eq!(
            printer(Form::Table, true).line(&event),
            "<unknown>             \u{1b}[33mWarning\u{1b}[0m  \u{1b}[31mFailed\u{1b}[0m  pod/web-0  it's up"
        );
    }
}
