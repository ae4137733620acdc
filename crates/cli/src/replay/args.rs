//! The correlator's options as command-line flags.

use std::str::FromStr;
use std::time::Duration;

use eventcast::CorrelatorOptions;
use eventcast::correlator::{Aggregation, SpamFilter};

use crate::support::duration;
use crate::support::text::quoted;

// The library's defaults.
pub(super) const CACHE_SIZE: usize = 4096;
pub(super) const MAX_EVENTS: usize = 10;
pub(super) const MAX_INTERVAL: Duration = Duration::from_secs(600);
pub(super) const BURST: u32 = 25;
const QPS: f32 = 1.0 / 300.0;

/// All of the correlator's options, with the library's defaults.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Correlator options")]
pub(crate) struct CorrelatorArgs {
    /// Number of entries in each cache
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| whole::<usize>("--cache-size", text))]
    #[arg(default_value_t = CACHE_SIZE)]
    pub(super) cache_size: usize,
    /// Aggregate similar events once there are this many
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| whole::<usize>("--max-events", text))]
    #[arg(default_value_t = MAX_EVENTS)]
    pub(super) max_events: usize,
    /// Start a new aggregate after this time without a similar event
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "10m")]
    #[arg(value_parser = |text: &str| duration::parse("--max-interval", text))]
    pub(super) max_interval: Duration,
    /// Disable aggregation
    #[arg(long)]
    pub(super) no_aggregation: bool,
    /// Burst size of the spam filter, for events from one source about one object
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| whole::<u32>("--burst", text))]
    #[arg(default_value_t = BURST)]
    pub(super) burst: u32,
    /// Rate at which the spam filter refills, in events per second
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| number::<f32>("--qps", "a number", text))]
    #[arg(default_value_t = QPS)]
    qps: f32,
    /// Disable the spam filter
    #[arg(long)]
    pub(super) no_spam_filter: bool,
    /// Exempt Warnings from the spam filter
    #[arg(long)]
    exempt_warnings: bool,
}

impl CorrelatorArgs {
    pub(crate) fn options(&self) -> CorrelatorOptions {
        let aggregation = Aggregation::default().max_events(self.max_events).max_interval(self.max_interval);
        let filter =
            SpamFilter::default().burst(self.burst).qps(self.qps).exempt_warnings(self.exempt_warnings);
        CorrelatorOptions::default()
            .cache_size(self.cache_size)
            .aggregation((!self.no_aggregation).then_some(aggregation))
            .spam_filter((!self.no_spam_filter).then_some(filter))
    }
}

fn whole<T: FromStr>(option: &str, text: &str) -> Result<T, String> {
    number(option, "a whole number that is not negative", text)
}

/// Parses the value of `option` as a number. If the text is invalid, returns an error that
/// specifies what `option` must be.
fn number<T: FromStr>(option: &str, form: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{option} must be {form}, got {}", quoted(text)))
}

#[cfg(test)]
mod tests {
    use super::{CorrelatorArgs, MAX_INTERVAL};
    use clap::Parser;
    use eventcast::CorrelatorOptions;
    use serde_json::{Value, json};

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        correlator: CorrelatorArgs,
    }

    fn parse(args: &[&str]) -> CorrelatorArgs {
        Command::parse_from([&["replay"], args].concat()).correlator
    }

    fn options(args: &[&str]) -> Value {
        json!(parse(args).options())
    }

    #[test]
    fn the_defaults_are_the_ones_of_the_library() {
        assert_eq!(options(&[]), json!(CorrelatorOptions::default()));
        assert_eq!(parse(&[]).max_interval, MAX_INTERVAL);
    }

    #[test]
    fn a_stage_that_is_off_has_no_options() {
        assert_eq!(options(&["--no-aggregation"]), json!(CorrelatorOptions::default().aggregation(None)));
        assert_eq!(options(&["--no-spam-filter"]), json!(CorrelatorOptions::default().spam_filter(None)));
    }
}
