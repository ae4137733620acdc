//! The sets of tests that can catch a mutant. A set consists of the models, or of the stress test
//! in a separate build of the same copy of the source tree.

/// A set of tests, with the information needed to build the tests in the copy of the source tree
/// and to run one of the tests.
pub(crate) struct Backend {
    pub(crate) name: &'static str,
    /// The `cargo test` arguments that select the tests.
    pub(crate) chosen: &'static [&'static str],
    /// The prefix of the test names. Other tests in the same program are not run.
    pub(crate) tests: &'static str,
    /// The argument of the `--cfg` option.
    pub(crate) cfg: Option<&'static str>,
    /// The subfolder of the workspace's target folder that is used for this backend's build.
    pub(crate) target: &'static str,
    /// The path prefix of the files that have mutants but are not part of this build.
    pub(crate) without: Option<&'static str>,
    /// The environment variable that sets the limit.
    pub(crate) limit_variable: &'static str,
    /// The limit if `--limit` is not given.
    pub(crate) limit: usize,
    /// The environment variables that are set for a test, in addition to the limit's variable.
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
    /// Returns whether the given file is part of this backend's build.
    pub(crate) fn builds(&self, file: &str) -> bool {
        self.without.is_none_or(|begin| !file.starts_with(begin))
    }

    pub(crate) fn named(name: &str) -> Result<&'static Self, String> {
        let names = || BACKENDS.iter().map(|backend| backend.name).collect::<Vec<_>>().join(", ");
        let found = BACKENDS.iter().find(|backend| backend.name == name);
        found.ok_or_else(|| format!("--with must be one of {}, got {name}", names()))
    }
}
