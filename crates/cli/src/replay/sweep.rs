//! Replays the events with several values from a range for one option, and draws the results.

use std::path::Path;
use std::time::Duration;

use eventcast::CorrelatorOptions;
use serde_json::json;

use super::args::{self, CorrelatorArgs};
use super::input::Input;
use super::progress::Replayed;
use super::report::percent;
use super::run::{self, Outcome};
use crate::plot::{self, Axis, Drawing, Line, Mark, Panel, Scale};
use crate::support::number::counted;
use crate::support::text::quoted;

/// The maximum number of values to try. The values are evenly spread over the range.
const POINTS: u64 = 64;

/// An option, and the range of its values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sweep {
    option: Swept,
    from: u32,
    to: u32,
}

#[derive(Clone, Copy, Debug)]
enum Swept {
    MaxEvents,
    MaxInterval,
    Burst,
    CacheSize,
}

impl Swept {
    const ALL: [Self; 4] = [Self::MaxEvents, Self::MaxInterval, Self::Burst, Self::CacheSize];

    fn name(self) -> &'static str {
        match self {
            Self::MaxEvents => "max-events",
            Self::MaxInterval => "max-interval",
            Self::Burst => "burst",
            Self::CacheSize => "cache-size",
        }
    }

    /// Returns the axis label, which consists of the option's name and the unit.
    fn label(self) -> String {
        let unit = match self {
            Self::MaxEvents => "similar events",
            Self::MaxInterval => "seconds",
            Self::Burst => "events",
            Self::CacheSize => "entries",
        };
        format!("{}, {unit}", self.name())
    }

    /// Returns the library's default value.
    #[allow(clippy::cast_precision_loss, reason = "the defaults are far below 2^53")]
    fn default_value(self) -> f64 {
        match self {
            Self::MaxEvents => args::MAX_EVENTS as f64,
            Self::MaxInterval => args::MAX_INTERVAL.as_secs_f64(),
            Self::Burst => f64::from(args::BURST),
            Self::CacheSize => args::CACHE_SIZE as f64,
        }
    }

    /// Returns the correlator options with this value. Returns `None` if the stage to which the
    /// option belongs is disabled.
    fn set(self, args: &CorrelatorArgs, value: u32) -> Option<CorrelatorOptions> {
        let is_off = match self {
            Self::MaxEvents | Self::MaxInterval => args.no_aggregation,
            Self::Burst => args.no_spam_filter,
            Self::CacheSize => false,
        };
        let mut args = args.clone();
        match self {
            Self::MaxEvents => args.max_events = value as usize,
            Self::MaxInterval => args.max_interval = Duration::from_secs(value.into()),
            Self::Burst => args.burst = value,
            Self::CacheSize => args.cache_size = value as usize,
        }
        (!is_off).then(|| args.options())
    }
}

impl Sweep {
    /// Parses `OPTION=A..B`, where the range includes both ends.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!("--sweep: {what} in {}: use an option and a range, as in burst=5..100", quoted(text))
        };
        let (name, range) = text.split_once('=').ok_or_else(|| wrong("missing '='"))?;
        let option = Swept::ALL.into_iter().find(|known| known.name() == name).ok_or_else(|| {
            let known = Swept::ALL.map(Swept::name).join(", ");
            wrong(&format!("the option must be one of {known}, got {}", quoted(name)))
        })?;
        let (from, to) = range.split_once("..").ok_or_else(|| wrong("missing '..'"))?;
        let number = |text: &str| {
            let error = || format!("the ends must be whole numbers up to {}, got {}", u32::MAX, quoted(text));
            text.parse::<u32>().map_err(|_| wrong(&error()))
        };
        let (from, to) = (number(from)?, number(to)?);
        if from == 0 || from >= to {
            return Err(wrong("the range must start at 1 or more and be ascending"));
        }
        Ok(Self { option, from, to })
    }

    /// Returns the values to try: all values in the range, or at most `POINTS` evenly spread
    /// values.
    pub(crate) fn values(&self) -> Vec<u32> {
        let (from, span) = (u64::from(self.from), u64::from(self.to - self.from));
        let steps = span.min(POINTS - 1);
        (0..=steps).map(|i| (from + span * i / steps) as u32).collect()
    }

    /// Replays the events once with each value.
    pub(crate) fn run(
        &self,
        args: &CorrelatorArgs,
        input: &Input,
        replayed: &Replayed,
    ) -> Result<Vec<(u32, Outcome)>, String> {
        let one = |value: u32| {
            let options = self.option.set(args, value).ok_or_else(|| {
                format!(
                    "cannot sweep {}: its stage is off: omit --no-aggregation and --no-spam-filter",
                    self.option.name()
                )
            })?;
            Ok((value, run::run(&options, &input.events, replayed)?))
        };
        self.values().into_iter().map(one).collect()
    }

    /// Returns the data of the drawing as JSON.
    pub(crate) fn json(&self, points: &[(u32, Outcome)]) -> String {
        let points: Vec<_> = points
            .iter()
            .map(|(value, outcome)| json!({"value": value, "apiCalls": outcome.calls(), "stats": outcome.stats}))
            .collect();
        format!("{}\n", json!({"option": self.option.name(), "points": points}))
    }

    /// Returns the drawing as an SVG document. `source` is the file that contains the events, if
    /// there is such a file.
    pub(crate) fn svg(&self, points: &[(u32, Outcome)], source: Option<&Path>) -> Result<String, String> {
        plot::svg(&self.drawing(points, source))
    }

    fn drawing(&self, points: &[(u32, Outcome)], source: Option<&Path>) -> Drawing {
        let line = |(series, (label, value)): (usize, Series)| Line {
            label: label.to_owned(),
            series,
            dashes: 0,
            places: points
                .iter()
                .map(|(x, outcome)| (f64::from(*x), percent(value(outcome), outcome.events())))
                .collect(),
        };
        let events = counted(points.first().map_or(0, |(_, outcome)| outcome.events()), "event");
        let name = source.and_then(Path::file_name);
        let source = name.map_or_else(String::new, |name| format!(" of {}", name.to_string_lossy()));
        let default = self.option.default_value();
        Drawing {
            title: format!("{} from {} to {}: {events}{source}", self.option.name(), self.from, self.to),
            panels: vec![Panel {
                x: Axis { label: self.option.label(), scale: Scale::Linear },
                y: Axis { label: "percent of the events".to_owned(), scale: Scale::Linear },
                lines: SERIES.into_iter().enumerate().map(line).collect(),
                marks: vec![Mark { at: default, label: format!("default: {default}") }],
            }],
        }
    }
}

/// A line in the drawing, consisting of its name and the function that returns the count to show.
type Series = (&'static str, fn(&Outcome) -> u64);

const SERIES: [Series; 4] = [
    ("API calls", Outcome::calls),
    ("stored events", |outcome| outcome.stats.created),
    ("filtered", |outcome| outcome.stats.filtered),
    ("aggregated", |outcome| outcome.stats.aggregated),
];
