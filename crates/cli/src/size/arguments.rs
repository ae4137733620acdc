//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use eventcast::OverflowPolicy;
use lexopt::prelude::{Long, Short};

use super::load::Load;
use super::reader::Watcher;
use super::run::Settings;
use super::support::duration;
use super::support::flags::{self, Parser};
use super::support::number::grouped;
use super::support::text::quoted;
use super::sweep::{MAX_POINTS, Sweep, Swept};
use super::times::Times;

/// The longest queue that the bus takes, in events.
pub(crate) const MAX_QUEUE: u64 = 1 << 24;
/// The largest number of threads that a run starts for watchers.
const MAX_WATCHERS: usize = 256;
/// The largest number of events of a run. The run keeps the time of each publish.
const MAX_EVENTS: u128 = 20_000_000;
const MAX_LENGTH: Duration = Duration::from_secs(3600);
const POLICIES: &str = "drop-incoming, drop-oldest, wait or wait-for:TIME";

/// A request on the command line: what to run, and how to show the result.
pub(crate) struct Request {
    pub(crate) settings: Settings,
    pub(crate) sweep: Option<Sweep>,
    pub(crate) output: Option<PathBuf>,
    pub(crate) json: bool,
}

/// Some watchers, with as many of their settings as the command line gives.
#[derive(Clone, Debug, Default, PartialEq)]
struct Group {
    count: usize,
    name: Option<String>,
    queue: Option<usize>,
    policy: Option<OverflowPolicy>,
    times: Option<Times>,
}

pub(crate) fn read(mut parser: Parser) -> Result<Option<Request>, String> {
    let (mut rate, mut burst, mut every) = (None, None, None);
    let (mut length, mut grace, mut incoming, mut seed) = (None, Duration::from_secs(2), 1000, 1);
    let (mut sweep, mut points, mut output, mut json) = (None, None, None, false);
    let mut groups = Vec::new();
    let mut common = Group::default();
    while let Some(argument) = flags::next(&mut parser)? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("rate") => rate = Some(flags::number(&mut parser, "--rate", 1..=10_000_000)?),
            Long("burst") => burst = Some(flags::number(&mut parser, "--burst", 1..=1_000_000)?),
            Long("every") => every = Some(time(&mut parser, "--every")?),
            Long("for") => length = Some(time(&mut parser, "--for")?),
            Long("grace") => grace = flags::duration(&mut parser, "--grace")?,
            Long("incoming") => incoming = flags::number(&mut parser, "--incoming", 1..=MAX_QUEUE)? as usize,
            Long("seed") => seed = flags::number(&mut parser, "--seed", 0..=u64::MAX)?,
            Long("watchers") => groups.push(group(&value(&mut parser, "--watchers", "as in 3:queue=64")?)?),
            Long("queue") => {
                common.queue = Some(flags::number(&mut parser, "--queue", 1..=MAX_QUEUE)? as usize);
            }
            Long("policy") => {
                let text = value(&mut parser, "--policy", POLICIES)?;
                common.policy = Some(policy("--policy", &text)?);
            }
            Long("handler") => {
                let text = value(&mut parser, "--handler", "a time, as in 20us or exp:50us")?;
                common.times = Some(Times::parse(&text).map_err(|error| format!("--handler: {error}"))?);
            }
            Long("sweep") => {
                let text = value(&mut parser, "--sweep", "a setting and a range, as in queue=10..10000")?;
                sweep = Some(Sweep::parse(&text)?);
            }
            Long("points") => points = Some(flags::number(&mut parser, "--points", 2..=MAX_POINTS)?),
            Short('o') | Long("output") => {
                let file = parser.value().map_err(|_| "--output needs a file, as in --output loss.svg")?;
                output = Some(PathBuf::from(file));
            }
            Long("json") => json = true,
            _ => return Err(flags::unknown(argument)),
        }
    }
    for (given, option) in [(points.is_some(), "--points"), (output.is_some(), "--output")] {
        if given && sweep.is_none() {
            return Err(format!("{option} needs a sweep: add one, as in --sweep queue=10..10000"));
        }
    }
    if every.is_some() && burst.is_none() {
        return Err("--every needs bursts: set their length, as in --burst 300".to_owned());
    }
    if let (Some(sweep), Some(points)) = (&mut sweep, points) {
        sweep.points = points;
    }
    if groups.is_empty() {
        groups = usual(&common, sweep.as_ref());
    }
    // In a sweep, this is the length of each run.
    let usual_length = Duration::from_secs(if sweep.is_some() { 1 } else { 6 });
    let load = Load {
        rate: rate.unwrap_or(0),
        burst: burst.unwrap_or(if rate.is_some() { 0 } else { 300 }),
        every: every.unwrap_or(Duration::from_millis(100)),
    };
    let watchers = watchers(&groups, &common, seed)?;
    let settings = Settings { load, watchers, length: length.unwrap_or(usual_length), grace, incoming };
    check(&settings)?;
    Ok(Some(Request { settings, sweep, output, json }))
}

