//! Tests the `operator` example with an API server. The tests check the events that the operator
//! records, and its messages if there is no cluster.

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::SystemTime;

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use test_support::LONG;

use super::api_server::ApiServer;

const COLLECTION: &str = "/apis/eventcast.example.com/v1/reminders";
/// Returns the path of the example program, which `cargo test` builds. (`cargo test --test
/// kubernetes` alone does not build it.) Panics if the program is missing or older than its
/// sources.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join(format!("examples/operator{EXE_SUFFIX}"));
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/operator");
    let changed = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    let files = fs::read_dir(sources).unwrap().map(|file| file.unwrap().path());
    let newest: Option<SystemTime> = files.filter_map(|file| changed(&file)).max();
    assert!(
        changed(&program) >= newest,
        "{} is missing or older than its sources: run `cargo build -p eventcast-kube --example operator` first",
        program.display()
    );
    program
}

/// A program whose stderr is read while it is running.
struct Running {
    child: Child,
    stderr: Receiver<String>,
}

impl Running {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(program())
            .args(args)
            // The program must not find any configuration on the machine.
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

    /// Waits until the program has exited. Returns the exit status, stdout, and the part of stderr
    /// that had not been read.
    fn end(mut self) -> (Option<i32>, String, Vec<String>) {
        let rest = self.stderr.iter().collect();
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        (self.child.wait().unwrap().code(), stdout, rest)
    }
}

/// Returns a temporary file with this text. The file is removed when the returned value is dropped.
fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn path(file: &NamedTempFile) -> &str {
    file.path().to_str().unwrap()
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
    let file = file(&server.kubeconfig());
    let program = Running::start(&["--kubeconfig", path(&file)]);
    let logged = [program.stderr.recv_timeout(LONG).unwrap(), program.stderr.recv_timeout(LONG).unwrap()];
    assert!(logged.iter().any(|line| line.ends_with("  Normal   Due  reminder/tea  drink it")), "{logged:?}");
    assert!(
        logged.iter().any(|line| line.contains("  Warning  Invalid  reminder/coffee  at: ")),
        "{logged:?}"
    );
    // A reminder is created while the program is watching.
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
fn without_a_cluster_it_reports_an_error_and_ends() {
    let gone = ApiServer::start().kubeconfig();
    let gone = file(&gone);
    let foreign = ApiServer::start();
    let foreign_file = file(&foreign.kubeconfig());
    let broken = file("clusters: [\u{1b}");
    for (args, code, words) in [
        (&["--kubeconfig", path(&gone)][..], 1, "operator: cannot reach a cluster at http://127.0.0.1:"),
        (
            &["--kubeconfig", path(&foreign_file)],
            1,
            "does not have the resource: run 'operator --crd | kubectl apply -f -'",
        ),
        (&["--kubeconfig", path(&broken)], 1, "operator: cannot find a cluster: "),
        (&["--kubeconfig", "/nonexistent/file"], 1, "operator: cannot find a cluster: "),
        (&[], 1, "operator: cannot find a cluster: "),
        (&[], 1, ": name one with --kubeconfig or KUBECONFIG"),
        (&["--kubeconfig"], 2, "a value is required for '--kubeconfig <FILE>'"),
        (&["--namespace"], 2, "a value is required for '--namespace <NAME>'"),
        (&["--what\u{1b}[2J"], 2, "unexpected argument '--what\\u{1b}[2J' found"),
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
    assert!(help.contains("Usage: operator [OPTIONS]"), "{help}");
    let (code, crd, _) = Running::start(&["--crd"]).end();
    assert_eq!(code, Some(0));
    let crd: Value = serde_json::from_str(&crd).unwrap();
    assert_eq!(crd["metadata"]["name"], "reminders.eventcast.example.com");
}
