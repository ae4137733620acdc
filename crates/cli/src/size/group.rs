//! Groups of watchers that are specified on the command line.

use std::time::Duration;

use eventcast::OverflowPolicy;

use super::reader::{MAX_QUEUE, Watcher};
use super::sweep::{Sweep, Swept};
use super::times::Times;
use crate::support::duration;
use crate::support::number;
use crate::support::text::quoted;

/// The maximum number of watchers in a run. Each watcher has a thread.
const MAX_WATCHERS: usize = 256;
const POLICIES: &str = "drop_incoming, drop_oldest, wait or wait_for:DURATION";

/// A group of watchers, with the settings that the command line specifies for the group.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Group {
    count: usize,
    name: Option<String>,
    queue: Option<usize>,
    policy: Option<OverflowPolicy>,
    times: Option<Times>,
}

impl Group {
    /// Returns the settings for groups that do not specify their own settings.
    pub(super) fn common(queue: Option<u64>, policy: Option<OverflowPolicy>, times: Option<Times>) -> Self {
        Self { queue: queue.map(|queue| queue as usize), policy, times, ..Self::default() }
    }

    /// Parses a group, such as `3:queue=64,policy=drop_oldest,handler=exp:50us,name=slow`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str =
            "use a count and settings, as in 3:queue=64,policy=drop_incoming,handler=exp:50us,name=slow";
        let wrong = |why: String| format!("--watchers: {why} in {}: {FORM}", quoted(text));
        let (count, rest) = text.split_once(':').map_or((text, None), |(count, rest)| (count, Some(rest)));
        let allowed = |count: &usize| (1..=MAX_WATCHERS).contains(count);
        let count = count.parse().ok().filter(allowed).ok_or_else(|| {
            wrong(format!("the count must be a number from 1 to {MAX_WATCHERS}, got {}", quoted(count)))
        })?;
        let mut group = Self { count, ..Self::default() };
        for pair in rest.into_iter().flat_map(|rest| rest.split(',')) {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| wrong(format!("missing '=' in {}", quoted(pair))))?;
            match key {
                "name" if value.is_empty() || value.contains('\0') => {
                    return Err(wrong("name must be non-empty, without NUL characters".to_owned()));
                }
                "name" => group.name = Some(value.to_owned()),
                "queue" => {
                    group.queue = Some(number::parse("queue", 1..=MAX_QUEUE, value).map_err(wrong)? as usize);
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
}

/// Returns the default watchers, which are used if the command line does not contain `--watchers`.
/// The default watchers are a base watcher and three watchers that each differ from it in one
/// setting or, for a sweep, two watchers to compare. If `common` specifies a setting in which these
/// watchers differ, there is only one watcher.
pub(super) fn usual(common: &Group, sweep: Option<&Sweep>) -> Vec<Group> {
    let one = |name: &str| Group { count: 1, name: Some(name.to_owned()), ..Group::default() };
    let oldest = Some(OverflowPolicy::DropOldest);
    match sweep.map(|sweep| sweep.swept) {
        _ if common.policy.is_some() => vec![one("watcher")],
        Some(Swept::Queue | Swept::Handler) => {
            vec![one("drop_incoming"), Group { policy: oldest, ..one("drop_oldest") }]
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

/// Creates the watchers in these groups. If a group does not specify a setting, the setting is
/// taken from `common`.
pub(super) fn watchers(groups: &[Group], common: &Group, seed: u64) -> Result<Vec<Watcher>, String> {
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
                return Err(format!("--watchers must have unique names, got {} twice", quoted(&name)));
            }
            watchers.push(Watcher {
                name,
                group: index,
                queue: group.queue.or(common.queue).unwrap_or(200),
                policy: group.policy.or(common.policy).unwrap_or_default(),
                times: group.times.or(common.times).unwrap_or(Times::Fixed(Duration::from_micros(200))),
                // The seeds of different watchers are far apart, because event numbers are
                // consecutive.
                seed: seed.wrapping_add((watchers.len() as u64 + 1) << 40),
            });
        }
    }
    Ok(watchers)
}

/// Parses an overflow policy. The error message begins with `option`.
pub(super) fn policy(option: &str, text: &str) -> Result<OverflowPolicy, String> {
    // `drop-oldest` is accepted as an alternative to the library's own form `drop_oldest`.
    let (name, time) = text.split_once(':').map_or((text, None), |(name, time)| (name, Some(time)));
    match (&*name.replace('-', "_"), time) {
        ("drop_incoming", None) => Ok(OverflowPolicy::DropIncoming),
        ("drop_oldest", None) => Ok(OverflowPolicy::DropOldest),
        ("wait", None) => Ok(OverflowPolicy::Wait),
        ("wait_for", Some(time)) => {
            duration::parse(&format!("the time of {option} wait_for"), time).map(OverflowPolicy::WaitFor)
        }
        _ => Err(format!("{option} must be {POLICIES}, got {}", quoted(text))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Group, Times};
    use eventcast::OverflowPolicy;
    use std::time::Duration;

    #[test]
    fn a_policy_may_have_hyphens() {
        for (text, policy) in [
            ("drop_incoming", OverflowPolicy::DropIncoming),
            ("drop-incoming", OverflowPolicy::DropIncoming),
            ("drop-oldest", OverflowPolicy::DropOldest),
            ("wait", OverflowPolicy::Wait),
            ("wait-for:5ms", OverflowPolicy::WaitFor(Duration::from_millis(5))),
            ("wait_for:5ms", OverflowPolicy::WaitFor(Duration::from_millis(5))),
        ] {
            assert_eq!(super::policy("--policy", text), Ok(policy));
        }
        assert!(super::policy("--policy", "wait:5ms").is_err());
    }

    #[test]
    fn a_group_is_parsed_with_all_its_keys() {
        let text = "3:queue=64,policy=wait_for:5ms,handler=uniform:10us..1ms,name=a:b=c";
        assert_eq!(
            Group::parse(text).unwrap(),
            Group {
                count: 3,
                name: Some("a:b=c".to_owned()),
                queue: Some(64),
                policy: Some(OverflowPolicy::WaitFor(Duration::from_millis(5))),
                times: Some(Times::Uniform(Duration::from_micros(10), Duration::from_millis(1))),
            }
        );
    }
}
