//! Checks the text with which the status describes each possible problem with a server.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
#[cfg(target_os = "linux")]
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use eventcast::stats::RemoteState;
use eventcast::{Broadcaster, Event, EventSink};
use eventcast_nats::RemoteStatus;
use eventcast_nats::{
    NatsBridge, NatsPublisher, NatsPublisherBuilder, NatsSink, NatsSinkOptions, Routed, StreamOptions,
};
use test_support::LONG;

use crate::certificates::Authority;
use crate::reading::{Remote, eventually, lossless, out, publish, reader, settle};
use crate::server::{self, Server};

/// A publisher that has an event to send, and the statuses that were passed to its hook.
struct Told {
    /// The publisher is dropped before the bus, because dropping the bus would wait for the
    /// publisher.
    out: NatsPublisher,
    bus: Broadcaster<u64>,
    heard: Arc<Mutex<Vec<RemoteStatus>>>,
}

impl Told {
    fn new(builder: NatsPublisherBuilder<u64>) -> Self {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = heard.clone();
        let bus = lossless();
        let out = builder.on_status(move |status| hears.lock().unwrap().push(status.clone())).attach(&bus);
        bus.publisher().publish(0).unwrap();
        Self { out: out.unwrap(), bus, heard }
    }

    /// Waits until the status has this state and failure, and checks that the hook was called with
    /// this status.
    #[track_caller]
    fn says(&self, state: RemoteState, failure: &str) {
        eventually(|| {
            let status = self.out.status();
            status.state == state && status.failure() == Some(failure)
        });
        let is_it = |told: &RemoteStatus| told.state == state && told.failure() == Some(failure);
        assert!(self.heard.lock().unwrap().iter().any(is_it), "{failure}");
    }
}

/// Returns a port on which no program listens.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub(crate) fn a_refused_connection_is_reported() {
    let port = free_port();
    let url = format!("nats://127.0.0.1:{port}");
    let text = format!("127.0.0.1:{port}: connection refused: is a server running there?");
    let told = Told::new(out(&url));
    told.says(RemoteState::Connecting, &text);
    eventually(|| told.out.status().waiting == 1 && told.out.status().attempts > 2);
    // If a failure persists, it is reported once.
    assert_eq!(told.heard.lock().unwrap().len(), 1);
    let remote = Remote::new(reader(&url));
    eventually(|| remote.subscriber.status().failure() == Some(&text));
    assert_eq!(remote.subscriber.status().state, RemoteState::Connecting);
    let mut options = NatsSinkOptions::default();
    options.connection.servers = vec![url];
    options.timeout = Duration::from_millis(50);
    let sink = NatsSink::new(options).unwrap();
    eventually(|| sink.create(&Event::default()).is_err_and(|error| error.to_string().contains(&text)));
    let report = told.out.shutdown_timeout(Duration::ZERO).to_string();
    assert!(report.ends_with(&format!("last failure: {text}")), "{report}");
}

pub(crate) fn a_name_that_does_not_resolve_is_shown_after_the_first_attempt() {
    let told = Told::new(out("nats://no-such-host.invalid"));
    eventually(|| !told.heard.lock().unwrap().is_empty());
    let first = told.heard.lock().unwrap()[0].clone();
    assert_eq!(first.state, RemoteState::Connecting);
    let text = first.failure().unwrap();
    assert!(text.starts_with("no-such-host.invalid:4222: cannot resolve the host name: "), "{text}");
}

pub(crate) fn each_server_of_a_list_is_named() {
    let port = free_port();
    let told = Told::new(out("nats://no-such-host.invalid").configure(|options| {
        options.connection.servers.push(format!("nats://127.0.0.1:{port}"));
    }));
    let refused = format!("127.0.0.1:{port}: connection refused: is a server running there?");
    eventually(|| {
        let status = told.out.status();
        let text = status.failure().unwrap_or_default();
        text.contains("no-such-host.invalid:4222: cannot resolve") && text.contains(&refused)
    });
}

pub(crate) fn a_port_of_something_else() {
    let http = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = http.local_addr().unwrap().port();
    std::thread::spawn(move || {
        // The thread runs until the process exits.
        for stream in http.incoming() {
            let _ = stream.unwrap().write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        }
    });
    let told = Told::new(out(&format!("nats://127.0.0.1:{port}")));
    let text = format!("127.0.0.1:{port}: an HTTP server responded, not a NATS server");
    told.says(RemoteState::Connecting, &text);
    // Most HTTP servers wait for a request, and send nothing before the request arrives.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let told = Told::new(out(&format!("nats://127.0.0.1:{port}")));
    let text = format!("127.0.0.1:{port}: no response in time: is it a NATS server?");
    told.says(RemoteState::Connecting, &text);
}

