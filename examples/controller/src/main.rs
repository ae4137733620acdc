//! An operator on kube that records events about its custom resource.
//!
//! ```sh
//! cargo run -p eventcast-controller -- --crd | kubectl apply -f -
//! cargo run -p eventcast-controller &
//! kubectl apply -f - <<END
//! {"apiVersion": "eventcast.example.com/v1", "kind": "Reminder", "metadata": {"name": "tea"},
//!  "spec": {"at": "2030-01-01T12:00:00Z", "message": "drink it"}}
//! END
//! kubectl describe reminder tea
//! ```
//!
//! A `Reminder` has a time and a message. The operator records an event when it sees a reminder,
//! and another when the time has come. `kubectl describe` shows both. Recording takes code in three
//! places: the broadcaster in `operate`, the recorder in `Ctx`, and the calls in `reminder.rs`.

mod reminder;
#[allow(clippy::manual_is_multiple_of, reason = "shared with programs for an older Rust, which has none")]
#[path = "../../support/mod.rs"]
mod support;

use std::error::Error;
use std::ffi::OsString;
use std::future::ready;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use eventcast::{Clock, EventBroadcaster, KubernetesSink};
use futures::StreamExt;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, Config, CustomResourceExt};
use lexopt::prelude::{Long, Short};

use reminder::{Ctx, Reminder, reconcile};
use support::flags::{self, Parser};
use support::output::{complain, say};

const HELP: &str = "\
An operator on kube that records events about its custom resource, Reminder.

Usage: controller [OPTIONS]

Options:
      --kubeconfig FILE  The cluster and the user [default: KUBECONFIG, ~/.kube/config, or the own cluster]
      --namespace NAME   Only reminders of this namespace [default: of all]
      --crd              Print the custom resource's definition, for 'kubectl apply -f -', and end
  -h, --help             Print this

The log of events goes to stderr. Ctrl-C or SIGTERM ends the program. It waits up to 10 s until the last events are
stored, and prints what became of all events.

Exit status: 0 when a signal ended it and all events were stored, 1 when not, 2 for bad usage.
";

/// The time that the last events have to reach the cluster.
const DRAIN: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Settings {
    kubeconfig: Option<PathBuf>,
    namespace: Option<String>,
    crd: bool,
}

fn main() -> ExitCode {
    flags::main("controller", HELP, read, |settings| {
        if settings.crd {
            say(&format!("{}\n", serde_json::to_string_pretty(&Reminder::crd())?))?;
            return Ok(true);
        }
        tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(operate(settings))
    })
}

fn read(mut parser: Parser) -> Result<Option<Settings>, String> {
    let mut settings = Settings::default();
    while let Some(argument) = flags::next(&mut parser)? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("crd") => settings.crd = true,
            Long("kubeconfig") => {
                settings.kubeconfig = Some(value(&mut parser, "--kubeconfig needs a file")?.into());
            }
            Long("namespace") => {
                settings.namespace = Some(flags::utf8(value(&mut parser, "--namespace needs a name")?)?);
            }
            _ => return Err(flags::unknown(argument)),
        }
    }
    Ok(Some(settings))
}

fn value(parser: &mut Parser, what: &str) -> Result<OsString, String> {
    parser.value().map_err(|_| what.to_owned())
}

/// Runs the operator until a signal ends it. Returns `false` if events were lost.
async fn operate(settings: &Settings) -> Result<bool, Box<dyn Error>> {
    let config = configuration(settings).await.map_err(|error| {
        format!("cannot find a cluster: {error}: name one with --kubeconfig or KUBECONFIG")
    })?;
    let url = config.cluster_url.clone();
    let client = Client::try_from(config.clone())?;
    let reminders: Api<Reminder> = match &settings.namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    // The controller would retry without end, but the user should learn the cause at once.
    if let Err(error) = reminders.list(&ListParams::default().limit(1)).await {
        return Err(match &error {
            kube::Error::Api(status) if status.code == 404 => format!(
                "cannot list Reminders: the cluster at {url} does not have the resource: run 'controller \
                 --crd | kubectl apply -f -'"
            ),
            kube::Error::Api(status) => {
                format!("cannot list Reminders: the cluster at {url} refuses: {}", status.message)
            }
            _ => format!("cannot reach a cluster at {url}: {}", with_causes(&error)),
        }
        .into());
    }

    let events = EventBroadcaster::new()?;
    events.start_logging(complain)?;
    events.start_recording_to_sink(KubernetesSink::new(config)?)?;
    let ctx = Ctx { recorder: events.new_recorder("reminder-controller"), clock: Clock::system() };

    Controller::new(reminders, watcher::Config::default())
        .shutdown_on_signal()
        .run(reconcile, |_, error, _| match *error {}, Arc::new(ctx))
        .for_each(|_| ready(()))
        .await;

    let report = events.shutdown_async(DRAIN).await;
    say(&format!("{report}\n"))?;
    Ok(report.complete)
}

async fn configuration(settings: &Settings) -> Result<Config, String> {
    let Some(file) = &settings.kubeconfig else {
        return Config::infer().await.map_err(|error| with_causes(&error));
    };
    let kubeconfig = Kubeconfig::read_from(file).map_err(|error| with_causes(&error))?;
    let options = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| with_causes(&error))
}

/// Returns the error with its causes. kube's errors name their cause or leave it to `source`. Here
/// each cause comes once.
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
