//! The description of this machine, which contains the properties that the figures depend on.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

#[derive(Debug)]
pub(crate) struct Machine {
    /// The machine's name on the page.
    pub(crate) name: String,
    processor: Option<String>,
    cores: usize,
    kernel: Option<String>,
    rust: Option<String>,
    commit: Option<String>,
}

impl Machine {
    pub(crate) fn json(&self) -> Value {
        json!({
            "name": self.name,
            "processor": self.processor,
            "cores": self.cores,
            "system": system(),
            "kernel": self.kernel,
            "rust": self.rust,
            "eventcast": env!("CARGO_PKG_VERSION"),
            "commit": self.commit,
        })
    }
}

/// Describes this machine. The user may specify the machine's name.
pub(crate) fn learn(name: Option<&str>) -> Result<Machine, String> {
    let processor = processor();
    let cores = std::thread::available_parallelism()
        .map_err(|error| format!("cannot learn the number of cores: {error}"))?
        .get();
    let name = match (name, &processor) {
        (Some(name), _) => name.to_owned(),
        (None, Some(processor)) => {
            format!("{processor}, {cores} core{}", if cores == 1 { "" } else { "s" })
        }
        (None, None) => return Err("cannot learn the processor's name: give it with --name".to_owned()),
    };
    let kernel = printed("uname", &["-r"]).map(|text| short(&text));
    let rust =
        printed("rustc", &["--version"]).and_then(|text| text.split_whitespace().nth(1).map(str::to_owned));
    Ok(Machine { name, processor, cores, kernel, rust, commit: commit() })
}

/// Returns today's date in UTC.
pub(crate) fn today() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
}

/// Returns the usual name of the operating system.
fn system() -> &'static str {
    match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "macOS",
        "freebsd" => "FreeBSD",
        other => other,
    }
}

/// Returns the processor's name without trademark signs.
fn processor() -> Option<String> {
    let after_colon = |line: &str| {
        line.split_once(':').map(|(_, name)| name.trim().to_owned()).filter(|name| !name.is_empty())
    };
    let of = |text: &str, key: &str| text.lines().find(|line| line.starts_with(key)).and_then(after_colon);
    // On Linux, `/proc/cpuinfo` contains the model name only for some architectures.
    let name = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| of(&text, "model name"));
    let name = name.or_else(|| of(&printed("lscpu", &[])?, "Model name"));
    let name = name.or_else(|| printed("sysctl", &["-n", "machdep.cpu.brand_string"]))?;
    let name = name.replace("(R)", "").replace("(TM)", "");
    Some(name.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns the first two components of a kernel version.
fn short(version: &str) -> String {
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

/// Returns the commit of the checkout from which this program was built, with a note if the
/// checkout has uncommitted changes. Returns `None` outside of a checkout.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| printed("git", arguments);
    let commit = git(&["rev-parse", "--short=7", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changes.is_empty() { commit } else { format!("{commit} with changes") })
}

/// Returns the output of a command, or `None` if the command fails.
fn printed(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