/// Returns the watchers that are run if none are asked for: four that differ in one thing each, or
/// two that a sweep compares.
fn usual(common: &Group, sweep: Option<&Sweep>) -> Vec<Group> {
    let one = |name: &str| Group { count: 1, name: Some(name.to_owned()), ..Group::default() };
    let oldest = Some(OverflowPolicy::DropOldest);
    match sweep.map(|sweep| sweep.swept) {
        _ if common.policy.is_some() => vec![one("watcher")],
        Some(Swept::Queue | Swept::Handler) => {
            vec![one("drop-incoming"), Group { policy: oldest, ..one("drop-oldest") }]
        }
        None if common.queue.is_some() || common.times.is_some() => vec![one("watcher")],
        None => vec![
            one("base"),
            Group { queue: Some(300), ..one("longer") },
            Group { times: Some(Times::Fixed(Duration::from_micros(100))), ..one("faster") },
            Group { policy: oldest, ..one("newest") },
        ],
    }
}

fn watchers(groups: &[Group], common: &Group, seed: u64) -> Result<Vec<Watcher>, String> {
    let total = groups.iter().map(|group| group.count).sum::<usize>();
    if total > MAX_WATCHERS {
        return Err(format!("--watchers must be at most {MAX_WATCHERS} in all, got {total}"));
    }
    let mut watchers: Vec<Watcher> = Vec::with_capacity(total);
    for (index, group) in groups.iter().enumerate() {
        let name = group.name.clone().unwrap_or_else(|| format!("group{}", index + 1));
        for number in 1..=group.count {
            let name = if group.count == 1 { name.clone() } else { format!("{name}-{number}") };
            if watchers.iter().any(|other| other.name == name) {
                return Err(format!("--watchers must have different names, got {} twice", quoted(&name)));
            }
            watchers.push(Watcher {
                name,
                group: index,
                queue: group.queue.or(common.queue).unwrap_or(200),
                policy: group.policy.or(common.policy).unwrap_or_default(),
                times: group.times.or(common.times).unwrap_or(Times::Fixed(Duration::from_micros(200))),
                // Far from the seeds of its neighbours, because their events have numbers next to
                // each other.
                seed: seed.wrapping_add((watchers.len() as u64 + 1) << 40),
            });
        }
    }
    Ok(watchers)
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

/// Reads a group of watchers, such as `3:queue=64,policy=drop-oldest,handler=exp:50us,name=slow`.
fn group(text: &str) -> Result<Group, String> {
    const FORM: &str =
        "write a count and settings, as in 3:queue=64,policy=drop-incoming,handler=exp:50us,name=slow";
    let wrong = |why: String| format!("--watchers: {why} in {}: {FORM}", quoted(text));
    let (count, rest) = text.split_once(':').map_or((text, None), |(count, rest)| (count, Some(rest)));
    let allowed = |count: &usize| (1..=MAX_WATCHERS).contains(count);
    let count = count.parse().ok().filter(allowed).ok_or_else(|| {
        wrong(format!("the count must be a number from 1 to {MAX_WATCHERS}, got {}", quoted(count)))
    })?;
    let mut group = Group { count, ..Group::default() };
    for pair in rest.into_iter().flat_map(|rest| rest.split(',')) {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| wrong(format!("there is no '=' in {}", quoted(pair))))?;
        match key {
            "name" if value.is_empty() || value.contains('\0') => {
                return Err(wrong("name must be one character or more, without NUL".to_owned()));
            }
            "name" => group.name = Some(value.to_owned()),
            "queue" => {
                let queue = value.parse().ok().filter(|queue| (1..=MAX_QUEUE).contains(queue));
                let queue = queue.ok_or_else(|| {
                    wrong(format!("queue must be a number from 1 to {MAX_QUEUE}, got {}", quoted(value)))
                })?;
                group.queue = Some(queue as usize);
            }
            "policy" => group.policy = Some(policy("policy", value).map_err(wrong)?),
            "handler" => {
                group.times = Some(Times::parse(value).map_err(|error| format!("--watchers: {error}"))?);
            }
            _ => {
                return Err(wrong(format!(
                    "the setting must be name, queue, policy or handler, got {}",
                    quoted(key)
                )));
            }
        }
    }
    Ok(group)
}

