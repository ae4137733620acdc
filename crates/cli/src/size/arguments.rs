//! Command-line options of `size`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use eventcast::OverflowPolicy;

use super::group::{self, Group};
use super::help;
use super::load::Load;
use super::reader::MAX_QUEUE;
use super::run::Settings;
use super::seeds::{MAX_SEEDS, Seeds};
use super::sweep::{MAX_POINTS, Sweep};
use super::times::Times;
use crate::support::duration;
use crate::support::number::{self, grouped};

/// The maximum number of events in a run. The limit exists because the run stores the time of each
/// publish.
const MAX_EVENTS: u128 = 20_000_000;
const MAX_LENGTH: Duration = Duration::from_secs(3600);

/// Find out how long a queue must be
///
/// Publishes at a given rate to handlers with a given speed on a real bus. Prints the queue length
/// that would have been enough, and how many events each watcher lost, when and why.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true, after_help = help::EXAMPLES, after_long_help = help::LONG)]
pub(crate) struct Args {
    // These arguments are boxed because the arguments of the other commands are much smaller.
    #[command(flatten)]
    load: Box<LoadArgs>,
    #[command(flatten)]
    watchers: Box<WatcherArgs>,
    #[command(flatten)]
    output: Box<OutputArgs>,
}

/// The events to publish.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Load [default: bursts of 300 every 100ms]")]
struct LoadArgs {
    /// Events per second, evenly spread, 1 to 10000000
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| number::parse("--rate", 1..=10_000_000, text))]
    rate: Option<u64>,
    /// Events per burst, in addition to --rate, 1 to 1000000
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| number::parse("--burst", 1..=1_000_000, text))]
    burst: Option<u64>,
    /// Time between bursts [default: 100ms]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| duration::parse_positive("--every", text))]
    every: Option<Duration>,
    /// How long to publish, up to 1h and 20000000 events [default: 6s, or 1s for each run of a
    /// sweep]
    #[arg(long = "for", value_name = "DURATION", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| duration::parse_positive("--for", text))]
    length: Option<Duration>,
    /// Length of the bus's incoming queue, 1 to 16777216
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 1000)]
    #[arg(value_parser = |text: &str| number::parse("--incoming", 1..=MAX_QUEUE, text))]
    incoming: u64,
}

/// The watchers that handle the events.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Watchers [default: four that differ in one setting each]")]
struct WatcherArgs {
    /// Add a group of watchers. Can be repeated, up to 256 watchers in total
    #[arg(long, value_name = "SPEC", value_parser = Group::parse)]
    watchers: Vec<Group>,
    /// Queue length in events for watchers whose SPEC has none, 1 to 16777216 [default: 200]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| number::parse("--queue", 1..=MAX_QUEUE, text))]
    queue: Option<u64>,
    /// Overflow policy for watchers whose SPEC has none [default: drop_incoming]
    #[allow(clippy::doc_markdown, reason = "the help shows the text as it is")]
    #[arg(long, value_name = "POLICY", value_parser = |text: &str| group::policy("--policy", text))]
    policy: Option<OverflowPolicy>,
    /// Time per event for handlers whose SPEC has none [default: 200us]
    #[arg(long, value_name = "HANDLER", value_parser = handler, allow_negative_numbers = true)]
    handler: Option<Times>,
    /// Seed for the handlers' random times
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 1)]
    #[arg(value_parser = |text: &str| number::parse("--seed", 0..=u64::MAX, text))]
    seed: u64,
    /// Number of seeds to compute the length for, starting with --seed, 1 to 1000. The answer is
    /// the largest length [default: 99 if a handler's time is random, fewer for very long runs]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| number::parse("--seeds", 1..=MAX_SEEDS, text))]
    seeds: Option<u64>,
    /// Time for the watchers to finish the queued events at the end
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, default_value = "2s")]
    #[arg(value_parser = |text: &str| duration::parse("--grace", text))]
    grace: Duration,
}