/// Returns the text of a server's failure.
fn at(server: &Server, text: &str) -> String {
    format!("127.0.0.1:{}: {text}", server.port())
}

#[cfg(feature = "tls-ring")]
pub(crate) fn certificates_that_do_not_fit() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = Server::start(&authority.settings(true));
    let unknown = Told::new(out(&server.url()).configure(|options| {
        options.connection.tls.ca = Some(other.file("ca.pem"));
    }));
    let text = "the server's certificate was issued by an unknown authority: set the certificate of its CA";
    unknown.says(RemoteState::Connecting, &at(&server, text));
    let missing = Told::new(out(&server.url()).configure(|options| {
        options.connection.tls.ca = Some(authority.file("ca.pem"));
    }));
    let text =
        "the server requires a client certificate from an authority that it trusts: set one, and its key";
    missing.says(RemoteState::Refused, &at(&server, text));
    let foreign = Told::new(out(&server.url()).configure(|options| {
        options.connection.tls.ca = Some(authority.file("ca.pem"));
        options.connection.tls.client = Some((other.file("client.pem"), other.file("client.key")));
    }));
    foreign.says(RemoteState::Refused, &at(&server, text));
}

/// Without a TLS provider the NATS client would panic.
#[cfg(not(feature = "tls-ring"))]
pub(crate) fn a_server_that_requires_tls_names_the_feature() {
    let server = Server::start(&Authority::new().settings(false));
    let told = Told::new(out(&server.url()));
    let text =
        "the server requires TLS, and this program is built without the feature `tls-ring` of eventcast-nats";
    told.says(RemoteState::Connecting, &at(&server, text));
    assert!(!told.out.shutdown_timeout(Duration::from_millis(50)).complete);
}

#[cfg(feature = "nkeys")]
pub(crate) fn files_that_cannot_sign_in() {
    use eventcast_nats::Auth;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("me");
    let shown = path.display().to_string();
    let error = |auth: Auth| {
        let builder = out("nats://127.0.0.1:1").configure(|options| options.connection.auth = Some(auth));
        builder.attach(&lossless()).unwrap_err().to_string()
    };
    let begin = "cannot connect to nats://127.0.0.1:1: ";
    let missing = error(Auth::NkeyFile(path.clone()));
    assert!(missing.starts_with(&format!("{begin}cannot read {shown}: ")), "{missing}");
    fs::write(&path, "rubbish\n").unwrap();
    let text = format!("{begin}{shown} has no seed of an nkey, a word that begins with `SU`");
    assert_eq!(error(Auth::NkeyFile(path.clone())), text);
    let text = format!("{begin}{shown} has no credentials as `nsc` writes them: ");
    assert!(error(Auth::CredentialsFile(path.clone())).starts_with(&text));
}

#[cfg(unix)]
pub(crate) fn a_password_that_changes() {
    let settings = |password: &str| format!("authorization {{ user: u, password: {password} }}\n");
    let mut server = Server::start(&settings("before"));
    let url = format!("nats://u:before@127.0.0.1:{}", server.port());
    let told = Told::new(out(&url));
    let remote = Remote::new(reader(&url));
    assert!(remote.subscriber.ready(LONG));
    assert_eq!(settle(&told.bus, &told.out).acknowledged, 1);
    server.reload(&settings("after"));
    let text = at(&server, "authorization violation: check the user, password, token or key");
    told.says(RemoteState::Refused, &text);
    eventually(|| remote.subscriber.status().failure() == Some(&text));
    // A server that reloads its configuration loses the JetStream setting of its command line.
    fs::write(server.path().join("nats.conf"), settings("before")).unwrap();
    server.restart();
    publish(&told.bus, &told.out, 1..2);
    assert_eq!(told.out.status().state, RemoteState::Ready);
    assert!(told.out.status().last_failure.is_some());
    eventually(|| remote.subscriber.status().state == RemoteState::Ready);
}

