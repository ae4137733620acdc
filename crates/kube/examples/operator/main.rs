//! An operator on kube that records events about its custom resource.
//!
//! ```sh
//! cargo run -p eventcast-kube --example operator -- --crd | kubectl apply -f -
//! cargo run -p eventcast-kube --example operator &
//! kubectl apply -f - <<END
//! {"apiVersion": "eventcast.example.com/v1", "kind": "Reminder", "metadata": {"name": "tea"},
//!  "spec": {"at": "2030-01-01T12:00:00Z", "message": "drink it"}}
//! END
//! kubectl describe reminder tea
//! ```
//!
//! A `Reminder` consists of a time and a message. The operator records an event when it sees a
//! reminder, and another event when the reminder is due. `kubectl describe` shows both events.
//! Recording requires code in three places: the broadcaster in `operate`, the recorder in `Ctx`,
//! and the calls in `reminder.rs`.

mod reminder;

use std::error::Error;
use std::future::ready;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use eventcast::escape::escape;
use eventcast::{Clock, EventBroadcaster};
use eventcast_kube::KubernetesSink;
use futures::StreamExt;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, Config, CustomResourceExt};

use reminder::{Ctx, Reminder, reconcile};

const AFTER_HELP: &str = "\
The log of events goes to stderr. Ctrl-C or SIGTERM ends the program. It waits up to 10 s until the last events are
stored, and prints what became of all events.

Exit status: 0 when a signal ended it and all events were stored, 1 when not, 2 for bad usage.";

/// An operator on kube that records events about its custom resource, Reminder
#[derive(Parser)]
#[command(name = "operator", after_help = AFTER_HELP)]
struct Settings {
    /// The cluster and the user [default: KUBECONFIG, ~/.kube/config, or the pod's cluster]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Only reminders in this namespace [default: all]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Print the custom resource's definition for 'kubectl apply -f -', and exit
    #[arg(long)]
    crd: bool,
}

/// The maximum time that the operator waits on exit for the last events to reach the cluster.
const DRAIN: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> ExitCode {
    let settings = match Settings::try_parse() {
        Ok(settings) => settings,
        Err(error) if error.use_stderr() => {
            // An argument may contain control characters. clap prints them unchanged, or removes
            // them if its `color` feature is enabled. Another program in the same build may enable
            // this feature.
            let args = std::env::args_os().map(|arg| escape(&arg.to_string_lossy()).to_string());
            let error = Settings::try_parse_from(args).err().unwrap_or(error);
            error.to_string().lines().for_each(|line| complain(&escape(line).to_string()));
            return ExitCode::from(2);
        }
        Err(help) => help.exit(),
    };
    match run(&settings).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&format!("operator: {}", escape(&with_causes(&*error))));
            ExitCode::FAILURE
        }
    }
}

async fn run(settings: &Settings) -> Result<bool, Box<dyn Error>> {
    if settings.crd {
        say(&serde_json::to_string_pretty(&Reminder::crd())?)?;
        return Ok(true);
    }
    operate(settings).await
}

/// Runs the operator until a signal stops it. Returns `false` if events were lost.
async fn operate(settings: &Settings) -> Result<bool, Box<dyn Error>> {
    let config = configuration(settings).await?;
    let client = Client::try_from(config.clone())?;
    let reminders: Api<Reminder> = match &settings.namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    // The controller would retry indefinitely, but the user should see the cause immediately.
    reminders.list(&ListParams::default().limit(1)).await.map_err(|error| explain(&config, &error))?;

    let events = EventBroadcaster::new()?;
    events.log_to(complain)?;
    events.record_to(KubernetesSink::new(config)?)?;
    let ctx = Ctx { recorder: events.recorder("reminder-controller"), clock: Clock::system() };

    Controller::new(reminders, watcher::Config::default())
        .shutdown_on_signal()
        .run(reconcile, |_, error, _| match *error {}, Arc::new(ctx))
        .for_each(|_| ready(()))
        .await;

    let report = events.shutdown_async(DRAIN).await;
    say(&format!("{report:#}"))?;
    Ok(report.complete)
}

async fn configuration(settings: &Settings) -> Result<Config, String> {
    let explain = |error: &dyn Error| {
        let cause = with_causes(error);
        format!("cannot find a cluster: {cause}: name one with --kubeconfig or KUBECONFIG")
    };
    let Some(file) = &settings.kubeconfig else {
        return Config::infer().await.map_err(|error| explain(&error));
    };
    let kubeconfig = Kubeconfig::read_from(file).map_err(|error| explain(&error))?;
    let options = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| explain(&error))
}

/// Returns the error message to show if reminders in the cluster cannot be listed.
fn explain(config: &Config, error: &kube::Error) -> String {
    let url = &config.cluster_url;
    match error {
        kube::Error::Api(status) if status.code == 404 => format!(
            "cannot list Reminders: the cluster at {url} does not have the resource: run 'operator --crd | \
             kubectl apply -f -'"
        ),
        kube::Error::Api(status) => {
            format!("cannot list Reminders: the cluster at {url} refuses: {}", status.message)
        }
        _ => format!("cannot reach a cluster at {url}: {}", with_causes(error)),
    }
}

/// Returns an error's text together with the texts of its causes. Some of kube's errors include the
/// cause in their own text, while others return it only from `source`. In the returned text, each
/// cause appears once.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        if !text.contains(&cause.to_string()) {
            text = format!("{text}: {cause}");
        }
        next = cause.source();
    }
    text
}

/// Writes lines to stdout. It is not an error if the reader has closed the pipe, as in `| head`.
fn say(text: &str) -> Result<(), String> {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to stdout: {error}"))
        }
        _ => Ok(()),
    }
}

/// Writes a line to stderr in a single call, and ignores a failed write.
fn complain(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