/// The number of runs, and the output format.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
struct OutputArgs {
    /// Make runs with several values from a range, spaced by a constant factor, such as
    /// queue=10..10000 or handler=1us..1ms
    #[arg(long, value_name = "RANGE", value_parser = Sweep::parse)]
    sweep: Option<Sweep>,
    /// Number of values in the sweep, 2 to 64 [default: 10]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| number::parse("--points", 2..=MAX_POINTS, text))]
    points: Option<u64>,
    /// Write a drawing of the sweep to this file, as an SVG
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

/// The validated arguments, which specify what to run and how to show the result.
pub(super) struct Request {
    pub(super) settings: Settings,
    pub(super) sweep: Option<Sweep>,
    pub(super) output: Option<PathBuf>,
    pub(super) json: bool,
}

impl Args {
    /// Validates the combination of options. Returns the request, or an error message.
    pub(super) fn request(self) -> Result<Request, String> {
        let Self { load, watchers, output } = self;
        for (given, option) in [(output.points.is_some(), "--points"), (output.output.is_some(), "--output")]
        {
            if given && output.sweep.is_none() {
                return Err(format!("{option} requires --sweep, as in --sweep queue=10..10000"));
            }
        }
        if output.output.as_deref().is_some_and(|path| path.as_os_str() == "-") {
            return Err("--output must be a file, got '-': the table goes to stdout".to_owned());
        }
        if load.every.is_some() && load.burst.is_none() {
            return Err("--every requires --burst, as in --burst 300".to_owned());
        }
        let sweep = output.sweep.map(|sweep| sweep.with_points(output.points));
        let common = Group::common(watchers.queue, watchers.policy, watchers.handler);
        let groups = match watchers.watchers {
            none if none.is_empty() => group::usual(&common, sweep.as_ref()),
            groups => groups,
        };
        // In a sweep, the default length applies to each run.
        let usual_length = Duration::from_secs(if sweep.is_some() { 1 } else { 6 });
        let length = load.length.unwrap_or(usual_length);
        let runs = sweep.map_or(1, |sweep| sweep.values().len());
        let events = load.load().events(length) * runs as u128;
        let of_groups = group::watchers(&groups, &common, watchers.seed)?;
        let settings = Settings {
            seeds: Seeds::new(watchers.seed, watchers.seeds, &of_groups, events),
            watchers: of_groups,
            length,
            grace: watchers.grace,
            incoming: load.incoming as usize,
            load: load.load(),
        };
        check(&settings)?;
        Ok(Request { settings, sweep, output: output.output, json: output.json })
    }
}

impl LoadArgs {
    fn load(&self) -> Load {
        Load {
            rate: self.rate.unwrap_or(0),
            burst: self.burst.unwrap_or(if self.rate.is_some() { 0 } else { 300 }),
            every: self.every.unwrap_or(Duration::from_millis(100)),
        }
    }
}

fn check(settings: &Settings) -> Result<(), String> {
    let Settings { load, length, .. } = settings;
    if *length > MAX_LENGTH {
        return Err(format!("--for must be at most 1h, got {}", duration::show(*length)));
    }
    let events = load.events(*length);
    if events > MAX_EVENTS {
        return Err(format!(
            "a run must be at most {} events, got {events} of {load}: publish less or for a shorter time",
            grouped(MAX_EVENTS as u64)
        ));
    }
    Ok(())
}

fn handler(text: &str) -> Result<Times, String> {
    Times::parse(text).map_err(|error| format!("--handler: {error}"))
}

#[cfg(test)]
mod tests {
    use super::super::sweep::Swept;
    use super::{Args, Request};
    use clap::Parser;
    use eventcast::OverflowPolicy;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn request(args: &[&str]) -> Request {
        let args = Command::try_parse_from([&["size"], args].concat()).expect("each argument is good").args;
        args.request().expect("the arguments fit together")
    }

    #[test]
    fn the_options_apply_to_groups_without_values() {
        let args = ["--watchers", "2:queue=5", "--policy=drop_oldest", "--watchers=1:policy=wait,name=x"];
        let watchers = request(&args).settings.watchers;
        let found: Vec<_> = watchers.iter().map(|w| (w.name.as_str(), w.group, w.queue, w.policy)).collect();
        let (oldest, wait) = (OverflowPolicy::DropOldest, OverflowPolicy::Wait);
        let expected = [("group1-1", 0, 5, oldest), ("group1-2", 0, 5, oldest), ("x", 1, 200, wait)];
        assert_eq!(found, expected);
        assert_ne!(watchers[0].seed, watchers[1].seed);
    }

    #[test]
    fn there_are_usual_watchers_and_a_usual_load() {
        let names = |args: &[&str]| {
            let watchers = request(args).settings.watchers;
            watchers.into_iter().map(|watcher| watcher.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), ["base", "longer", "faster", "newest"]);
        assert_eq!(names(&["--queue", "7"]), ["watcher"]);
        assert_eq!(names(&["--sweep", "queue=1..2"]), ["drop_incoming", "drop_oldest"]);
        assert_eq!(names(&["--sweep", "queue=1..2", "--policy", "wait"]), ["watcher"]);
        let load = |args: &[&str]| request(args).settings.load.to_string();
        assert_eq!(load(&[]), "bursts of 300 every 100ms");
        assert_eq!(load(&["--rate", "10"]), "10 events a second");
        assert_eq!(load(&["--rate=10", "--burst=2"]), "10 events a second and bursts of 2 every 100ms");
        let sweep = request(&["--sweep=handler=1us..2us", "--points=7"]).sweep.unwrap();
        assert_eq!((sweep.swept, sweep.values().len()), (Swept::Handler, 7));
    }

    #[test]
    fn the_last_one_of_repeated_options_counts() {
        let settings = request(&["--queue=5", "--rate=1", "--queue=6", "--rate=2"]).settings;
        assert_eq!((settings.watchers[0].queue, settings.load.rate), (6, 2));
    }
}
