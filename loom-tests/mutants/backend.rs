//! The programs that can catch a mutant: the models, or another build of the same copy.

/// A set of tests, how cargo builds them in the copy, and how to run one of them.
pub(crate) struct Backend {
    pub(crate) name: &'static str,
    /// The arguments of `cargo test` that choose the tests.
    pub(crate) chosen: &'static [&'static str],
    /// The prefix of the names of its tests. Other tests in the same program are not run.
    pub(crate) tests: &'static str,
    /// The argument of `--cfg`.
    pub(crate) cfg: Option<&'static str>,
    /// The folder of its results under the workspace's target folder.
    pub(crate) target: &'static str,
    /// The prefix of the names of files that have mutants but are not part of this build.
    pub(crate) without: Option<&'static str>,
    /// The environment variable that takes the limit.
    pub(crate) limit_variable: &'static str,
    /// The limit without `--limit`.
    pub(crate) limit: usize,
    /// The environment variables of a test, besides the limit.
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

pub(crate) const BACKENDS: &[Backend] = &[
    Backend {
        name: "loom",
        chosen: &["--package", "eventcast-loom-tests", "--test", "models"],
        tests: "",
        cfg: Some("eventcast_loom"),
        target: "loom",
        without: None,
        limit_variable: "LOOM_MAX_PERMUTATIONS",
        limit: 20_000,
        environment: &[],
    },
    Backend {
        name: "stress",
        chosen: &["--package", "eventcast", "--no-default-features", "--features", "select", "--test", "bus"],
        tests: "stress::",
        cfg: None,
        target: "stress",
        without: Some("sync/model"),
        limit_variable: "EVENTCAST_STRESS_ROUNDS",
        limit: 1000,
        environment: &[("EVENTCAST_STRESS_HANGS", "30")],
    },
];

impl Backend {
    /// Returns whether the build has this file.
    pub(crate) fn builds(&self, file: &str) -> bool {
        self.without.is_none_or(|begin| !file.starts_with(begin))
    }

    pub(crate) fn named(name: &str) -> Result<&'static Self, String> {
        let names = || BACKENDS.iter().map(|backend| backend.name).collect::<Vec<_>>().join(", ");
        let found = BACKENDS.iter().find(|backend| backend.name == name);
        found.ok_or_else(|| format!("--with must be one of {}, got {name}", names()))
    }
}
