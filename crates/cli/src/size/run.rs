//! A single run, which publishes events on schedule, lets the watchers finish, and collects the
//! counts of all parties.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use eventcast::error::PublishError;
use eventcast::stats::BusStats;
use eventcast::{Broadcaster, BusOptions, Publisher};
use hdrhistogram::Histogram;

use super::load::Load;
use super::reader::{Account, Reader, Sample, Watcher, histogram};
use super::seeds::Seeds;
use super::spend::Floor;
use crate::support::number::grouped;
use crate::support::progress::Progress;
use crate::support::text::{cut, plain};

/// The maximum time for which the publisher sleeps before it checks for Ctrl-C.
const NAP: Duration = Duration::from_millis(20);
/// The maximum lateness of a publisher at the end of a run, in addition to a tenth of the run's
/// length.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time between two updates of the progress line.
const TICK: Duration = Duration::from_millis(100);

/// The settings of a run.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) load: Load,
    pub(crate) watchers: Vec<Watcher>,
    pub(crate) length: Duration,
    /// The maximum time that the watchers may take at the end of the run to handle queued events.
    pub(crate) grace: Duration,
    /// The seeds for which the lengths are computed. The run itself uses the first seed.
    pub(crate) seeds: Seeds,
    /// The length of the bus's incoming queue, in events.
    pub(crate) incoming: usize,
}

/// The publisher's own counts.
pub(crate) struct Published {
    /// The load's long-run average number of events per second.
    pub(crate) long_run: f64,
    /// The number of events that were due during the time that the run took.
    pub(crate) asked: u64,
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    /// The largest number of consecutive events that the bus refused.
    pub(crate) refused_in_a_row: u64,
    /// The time at which the publisher started, in nanoseconds on the clock that all parties share.
    pub(crate) begin: u64,
    /// The planned duration and the actual duration of publishing.
    pub(crate) planned: Duration,
    pub(crate) took: Duration,
    /// The times from when an event was due until it was published, in nanoseconds.
    pub(crate) late: Histogram<u64>,
    /// The time at which each accepted event was published, on the shared clock.
    pub(crate) times: Vec<u64>,
}

impl Published {
    pub(crate) fn asked_rate(&self) -> f64 {
        self.asked as f64 / self.planned.as_secs_f64().max(1e-9)
    }

