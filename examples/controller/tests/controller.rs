//! Tests of the operator: what it records about a reminder, and the whole program against an API
//! server in this process.

#[path = "../../../tests/support/api_server/mod.rs"]
mod api_server;
#[path = "../src/reminder.rs"]
mod reminder;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, SystemTime};

use api_server::ApiServer;
use eventcast::testing::{FakeClock, FakeRecorder};
use kube::runtime::controller::Action;
use reminder::{Ctx, Reminder, ReminderSpec, reconcile};
use serde_json::{Value, json};

const LONG: Duration = Duration::from_secs(180);
const COLLECTION: &str = "/apis/eventcast.example.com/v1/reminders";

fn reminder(at: &str) -> Arc<Reminder> {
    let spec = ReminderSpec { at: at.to_owned(), message: "drink it".to_owned() };
    let mut reminder = Reminder::new("tea", spec);
    reminder.metadata.namespace = Some("default".to_owned());
    Arc::new(reminder)
}

#[test]
fn a_reminder_is_scheduled_and_then_due() {
    let fake = FakeRecorder::new(16);
    // 2026-11-21T12:00:00Z
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_262_400));
    let ctx = Arc::new(Ctx { recorder: fake.recorder(), clock: clock.clock() });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let reconciled = |at: &str| runtime.block_on(reconcile(reminder(at), ctx.clone())).unwrap();

    let minute = Duration::from_secs(60);
    assert_eq!(reconciled("2026-11-21T12:01:00Z"), Action::requeue(minute));
    assert_eq!(fake.take_lines(), ["Normal Scheduled due at 2026-11-21T12:01:00Z"]);
    clock.advance(minute);
    assert_eq!(reconciled("2026-11-21T12:01:00Z"), Action::await_change());
    let events = fake.take();
    assert_eq!(events[0].involved_object.to_string(), "Reminder/default/tea");
    assert_eq!(events[0].involved_object.api_version, "eventcast.example.com/v1");
    assert_eq!((events[0].reason.as_str(), events[0].message.as_str()), ("Due", "drink it"));
    assert_eq!(reconciled("at noon\u{1b}[2J"), Action::await_change());
    let lines = fake.take_lines();
    assert!(lines[0].starts_with("Warning Invalid at: ") && !lines[0].contains('\u{1b}'), "{lines:?}");
}

/// A program whose stderr is read as it comes.
struct Running {
    child: Child,
    stderr: Receiver<String>,
}

impl Running {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_controller"))
            .args(args)
            // The program must find nothing of the machine that it runs on.
            .env_remove("KUBECONFIG")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env("HOME", "/nonexistent")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pipe = child.stderr.take().unwrap();
        let (sender, stderr) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, stderr }
    }

    fn wait_for(&self, words: &str) {
        loop {
            let line = self.stderr.recv_timeout(LONG).expect("the awaited line comes");
            if line.contains(words) {
                return;
            }
        }
    }

    /// Waits for the end. Returns the exit status, stdout, and the part of stderr that had not been
    /// read.
    fn end(mut self) -> (Option<i32>, String, Vec<String>) {
        let rest = self.stderr.iter().collect();
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        (self.child.wait().unwrap().code(), stdout, rest)
    }
}