pub(crate) fn a_stream_that_is_larger_than_the_storage() {
    let server = Server::start("jetstream { max_file_store: 64MB }\n");
    let told = Told::new(out(&server.url()));
    told.says(
        RemoteState::Refused,
        "cannot create the stream EVENTS: insufficient storage resources available (code 500, error code \
         10047): give the server more storage, or the stream a smaller `max_bytes`",
    );
    let mut stream = StreamOptions::default();
    stream.max_bytes = 1 << 20;
    let small = Told::new(out(&server.url()).ensure_stream("EVENTS", stream));
    assert_eq!(settle(&small.bus, &small.out).acknowledged, 1);
    assert_eq!(settle(&told.bus, &told.out).acknowledged, 1);
}

/// Publishes until the storage is full.
fn fill(told: &Told) {
    let publisher = told.bus.publisher();
    eventually(|| {
        (0..10_000).for_each(|event| _ = publisher.try_publish(event));
        told.out.status().failure().is_some()
    });
}

pub(crate) fn a_storage_that_is_full() {
    let server = Server::start("jetstream { max_file_store: 200KB }\n");
    let mut stream = StreamOptions::default();
    stream.max_bytes = 0;
    let told = Told::new(out(&server.url()).ensure_stream("EVENTS", stream));
    fill(&told);
    told.says(
        RemoteState::Refused,
        "insufficient resources (code 503, error code 10023): give the server more storage, or the stream a \
         smaller `max_bytes`",
    );
}

/// Returns the reason why the test of a full disk cannot run.
#[cfg(target_os = "linux")]
pub(crate) fn no_small_disk() -> Option<String> {
    let mount = ["--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/tmp"];
    let is_permitted = Command::new("unshare").args(mount).output().is_ok_and(|tried| tried.status.success());
    server::missing().or_else(|| (!is_permitted).then(|| "the system permits no namespaces".to_owned()))
}

/// A shell script that puts the directory of the server's store on a file system of one megabyte,
/// and then runs the command that is passed to the script.
#[cfg(target_os = "linux")]
const SMALL_DISK: &str = r#"for word; do [ "$last" = -sd ] && store=$word; last=$word; done
mkdir -p "$store" && mount -t tmpfs -o size=1m tmpfs "$store" && exec "$@""#;

#[cfg(target_os = "linux")]
pub(crate) fn a_disk_that_is_full() {
    let through = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", SMALL_DISK, "sh"];
    let server = Server::start_at(&through, "127.0.0.1", "jetstream { max_file_store: 1GB }\n");
    let mut stream = StreamOptions::default();
    stream.max_bytes = 0;
    let told = Told::new(out(&server.url()).ensure_stream("EVENTS", stream));
    fill(&told);
    // The server still responds to pings, and does not report this problem to its clients.
    let text = "no acknowledgement in time: the server may be overloaded or its disk may be full";
    told.says(RemoteState::Unavailable, text);
}

pub(crate) fn a_server_without_jetstream() {
    let server = Server::start_without_jetstream();
    let text = "no JetStream: enable it on the server (`nats-server -js`)";
    Told::new(out(&server.url())).says(RemoteState::Refused, text);
    Told::new(out(&server.url()).configure(|options| options.ensure_stream = None))
        .says(RemoteState::Refused, text);
    let remote = Remote::new(reader(&server.url()));
    eventually(|| remote.subscriber.status().failure() == Some(text));
    assert_eq!(remote.subscriber.status().state, RemoteState::Refused);
}

pub(crate) fn a_bridge_shows_the_side_that_is_worse_off() {
    let server = Server::start("");
    let told = Arc::new(Mutex::new(Vec::new()));
    let hears = told.clone();
    let bus = Broadcaster::<Routed<u64>>::new().unwrap();
    let bridge = NatsBridge::builder(&server.url(), "EVENTS", StreamOptions::default())
        .configure(|out, _| out.ensure_stream = None)
        .on_status(move |status| hears.lock().unwrap().push(status.to_string()))
        .attach(&bus)
        .unwrap();
    eventually(|| bridge.status().failure() == Some("there is no stream EVENTS"));
    eventually(|| bridge.out().status().state == RemoteState::Ready);
    let told = told.lock().unwrap();
    assert!(told.contains(&"ready".to_owned()), "{told:?}");
    let refused = "refused: there is no stream EVENTS (failed attempts: 1, waiting: 0)".to_owned();
    assert!(told.contains(&refused), "{told:?}");
}
