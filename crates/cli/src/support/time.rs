//! Conversion from timestamps to system time.

use std::time::SystemTime;

use eventcast::Timestamp;

/// Converts a timestamp to a system time.
pub(crate) fn system_time(at: Timestamp) -> SystemTime {
    let zero = Timestamp::UNIX_EPOCH;
    if at < zero {
        SystemTime::UNIX_EPOCH - zero.duration_since(at)
    } else {
        SystemTime::UNIX_EPOCH + at.duration_since(zero)
    }
}

#[cfg(test)]
mod tests {
    use super::system_time;
    use eventcast::Timestamp;

    #[test]
    fn times_before_and_after_the_epoch_stay_the_same() {
        for text in ["1969-12-31T23:59:58.5Z", "1970-01-01T00:00:00Z", "2024-01-01T00:00:00.000001Z"] {
            let at: Timestamp = text.parse().unwrap();
            assert_eq!(Timestamp::from(system_time(at)), at, "{text}");
        }
    }
}