/// A kubeconfig in a file that is removed when this value is dropped.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(unix)]
#[test]
fn the_program_records_what_it_finds_and_ends_at_a_signal() {
    use rustix::process::{Pid, Signal, kill_process};

    let server = ApiServer::start();
    let object = |name: &str, at: &str| {
        json!({
            "apiVersion": "eventcast.example.com/v1", "kind": "Reminder",
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
            "spec": {"at": at, "message": "drink it"},
        })
    };
    server.put_object(COLLECTION, object("tea", "2020-01-01T00:00:00Z"));
    server.put_object(COLLECTION, object("coffee", "at noon"));
    let file = File::new("kubeconfig", &server.kubeconfig());
    let program = Running::start(&["--kubeconfig", file.path()]);
    let logged = [program.stderr.recv_timeout(LONG).unwrap(), program.stderr.recv_timeout(LONG).unwrap()];
    assert!(logged.iter().any(|line| line.ends_with("  Normal   Due  reminder/tea  drink it")), "{logged:?}");
    assert!(
        logged.iter().any(|line| line.contains("  Warning  Invalid  reminder/coffee  at: ")),
        "{logged:?}"
    );
    // A reminder that comes while the program watches.
    while !server.take_seen().iter().any(|seen| seen.path == COLLECTION && seen.is_watch) {
        thread::yield_now();
    }
    server.put_object(COLLECTION, object("cake", "2100-01-01T00:00:00Z"));
    program.wait_for("Scheduled  reminder/cake  due at 2100-01-01T00:00:00Z");
    kill_process(Pid::from_child(&program.child), Signal::INT).unwrap();
    let (code, stdout, stderr) = program.end();
    assert_eq!(code, Some(0), "{stdout}{stderr:#?}");
    assert!(stdout.starts_with("complete: ") && stdout.contains("created 3"), "{stdout}");

    let mut stored: Vec<[String; 4]> = server.events().iter().map(shown).collect();
    stored.sort();
    let expected = [
        ["cake", "Normal", "Scheduled", "uid-cake"],
        ["coffee", "Warning", "Invalid", "uid-coffee"],
        ["tea", "Normal", "Due", "uid-tea"],
    ];
    assert_eq!(stored, expected.map(|row| row.map(str::to_owned)));
}

fn shown(event: &Value) -> [String; 4] {
    let object = &event["involvedObject"];
    [&object["name"], &event["type"], &event["reason"], &object["uid"]]
        .map(|value| value.as_str().unwrap_or_default().to_owned())
}

#[test]
fn without_a_cluster_it_says_so_and_ends() {
    let gone = ApiServer::start().kubeconfig();
    let gone = File::new("gone", &gone);
    let foreign = ApiServer::start();
    let foreign_file = File::new("foreign", &foreign.kubeconfig());
    let broken = File::new("broken", "clusters: [\u{1b}");
    for (args, code, words) in [
        (&["--kubeconfig", gone.path()][..], 1, "controller: cannot reach a cluster at http://127.0.0.1:"),
        (
            &["--kubeconfig", foreign_file.path()],
            1,
            "does not have the resource: run 'controller --crd | kubectl apply -f -'",
        ),
        (&["--kubeconfig", broken.path()], 1, "controller: cannot find a cluster: "),
        (&["--kubeconfig", "/nonexistent/file"], 1, "controller: cannot find a cluster: "),
        (&[], 1, "controller: cannot find a cluster: "),
        (&[], 1, ": name one with --kubeconfig or KUBECONFIG"),
        (&["--kubeconfig"], 2, "controller: --kubeconfig needs a file"),
        (&["--namespace"], 2, "controller: --namespace needs a name"),
        (&["--what"], 2, "controller: "),
    ] {
        let (status, stdout, stderr) = Running::start(args).end();
        assert_eq!((status, stdout.as_str()), (Some(code), ""), "{args:?}: {stderr:#?}");
        let text = stderr.join("\n");
        assert!(text.contains(words) && !text.contains('\u{1b}'), "{args:?}: {text}");
    }
}

#[test]
fn it_prints_its_help_and_the_definition_of_its_resource() {
    let (code, help, _) = Running::start(&["--help"]).end();
    assert_eq!(code, Some(0));
    assert!(help.contains("Usage: controller [OPTIONS]"), "{help}");
    let (code, crd, _) = Running::start(&["--crd"]).end();
    assert_eq!(code, Some(0));
    let crd: Value = serde_json::from_str(&crd).unwrap();
    assert_eq!(crd["metadata"]["name"], "reminders.eventcast.example.com");
}
