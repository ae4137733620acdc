//! Commands and options that are not available in this build because their feature is disabled.

use super::bad_usage::BadUsage;

/// The features that are disabled by default, and whether each of them is enabled in this build.
const EXTRAS: [(&str, bool); 4] = [
    ("nats", cfg!(feature = "nats")),
    ("sqlite", cfg!(feature = "sqlite")),
    ("sqlite-system", cfg!(all(feature = "sqlite-system", not(feature = "sqlite")))),
    ("top", cfg!(feature = "top")),
];

/// Returns the error for a command or an option whose feature is disabled in this build. The error
/// includes a command that installs a build with that feature.
pub(crate) fn missing(asked: &str, feature: &str) -> BadUsage {
    BadUsage(format!(
        "{asked} requires the `{feature}` feature, which this build does not include: run `cargo install --path \
         crates/cli --features {}` in a clone of eventcast",
        with_extras(feature, EXTRAS)
    ))
}

/// Returns the features for a build with one additional feature. The new build replaces this build,
/// so the new build keeps the extras that this build has.
fn with_extras<const N: usize>(feature: &str, extras: [(&str, bool); N]) -> String {
    let kept = extras.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name);
    [feature].into_iter().chain(kept).collect::<Vec<_>>().join(",")
}

/// Accepts any arguments, and is used for a command that is not available in this build.
#[cfg(not(all(feature = "analysis", feature = "help")))]
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AnyArgs {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<std::ffi::OsString>,
}

#[cfg(test)]
mod tests {
    use super::with_extras;

    #[test]
    fn another_build_keeps_the_features_of_this_one() {
        assert_eq!(with_extras("help", [("nats", false), ("sqlite", false)]), "help");
        assert_eq!(with_extras("nats", [("nats", false), ("sqlite", true)]), "nats,sqlite");
    }
}
