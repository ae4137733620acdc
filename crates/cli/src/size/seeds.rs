//! Computes the queue lengths that a handler with random times needs with several seeds.
//!
//! Different seeds result in different lengths. Because the time of each publish is known, a run
//! can be recomputed with the handler's times for other seeds.

use super::reader::Watcher;
use super::shadow::shadow;
use super::times::Times;

/// The default number of seeds. With 99 seeds, the probability that another run needs more than the
/// largest length is 1 %.
const USUAL: u64 = 99;
/// The maximum number of random times for which the default number of seeds is not reduced.
/// Computing this many random times takes a few seconds.
const USUAL_WORK: u128 = 50_000_000;
pub(super) const MAX_SEEDS: u64 = 1000;

/// The first seed, and the number of consecutive seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seeds {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl Seeds {
    /// Returns the requested number of seeds, or the default number for runs that publish this many
    /// events in total.
    pub(crate) fn new(first: u64, asked: Option<u64>, watchers: &[Watcher], events: u128) -> Self {
        let random = watchers.iter().filter(|watcher| is_random(watcher.times)).count() as u128;
        let usual = || match random * events {
            0 => 1,
            work => (USUAL_WORK / work).clamp(1, USUAL.into()) as u64,
        };
        Self { first, count: asked.unwrap_or_else(usual) }
    }
}

pub(crate) fn is_random(times: Times) -> bool {
    !matches!(times, Times::Fixed(_))
}

/// Statistics of the lengths that would have been enough with each of the seeds, in events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) count: u64,
    pub(crate) least: u64,
    pub(crate) median: u64,
    pub(crate) most: u64,
    /// The first seed that needs the largest length.
    pub(crate) most_seed: u64,
}

impl Spread {
    /// Computes the lengths. Returns `None` if the handler's time is not random.
    pub(crate) fn of(watcher: &Watcher, published: &[u64], seeds: Seeds) -> Option<Self> {
        if !is_random(watcher.times) {
            return None;
        }
        let needs = |number: u64| {
            let seed = watcher.seed.wrapping_add(number);
            shadow(published, |event| watcher.times.of(seed, event), None).needs
        };
        let lengths: Vec<u64> = (0..seeds.count).map(needs).collect();
        let most = *lengths.iter().max()?;
        let number = lengths.iter().position(|length| *length == most)? as u64;
        let mut sorted = lengths;
        sorted.sort_unstable();
        Some(Self {
            count: seeds.count,
            least: *sorted.first()?,
            median: sorted[sorted.len() / 2],
            most,
            most_seed: seeds.first.wrapping_add(number),
        })
    }

    /// Returns N such that one in N runs with a different seed needs more than the largest length.
    /// If another seed is added, all of the seeds are equally likely to need the largest length.
    pub(crate) fn one_in(&self) -> u64 {
        self.count + 1
    }
}

#[cfg(test)]
mod tests {
    use super::super::reader::Watcher;
    use super::super::times::Times;
    use super::{Seeds, Spread};
    use eventcast::OverflowPolicy;
    use std::time::Duration;

    const US: Duration = Duration::from_micros(1);

    fn watcher(times: Times, seed: u64) -> Watcher {
        let (name, policy) = ("w".to_owned(), OverflowPolicy::DropIncoming);
        Watcher { name, group: 0, queue: 9, policy, times, seed }
    }

    /// Returns publish times for one event every 100 us, for two seconds.
    fn published() -> Vec<u64> {
        (0..20_000).map(|number| number * 100_000).collect()
    }

    #[test]
    fn several_seeds_give_the_largest_length_of_each_alone() {
        let published = published();
        let spread = |seed, first, count| {
            Spread::of(&watcher(Times::Exp(US * 80), seed), &published, Seeds { first, count }).unwrap()
        };
        let alone: Vec<u64> = (0..7).map(|number| spread(70 + number, 1, 1).most).collect();
        let all = spread(70, 1, 7);
        let largest = *alone.iter().max().unwrap();
        let mut sorted = alone.clone();
        sorted.sort_unstable();
        assert_eq!(
            (all.count, all.least, all.median, all.most, all.one_in()),
            (7, sorted[0], sorted[3], largest, 8)
        );
        assert!(sorted[0] < largest, "seeds differ: {alone:?}");
        assert_eq!(alone[all.most_seed as usize - 1], largest, "--seed repeats the largest");
        assert_eq!(spread(70, 1, 7), all, "the same seeds give the same lengths");
    }

    /// Additional seeds never make the result smaller, and a single additional seed rarely makes it
    /// larger.
    #[test]
    fn about_one_further_seed_in_so_many_needs_more() {
        let published = published();
        let seeds = |first| Seeds { first, count: 9 };
        let lengths = |from: u64| {
            let spread = Spread::of(&watcher(Times::Exp(US * 60), from), &published[..2000], seeds(0));
            spread.unwrap().most
        };
        let further = |from: u64| {
            let one = Seeds { first: 0, count: 1 };
            Spread::of(&watcher(Times::Exp(US * 60), from), &published[..2000], one).unwrap().most
        };
        // Counts how often, in 200 series, the tenth seed needs more than the nine seeds before it.
        let more = (0..200).filter(|series| further(series * 10 + 9) > lengths(series * 10)).count();
        // The expected share is one in ten, or less than one in ten because two seeds may need the
        // same length. The seeds are fixed, so the result does not vary.
        assert!((4..=26).contains(&more), "{more} of 200");
    }

    #[test]
    fn fixed_times_have_no_seeds() {
        let seeds = Seeds { first: 1, count: 5 };
        assert_eq!(Spread::of(&watcher(Times::Fixed(US), 1), &published(), seeds), None);
    }

    #[test]
    fn the_usual_number_of_seeds_fits_the_work() {
        let (fixed, random) = (watcher(Times::Fixed(US), 1), watcher(Times::Exp(US), 2));
        let count = |asked, watchers: &[Watcher], events| Seeds::new(1, asked, watchers, events).count;
        assert_eq!(count(None, std::slice::from_ref(&fixed), 1000), 1);
        assert_eq!(count(None, &[fixed.clone(), random.clone()], 18_000), 99);
        assert_eq!(count(None, &[random.clone(), random.clone()], 1_000_000), 25);
        assert_eq!(count(None, &[random.clone(), random.clone()], 3_600_000_000), 1);
        assert_eq!(count(Some(7), &[fixed, random], 3_600_000_000), 7);
    }
}
