//! The time that a handler takes for an event, which is constant or random.

use std::fmt;
use std::time::Duration;

use super::dice::Dice;
use crate::support::duration;
use crate::support::text::quoted;

/// The maximum time that can be requested, as a mean or as the end of a range.
const MAX: Duration = Duration::from_secs(60);
/// The text at the end of every error message about an invalid handler.
const FORM: &str =
    "use a time up to 60s, as in 20us, or fixed:20us, exp:50us, uniform:10us..100us or pareto:50us";
/// The shape of the heavy-tailed distribution. A distribution with this shape has a finite mean but
/// an infinite variance.
const SHAPE: f64 = 1.5;
/// The time at which the tail is truncated, as a multiple of the mean.
const TAIL: f64 = 1000.0;
/// The number of sides of the dice, which is the number of evenly spaced values that a float can
/// represent between 0 and 1.
const SIDES: u64 = 1 << 53;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Times {
    Fixed(Duration),
    /// Uniformly distributed between the two times.
    Uniform(Duration, Duration),
    /// Exponentially distributed with this mean.
    Exp(Duration),
    /// Pareto-distributed with a shape of 1.5 and this mean: mostly short, occasionally very long.
    Pareto(Duration),
}

impl Times {
    /// Parses `20us`, `fixed:20us`, `exp:50us`, `uniform:10us..100us` or `pareto:50us`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("{why} in {}: {FORM}", quoted(text));
        let time = |part: &str| {
            let time = duration::parse("the time", part).map_err(|error| wrong(&error))?;
            if time > MAX { Err(wrong("the time must be at most 60s")) } else { Ok(time) }
        };
        let more_than_zero = |part: &str| match time(part)? {
            Duration::ZERO => Err(wrong("the mean must be more than 0s")),
            mean => Ok(mean),
        };
        let Some((shape, rest)) = text.split_once(':') else { return Ok(Self::Fixed(time(text)?)) };
        match shape {
            "fixed" => Ok(Self::Fixed(time(rest)?)),
            "exp" => Ok(Self::Exp(more_than_zero(rest)?)),
            "pareto" => Ok(Self::Pareto(more_than_zero(rest)?)),
            "uniform" => {
                let (from, to) = rest.split_once("..").ok_or_else(|| wrong("missing '..'"))?;
                let (from, to) = (time(from)?, time(to)?);
                if from >= to {
                    return Err(wrong("the range must be ascending"));
                }
                Ok(Self::Uniform(from, to))
            }
            _ => {
                Err(wrong(&format!("the shape must be fixed, uniform, exp or pareto, got {}", quoted(shape))))
            }
        }
    }

    pub(crate) fn mean(self) -> Duration {
        match self {
            Self::Fixed(mean) | Self::Exp(mean) | Self::Pareto(mean) => mean,
            Self::Uniform(from, to) => (from + to) / 2,
        }
    }

    /// Returns the same distribution with a different mean.
    pub(crate) fn with_mean(self, mean: Duration) -> Self {
        match self {
            Self::Fixed(_) => Self::Fixed(mean),
            Self::Exp(_) => Self::Exp(mean),
            Self::Pareto(_) => Self::Pareto(mean),
            Self::Uniform(from, to) => {
                let factor = mean.as_secs_f64() / self.mean().as_secs_f64();
                Self::Uniform(from.mul_f64(factor), to.mul_f64(factor))
            }
        }
    }

    /// Returns the time that the event with this number takes. The same seed and number result in
    /// the same time, so the time of a lost event is also known.
    pub(crate) fn of(self, seed: u64, number: u64) -> Duration {
        // The chance is more than 0 and at most 1.
        let chance = || (Dice::new(seed, number).roll(SIDES) + 1) as f64 / SIDES as f64;
        match self {
            Self::Fixed(time) => time,
            Self::Uniform(from, to) => from + to.saturating_sub(from).mul_f64(chance()),
            Self::Exp(mean) => mean.mul_f64(-chance().ln()),
            Self::Pareto(mean) => {
                let shortest = (SHAPE - 1.0) / SHAPE;
                mean.mul_f64((shortest * chance().powf(-1.0 / SHAPE)).min(TAIL))
            }
        }
    }
}

/// Formats the time in the form that `parse` accepts.
impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(time) => write!(f, "fixed:{}", shown(*time)),
            Self::Uniform(from, to) => write!(f, "uniform:{}..{}", shown(*from), shown(*to)),
            Self::Exp(mean) => write!(f, "exp:{}", shown(*mean)),
            Self::Pareto(mean) => write!(f, "pareto:{}", shown(*mean)),
        }
    }
}

