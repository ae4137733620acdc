//! A server that belongs to a test. The server is a process on a free port, with its own directory.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

#[cfg(unix)]
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tempfile::TempDir;
use test_support::until;

const NONE: &str = "there is no nats-server: set NATS_SERVER_BIN, or install one on the PATH";

/// Returns the reason why the tests that start servers cannot run. With `EVENTCAST_NATS=required`,
/// they run even without a server, and then fail.
pub(crate) fn missing() -> Option<String> {
    match env::var("EVENTCAST_NATS").as_deref() {
        Ok("required") => None,
        Ok("skip") => Some("EVENTCAST_NATS=skip".to_owned()),
        _ if program().is_some() => None,
        _ => Some(NONE.to_owned()),
    }
}

/// Returns the factor by which long tests are extended.
pub(crate) fn scale() -> u64 {
    env::var("EVENTCAST_NATS_SCALE").ok().and_then(|factor| factor.parse().ok()).unwrap_or(1)
}

/// A nats-server process with JetStream, which is killed when this value is dropped.
pub(crate) struct Server {
    program: PathBuf,
    /// The words of a command that precedes the program and starts the program elsewhere.
    through: Vec<String>,
    address: String,
    folder: TempDir,
    child: Option<Child>,
    port: u16,
    has_jetstream: bool,
}

impl Server {
    /// Starts a server with additional lines of configuration.
    ///
    /// # Panics
    ///
    /// Panics if the program cannot be found.
    pub(crate) fn start(settings: &str) -> Self {
        Self::start_at(&[], "127.0.0.1", settings)
    }

    /// Starts a server without JetStream.
    pub(crate) fn start_without_jetstream() -> Self {
        Self::start_as(&[], "127.0.0.1", "", false)
    }

    /// Starts a server through a command that runs the server elsewhere. The server listens on an
    /// address there.
    pub(crate) fn start_at(through: &[&str], address: &str, settings: &str) -> Self {
        Self::start_as(through, address, settings, true)
    }

    fn start_as(through: &[&str], address: &str, settings: &str, has_jetstream: bool) -> Self {
        let program = program().expect(NONE);
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("nats.conf"), settings).unwrap();
        let through = with_parent().iter().chain(through).map(|word| (*word).to_owned()).collect();
        let address = address.to_owned();
        let mut server = Self { program, through, address, folder, child: None, port: 0, has_jetstream };
        server.restart();
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://{}:{}", self.address, self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Kills the process immediately, like a crash.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Restarts the process on the same port and with the same directory, and waits until its
    /// JetStream responds.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let ports = self.folder.path().join("ports");
        let _ = fs::remove_dir_all(&ports);
        fs::create_dir(&ports).unwrap();
        let port = if self.port == 0 { "-1".to_owned() } else { self.port.to_string() };
        let words = self.through.iter().map(OsStr::new).chain([self.program.as_os_str()]);
        let words: Vec<_> = words.collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["-a", &self.address, "-p", &port]);
        command.args(self.has_jetstream.then_some("-js"));
        command.arg("-sd").arg(self.folder.path().join("store"));
        command.arg("-l").arg(self.folder.path().join("log"));
        command.arg("--ports_file_dir").arg(&ports);
        command.arg("-c").arg(self.folder.path().join("nats.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        let mut found = None;
        until(|| {
            pause();
            found = port_in(&ports);
            found.is_some()
        });
        self.port = found.unwrap();
        until(|| {
            pause();
            answers(&self.address, self.port)
        });
    }

    /// Suspends the process. None of the process's threads is running when this method returns.
    #[cfg(unix)]
    pub(crate) fn stop(&self) {
        let process = self.process();
        kill_process(process, Signal::STOP).unwrap();
        // A thread that has not received the signal yet may still respond to messages.
        let stopped = waitpid(Some(process), WaitOptions::UNTRACED).unwrap();
        assert!(stopped.is_some_and(|(_, status)| status.stopped()));
    }

    /// Resumes the process.
    #[cfg(unix)]
    pub(crate) fn go_on(&self) {
        kill_process(self.process(), Signal::CONT).unwrap();
    }

    /// Makes the process reload its configuration with these lines.
    #[cfg(unix)]
    pub(crate) fn reload(&self, settings: &str) {
        fs::write(self.folder.path().join("nats.conf"), settings).unwrap();
        kill_process(self.process(), Signal::HUP).unwrap();
    }

    #[cfg(unix)]
    fn process(&self) -> Pid {
        let id = self.child.as_ref().map(Child::id).unwrap();
        Pid::from_raw(i32::try_from(id).unwrap()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sleeps briefly, which leaves the CPU to the server between checks.
fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

fn program() -> Option<PathBuf> {
    env::var_os("NATS_SERVER_BIN").map(PathBuf::from).or_else(|| on_path("nats-server"))
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Returns the words of a command that makes a server end if this process is killed. Returns no
/// words if the system has no such command.
fn with_parent() -> &'static [&'static str] {
    if on_path("setpriv").is_some() { &["setpriv", "--pdeathsig", "KILL"] } else { &[] }
}

/// Returns the port that a server has written to a file in this directory.
fn port_in(folder: &Path) -> Option<u16> {
    let file = fs::read_dir(folder).ok()?.next()?.ok()?;
    let text = fs::read_to_string(file.path()).ok()?;
    let value: serde_json::Value = serde_json::from_str(&text).ok()?;
    value["nats"][0].as_str()?.rsplit(':').next()?.parse().ok()
}

/// Returns whether a server responds to a ping.
fn answers(address: &str, port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect((address, port)) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let asked = stream.write_all(b"CONNECT {\"verbose\":false}\r\nPING\r\n");
    let mut lines = BufReader::new(stream).lines();
    // A server that requires a password responds with an error, and a server that requires TLS
    // announces this first.
    let is_answer =
        |line: String| line == "PONG" || line.starts_with("-ERR") || line.contains("\"tls_required\":true");
    asked.is_ok() && lines.any(|line| line.is_ok_and(is_answer))
}
