//! The options of the correlator as flags.

use std::str::FromStr;
use std::time::Duration;

use eventcast::CorrelatorOptions;
use eventcast::correlator::{Aggregation, SpamFilter};

use crate::support::duration;
use crate::support::text::quoted;

/// Every option of the correlator, with the library's default.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of the correlator")]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct CorrelatorArgs {
    /// Entries of each cache.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| whole::<usize>("--lru-cache-size", text))]
    #[arg(default_value_t = CorrelatorOptions::default().get_lru_cache_size())]
    lru_cache_size: usize,
    /// Fold similar events from this number on.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| whole::<usize>("--max-events", text))]
    #[arg(default_value_t = Aggregation::default().get_max_events())]
    max_events: usize,
    /// Begin anew after this time without a similar event.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "10m")]
    #[arg(value_parser = |text: &str| duration::parse("--max-interval", text))]
    max_interval: Duration,
    /// Fold nothing.
    #[arg(long)]
    no_aggregation: bool,
    /// Folded events keep labels, annotations and reporter.
    #[arg(long)]
    keep_metadata: bool,
    /// Folded events take over the store's name.
    #[arg(long)]
    keep_stored_name: bool,
    /// Groups folded at one moment have different names.
    #[arg(long)]
    own_names: bool,
    /// Events of one source about one object at once.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| whole::<u32>("--burst", text))]
    #[arg(default_value_t = SpamFilter::default().get_burst())]
    burst: u32,
    /// How many more of them each second.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| number::<f32>("--qps", "a number", text))]
    #[arg(default_value_t = SpamFilter::default().get_qps())]
    qps: f32,
    /// Skip nothing.
    #[arg(long)]
    no_spam_filter: bool,
    /// Never skip a Warning.
    #[arg(long)]
    exempt_warnings: bool,
}

impl CorrelatorArgs {
    pub(crate) fn options(&self) -> CorrelatorOptions {
        let aggregation = Aggregation::default()
            .max_events(self.max_events)
            .max_interval(self.max_interval)
            .keep_metadata(self.keep_metadata)
            .keep_stored_name(self.keep_stored_name)
            .own_names(self.own_names);
        let filter =
            SpamFilter::default().burst(self.burst).qps(self.qps).exempt_warnings(self.exempt_warnings);
        CorrelatorOptions::default()
            .lru_cache_size(self.lru_cache_size)
            .aggregation((!self.no_aggregation).then_some(aggregation))
            .spam_filter((!self.no_spam_filter).then_some(filter))
    }
}

fn whole<T: FromStr>(option: &str, text: &str) -> Result<T, String> {
    number(option, "a whole number that is not negative", text)
}

/// Reads the number of `option`. Returns what `option` must be, if the text is not such a number.
fn number<T: FromStr>(option: &str, form: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{option} must be {form}, got {}", quoted(text)))
}

#[cfg(test)]
mod tests {
    use super::CorrelatorArgs;
    use clap::Parser;
    use eventcast::CorrelatorOptions;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        correlator: CorrelatorArgs,
    }

    fn options(args: &[&str]) -> CorrelatorOptions {
        Command::parse_from([&["replay"], args].concat()).correlator.options()
    }

    #[test]
    fn the_defaults_are_the_ones_of_the_library() {
        let (options, expected) = (options(&[]), CorrelatorOptions::default());
        assert_eq!(options.get_lru_cache_size(), expected.get_lru_cache_size());
        assert_eq!(options.get_aggregation(), expected.get_aggregation());
        assert_eq!(options.get_spam_filter(), expected.get_spam_filter());
    }

    #[test]
    fn a_stage_that_is_off_has_no_options() {
        assert!(options(&["--no-aggregation"]).get_aggregation().is_none());
        assert!(options(&["--no-spam-filter"]).get_spam_filter().is_none());
    }
}