fn policy(option: &str, text: &str) -> Result<OverflowPolicy, String> {
    match text.split_once(':') {
        None if text == "drop-incoming" => Ok(OverflowPolicy::DropIncoming),
        None if text == "drop-oldest" => Ok(OverflowPolicy::DropOldest),
        None if text == "wait" => Ok(OverflowPolicy::Wait),
        Some(("wait-for", time)) => {
            duration::parse(&format!("the time of {option} wait-for"), time).map(OverflowPolicy::WaitFor)
        }
        _ => Err(format!("{option} must be {POLICIES}, got {}", quoted(text))),
    }
}

/// Reads a duration of more than zero.
fn time(parser: &mut Parser, option: &str) -> Result<Duration, String> {
    match flags::duration(parser, option)? {
        Duration::ZERO => Err(format!("{option} must be more than 0s, got 0s")),
        time => Ok(time),
    }
}

fn value(parser: &mut Parser, option: &str, what: &str) -> Result<String, String> {
    let value: OsString = parser.value().map_err(|_| format!("{option} needs a value: {what}"))?;
    flags::utf8(value)
}

#[cfg(test)]
mod tests {
    use super::{Group, Parser, Request, Swept, Times, group, read};
    use eventcast::OverflowPolicy;
    use std::time::Duration;

    fn request(args: &[&str]) -> Request {
        read(Parser::from_args(args)).unwrap().expect("no help was asked for")
    }

    #[test]
    fn a_group_says_what_it_wants_and_the_rest_is_common() {
        let asked = group("3:queue=64,policy=wait-for:5ms,handler=uniform:10us..1ms,name=a:b=c").unwrap();
        assert_eq!(
            asked,
            Group {
                count: 3,
                name: Some("a:b=c".to_owned()),
                queue: Some(64),
                policy: Some(OverflowPolicy::WaitFor(Duration::from_millis(5))),
                times: Some(Times::Uniform(Duration::from_micros(10), Duration::from_millis(1))),
            }
        );
        let args = ["--watchers", "2:queue=5", "--policy=drop-oldest", "--watchers=1:policy=wait,name=x"];
        let watchers = request(&args).settings.watchers;
        let found: Vec<_> = watchers.iter().map(|w| (w.name.as_str(), w.group, w.queue, w.policy)).collect();
        let (oldest, wait) = (OverflowPolicy::DropOldest, OverflowPolicy::Wait);
        let expected = [("group1-1", 0, 5, oldest), ("group1-2", 0, 5, oldest), ("x", 1, 200, wait)];
        assert_eq!(found, expected);
        assert_ne!(watchers[0].seed, watchers[1].seed);
    }

    #[test]
    fn what_is_run_unasked() {
        let names = |args: &[&str]| {
            let watchers = request(args).settings.watchers;
            watchers.into_iter().map(|watcher| watcher.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), ["base", "longer", "faster", "newest"]);
        assert_eq!(names(&["--queue", "7"]), ["watcher"]);
        assert_eq!(names(&["--sweep", "queue=1..2"]), ["drop-incoming", "drop-oldest"]);
        assert_eq!(names(&["--sweep", "queue=1..2", "--policy", "wait"]), ["watcher"]);
        let load = |args: &[&str]| request(args).settings.load.to_string();
        assert_eq!(load(&[]), "bursts of 300 every 100ms");
        assert_eq!(load(&["--rate", "10"]), "10 events a second");
        assert_eq!(load(&["--rate=10", "--burst=2"]), "10 events a second and bursts of 2 every 100ms");
        let sweep = request(&["--sweep=handler=1us..2us", "--points=7"]).sweep.unwrap();
        assert_eq!((sweep.swept, sweep.points), (Swept::Handler, 7));
    }
}
