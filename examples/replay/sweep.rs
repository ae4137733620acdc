//! One option over a range of values, with the results as a drawing.

use std::fs;
use std::io::{self, Write};
use std::time::Duration;

use eventcast::CorrelatorOptions;
use indicatif::ProgressBar;
use plotters::coord::Shift;
use plotters::prelude::*;
use serde_json::json;

use super::args::Options;
use super::input::Input;
use super::report::percent;
use super::run::{self, Outcome};
use super::text::quoted;
use super::{Stop, plain};

/// The largest number of values of a range that are tried, evenly spread.
const POINTS: u64 = 64;

/// An option, and the range of its values.
pub(crate) struct Sweep {
    option: Swept,
    from: u32,
    to: u32,
}

#[derive(Clone, Copy)]
enum Swept {
    MaxEvents,
    MaxInterval,
    Burst,
    LruCacheSize,
}

impl Swept {
    const ALL: [(Self, &str); 4] = [
        (Self::MaxEvents, "max-events"),
        (Self::MaxInterval, "max-interval"),
        (Self::Burst, "burst"),
        (Self::LruCacheSize, "lru-cache-size"),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::MaxEvents => "max-events",
            Self::MaxInterval => "max-interval",
            Self::Burst => "burst",
            Self::LruCacheSize => "lru-cache-size",
        }
    }
}

impl Sweep {
    /// Reads `OPTION=A..B`, both ends included.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!("--sweep: {what} in {}: write an option and a range, as in burst=5..100", quoted(text))
        };
        let (name, range) = text.split_once('=').ok_or_else(|| wrong("there is no '='"))?;
        let (option, _) = Swept::ALL.into_iter().find(|(_, known)| *known == name).ok_or_else(|| {
            let known = Swept::ALL.map(|(_, name)| name).join(", ");
            wrong(&format!("the option must be one of {known}, got {}", quoted(name)))
        })?;
        let (from, to) = range.split_once("..").ok_or_else(|| wrong("there is no '..'"))?;
        let number = |text: &str| {
            text.parse::<u32>().map_err(|_| {
                wrong(&format!(
                    "the ends must be whole numbers up to \
                                                                4294967295, got {}",
                    quoted(text)
                ))
            })
        };
        let (from, to) = (number(from)?, number(to)?);
        if from == 0 || from >= to {
            return Err(wrong("the range must begin with 1 or more and go up"));
        }
        Ok(Self { option, from, to })
    }

    /// Returns all values of the range, or as many as are worth drawing.
    pub(crate) fn values(&self) -> Vec<u32> {
        let (from, span) = (u64::from(self.from), u64::from(self.to - self.from));
        let steps = span.min(POINTS - 1);
        (0..=steps).map(|i| (from + span * i / steps) as u32).collect()
    }

    pub(crate) fn run(
        &self,
        options: &CorrelatorOptions,
        input: &Input,
        bar: &ProgressBar,
    ) -> Result<Vec<(u32, Outcome)>, String> {
        let one = |value: u32| {
            let (aggregation, filter) = (options.get_aggregation(), options.get_spam_filter());
            let options = options.clone();
            let options = match (self.option, aggregation, filter) {
                (Swept::MaxEvents, Some(aggregation), _) => {
                    options.aggregation(aggregation.max_events(value as usize))
                }
                (Swept::MaxInterval, Some(aggregation), _) => {
                    options.aggregation(aggregation.max_interval(Duration::from_secs(value.into())))
                }
                (Swept::Burst, _, Some(filter)) => options.spam_filter(filter.burst(value)),
                (Swept::LruCacheSize, ..) => options.lru_cache_size(value as usize),
                _ => {
                    return Err(format!(
                        "cannot sweep {}: its stage is off: leave --no-aggregation and --no-spam-filter out",
                        self.option.name()
                    ));
                }
            };
            Ok((value, run::run(&options, &input.events, bar)?))
        };
        self.values().into_iter().map(one).collect()
    }
}

/// One line of the drawing: its name, its colour, and what it shows.
type Series = (&'static str, RGBColor, fn(&Outcome) -> u64);

const SERIES: [Series; 4] = [
    ("API calls", RGBColor(0x1f, 0x77, 0xb4), Outcome::calls),
    ("stored events", RGBColor(0x2c, 0xa0, 0x2c), |outcome| outcome.stats.created),
    ("filtered", RGBColor(0xd6, 0x27, 0x28), |outcome| outcome.stats.filtered),
    ("aggregated", RGBColor(0x94, 0x67, 0xbd), |outcome| outcome.stats.aggregated),
];

/// Writes the drawing. With `--json`, writes the figures behind the drawing, and then the drawing
/// only if it has a file.
pub(crate) fn write(sweep: &Sweep, points: &[(u32, Outcome)], options: &Options) -> Result<(), Stop> {
    let mut out = io::stdout().lock();
    if options.json {
        let points: Vec<_> = points
            .iter()
            .map(|(value, outcome)| json!({"value": value, "apiCalls": outcome.calls(), "stats": outcome.stats}))
            .collect();
        writeln!(out, "{}", json!({"option": sweep.option.name(), "points": points}))?;
        if options.output.is_none() {
            return Ok(());
        }
    }
    let svg = draw(sweep, points).map_err(|error| Stop::Failed(format!("cannot draw: {}", plain(&error))))?;
    match &options.output {
        None => Ok(out.write_all(svg.as_bytes())?),
        Some(path) => fs::write(path, svg).map_err(|error| {
            Stop::Failed(format!("cannot write {}: {error}", quoted(&path.to_string_lossy())))
        }),
    }
}

fn draw(sweep: &Sweep, points: &[(u32, Outcome)]) -> Result<String, String> {
    let mut svg = String::new();
    draw_on(&SVGBackend::with_string(&mut svg, (900, 540)).into_drawing_area(), sweep, points)
        .map_err(|error| error.to_string())?;
    Ok(svg)
}

fn draw_on<'a>(
    area: &DrawingArea<SVGBackend<'a>, Shift>,
    sweep: &Sweep,
    points: &[(u32, Outcome)],
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>> {
    area.fill(&WHITE)?;
    let share = |outcome: &Outcome, value: fn(&Outcome) -> u64| percent(value(outcome), outcome.events());
    let shares = points.iter().flat_map(|(_, outcome)| SERIES.map(|(.., value)| share(outcome, value)));
    let top = shares.fold(1.0, f64::max) * 1.05;
    let unit = if matches!(sweep.option, Swept::MaxInterval) { " (seconds)" } else { "" };
    let mut chart = ChartBuilder::on(area)
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(60)
        .build_cartesian_2d(f64::from(sweep.from)..f64::from(sweep.to), 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc(format!("{}{unit}", sweep.option.name()))
        .y_desc("percent of the events")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .draw()?;
    for (name, colour, value) in SERIES {
        let line = points.iter().map(|(x, outcome)| (f64::from(*x), share(outcome, value)));
        chart
            .draw_series(LineSeries::new(line, colour.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    area.present()
}