    pub(crate) fn rate(&self) -> f64 {
        (self.accepted + self.refused) as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

/// The outcome of a run.
pub(crate) struct Outcome {
    pub(crate) settings: Settings,
    pub(crate) interrupted: bool,
    /// Whether every watcher finished all accepted events.
    pub(crate) complete: bool,
    pub(crate) published: Published,
    pub(crate) bus: BusStats,
    /// The watchers' accounts, in the order of the watchers in the settings.
    pub(crate) accounts: Vec<Account>,
}

pub(crate) fn run(
    settings: &Settings,
    stop: &AtomicBool,
    progress: &Progress,
    what: &str,
) -> Result<Outcome, Box<dyn Error>> {
    let options = BusOptions::default().incoming_capacity(settings.incoming);
    let bus = Broadcaster::with_options(options)?;
    let floor = Floor::new();
    let start = |watcher: &Watcher| Reader::start(&bus, watcher, &floor);
    let readers = settings.watchers.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    let (publisher, count) = (bus.publisher(), AtomicU64::new(0));
    let published = thread::scope(|scope| {
        let begin = floor.now();
        let publishing = thread::Builder::new()
            .name("publisher".to_owned())
            .spawn_scoped(scope, || publish(settings, &publisher, &floor, stop, &count))
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        while !progress.is_hidden() && !publishing.is_finished() {
            thread::sleep(TICK);
            let published = count.load(Ordering::Relaxed);
            progress
                .show(|| format!("{what}{}", line(published, floor.now() - begin, settings, &bus.stats())));
        }
        publishing.join().map_err(|_| "the publisher panicked")?
    })?;
    let interrupted = stop.load(Ordering::Relaxed);
    progress.show(|| format!("{what}the watchers finish"));
    let complete = bus.shutdown_timeout(settings.grace).complete;
    floor.end();
    let accounts = readers.iter().map(|reader| reader.end(published.accepted)).collect();
    Ok(Outcome { settings: settings.clone(), interrupted, complete, published, bus: bus.stats(), accounts })
}

/// Publishes events on schedule, regardless of what happens to the events. A publisher that is late
/// still publishes all events that have become due. Unless interrupted, a late publisher gives up
/// only after the planned duration, another tenth of that duration, and another second.
fn publish(
    settings: &Settings,
    publisher: &Publisher<Sample>,
    floor: &Floor,
    stop: &AtomicBool,
    count: &AtomicU64,
) -> Result<Published, String> {
    let length = settings.length;
    let begin = floor.now();
    let limit = begin + (length + length / 10 + PATIENCE).as_nanos() as u64;
    let mut done = Published {
        begin,
        long_run: settings.load.long_run(),
        asked: 0,
        accepted: 0,
        refused: 0,
        refused_in_a_row: 0,
        planned: length,
        took: length,
        late: histogram(),
        times: Vec::with_capacity(settings.load.events(length) as usize),
    };
    let mut row = 0;
    for due in settings.load.schedule(length) {
        let at = begin + due.at;
        let now = sleep_until(at, floor, stop);
        if stop.load(Ordering::Relaxed) || now > limit {
            break;
        }
        for _ in 0..due.count {
            let sample = Sample { number: done.accepted, due: at, published: floor.now() };
            done.late.saturating_record(sample.published - at);
            match publisher.try_publish(sample) {
                Ok(()) => {
                    done.accepted += 1;
                    row = 0;
                    done.times.push(sample.published);
                }
                Err(PublishError::Full(_)) => {
                    done.refused += 1;
                    row += 1;
                    done.refused_in_a_row = done.refused_in_a_row.max(row);
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        count.store(done.accepted + done.refused, Ordering::Relaxed);
    }
    let end = sleep_until(begin + length.as_nanos() as u64, floor, stop);
    done.took = Duration::from_nanos(end - begin);
    done.asked = settings.load.events(length) as u64;
    if done.took < length {
        done.planned = done.took;
        // Events that became due around the time of the interruption do not have to be published.
        let due = settings.load.events(done.took.saturating_sub(NAP)) as u64;
        done.asked = due.max(done.accepted + done.refused);
    }
    Ok(done)
}

/// Sleeps until this time, or until the publisher is asked to stop. Returns the current time after
/// the sleep.
fn sleep_until(until: u64, floor: &Floor, stop: &AtomicBool) -> u64 {
    loop {
        let now = floor.now();
        if now >= until || stop.load(Ordering::Relaxed) {
            return now;
        }
        thread::sleep(Duration::from_nanos(until - now).min(NAP));
    }
}

/// Returns a line such as `2.1 of 6.0 s, 6,300 events, 0 refused; lost base 33.1 % longer 0.0 %`.
fn line(published: u64, elapsed: u64, settings: &Settings, stats: &BusStats) -> String {
    use std::fmt::Write as _;

    /// The maximum number of watchers in the line.
    const SHOWN: usize = 4;
    let mut line = format!(
        "{:.1} of {:.1} s, {} events, {} refused; lost",
        elapsed as f64 / 1e9,
        settings.length.as_secs_f64(),
        grouped(published),
        grouped(stats.rejected_full),
    );
    for watcher in stats.watchers.iter().take(SHOWN) {
        let name = cut(&plain(&watcher.name), 12).to_owned();
        // Writing to a string never fails.
        let _ = write!(line, " {name} {:.1} %", percent(watcher.dropped.total(), watcher.offered));
    }
    if stats.watchers.len() > SHOWN {
        line.push_str(" ..");
    }
    line
}

pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}