/// Formats the time in the form that `parse` accepts, such as `1.5ms` or `20us`.
pub(crate) fn shown(time: Duration) -> String {
    // Rounds the time up to a tenth of a microsecond, because no machine is more precise than that.
    let time = Duration::from_nanos((time.as_nanos() as u64).div_ceil(100) * 100);
    format!("{time:?}").replace('µ', "u")
}

#[cfg(test)]
mod tests {
    use super::{Times, shown};
    use std::time::Duration;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn reads_what_it_shows() {
        for text in ["fixed:20us", "exp:50us", "uniform:10us..1.5ms", "pareto:2s", "fixed:0ns"] {
            let shown = Times::parse(&text.replace("0ns", "0s")).unwrap().to_string();
            assert_eq!(shown, text);
        }
        assert_eq!(Times::parse("3ms"), Ok(Times::Fixed(US * 3000)));
        assert_eq!(shown(Duration::from_nanos(20_001)), "20.1us");
    }

    #[test]
    fn errors_list_the_allowed_values() {
        for (text, part) in [
            ("", "the time must be a duration such as 250ms or 1m30s, got ''"),
            ("exp", "got 'exp' in 'exp'"),
            ("exp:", "the time must be a duration such as 250ms or 1m30s, got ''"),
            ("exp:0us", "the mean must be more than 0s"),
            ("pareto:0s", "the mean must be more than 0s"),
            ("gauss:1us", "exp or pareto, got 'gauss'"),
            ("uniform:1us", "missing '..'"),
            ("uniform:2us..1us", "the range must be ascending"),
            ("uniform:2us..2us", "the range must be ascending"),
            ("61s", "the time must be at most 60s"),
            ("exp:99999999999999999999h", "the time must be a duration"),
            ("-1us", "got '-1us' in '-1us'"),
            ("\u{1b}[2J:1us", r"'\u{1b}[2J'"),
        ] {
            let error = Times::parse(text).unwrap_err();
            assert!(error.contains(part) && error.ends_with("or pareto:50us"), "{text}: {error}");
            assert!(!error.contains('\u{1b}'));
        }
    }

    fn drawn(times: Times) -> Vec<f64> {
        let mut drawn: Vec<f64> =
            (0..100_000).map(|n| times.of(7, n).as_secs_f64() / times.mean().as_secs_f64()).collect();
        drawn.sort_by(f64::total_cmp);
        drawn
    }

    #[test]
    fn each_shape_is_itself() {
        let mean = |drawn: &[f64]| drawn.iter().sum::<f64>() / drawn.len() as f64;
        let near =
            |is: f64, should: f64| assert!((is / should - 1.0).abs() < 0.02, "{is} is not near {should}");
        // The expected values are the mean, the median and the 99th percentile, as multiples of the
        // mean.
        for (times, expected) in [
            (Times::Fixed(US), [1.0, 1.0, 1.0]),
            (Times::Uniform(US * 10, US * 100), [1.0, 1.0, (10.0 + 0.99 * 90.0) / 55.0]),
            (Times::Exp(US * 50), [1.0, 0.693, 4.605]),
        ] {
            let drawn = drawn(times);
            let found = [mean(&drawn), drawn[50_000], drawn[99_000]];
            for (is, should) in found.into_iter().zip(expected) {
                near(is, should);
            }
        }
        let pareto = drawn(Times::Pareto(US * 50));
        near(pareto[0], 1.0 / 3.0);
        near(pareto[50_000], 2.0_f64.powf(1.0 / 1.5) / 3.0);
        near(pareto[99_000], 100.0_f64.powf(1.0 / 1.5) / 3.0);
        // If the tail is this heavy, the sample mean converges slowly, and truncating the tail
        // reduces it.
        assert!((0.85..1.1).contains(&mean(&pareto)), "{}", mean(&pareto));
        assert!(pareto[99_999] > 100.0 && pareto[99_999] <= 1000.0);
        assert!(drawn(Times::Uniform(US * 10, US * 100))[0] >= 10.0 / 55.0);
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let times = Times::Exp(US * 50);
        assert_eq!(times.of(1, 2), times.of(1, 2));
        assert_ne!(times.of(1, 2), times.of(1, 3));
        assert_ne!(times.of(1, 2), times.of(2, 2));
    }

    #[test]
    fn a_mean_can_be_set() {
        assert_eq!(Times::Uniform(US * 10, US * 30).with_mean(US * 40).to_string(), "uniform:20us..60us");
        for text in ["fixed:1us", "exp:1us", "pareto:1us"] {
            assert_eq!(Times::parse(text).unwrap().with_mean(US * 7).to_string(), text.replace('1', "7"));
        }
    }
}
