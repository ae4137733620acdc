//! Checks that the program's memory use levels off.

/// The number of samples per second.
pub(crate) const RATE: u64 = 4;

/// The number of samples required for a verdict. During the first seconds, memory use grows because
/// queues, caches and stores are filling up.
const ENOUGH: usize = 20 * RATE as usize;

/// The maximum amount by which the median of the last third of the samples may exceed the median of
/// the second third, in bytes. In one-minute runs without leaks, the medians differ by less than 1
/// MiB in either direction, because allocators keep freed pages and each new thread adds an arena.
/// If one event in 500 leaks, the growth exceeds this limit in the 20 seconds between the thirds of
/// a one-minute run. Slower leaks show up in longer runs. (Events themselves are counted, so even a
/// single leaked event is detected at the end.)
const TOLERANCE: u64 = 4 << 20;

/// Returns the resident size in bytes, or `None` if `/proc` does not provide the size.
pub(crate) fn resident() -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        let sizes = std::fs::read_to_string("/proc/self/statm").ok()?;
        let pages: u64 = sizes.split(' ').nth(1)?.parse().ok()?;
        Some(pages * rustix::param::page_size() as u64)
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// Returns a description of the sizes, and whether the sizes level off. The second value is `None`
/// if there are too few samples.
pub(crate) fn judge(samples: &[u64]) -> (String, Option<bool>) {
    if samples.is_empty() {
        return ("not known on this system".to_owned(), None);
    }
    if samples.len() < ENOUGH {
        return (format!("not judged in less than {} s", ENOUGH as u64 / RATE), None);
    }
    let third = samples.len() / 3;
    let [second, last] = [&samples[third..2 * third], &samples[2 * third..]].map(median);
    let text = format!("{} in the second third, {} in the last", mebibytes(second), mebibytes(last));
    (text, Some(last <= second + TOLERANCE))
}

pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{}.{} MiB", bytes >> 20, ((bytes & ((1 << 20) - 1)) * 10) >> 20)
}

fn median(samples: &[u64]) -> u64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::{ENOUGH, TOLERANCE, judge};

    #[test]
    fn a_slope_is_noticed_and_a_start_is_not() {
        let rising: Vec<u64> = (0..ENOUGH as u64).map(|n| n * 4 * TOLERANCE / ENOUGH as u64).collect();
        assert_eq!(judge(&rising).1, Some(false));
        let level: Vec<u64> = rising.iter().map(|bytes| (*bytes).min(TOLERANCE)).collect();
        assert_eq!(judge(&level).1, Some(true));
        assert_eq!(judge(&level[1..]).1, None);
        assert_eq!(judge(&[]).1, None);
    }
}
