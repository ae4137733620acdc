//! Checks that no secret appears in statuses, errors, `Debug` output, or the log at any level.

use std::fmt::{self, Debug, Write as _};
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use eventcast::Broadcaster;
use eventcast_nats::{
    Auth, ConnectionOptions, NatsBridge, NatsPublisher, NatsSink, NatsSinkOptions, NatsSubscriber, Routed,
    StreamOptions,
};
use test_support::in_own_process;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::reading::{eventually, lossless};
use crate::server::Server;

/// All the output that a person can read.
#[derive(Clone, Default)]
struct Texts {
    all: Arc<Mutex<String>>,
    has_no_log: Arc<AtomicBool>,
}

impl Texts {
    fn add(&self, text: impl fmt::Display) {
        writeln!(self.all.lock().unwrap(), "{text}").unwrap();
    }

    fn add_debug(&self, thing: &impl Debug) {
        self.add(format!("{thing:?}\n{thing:#?}"));
    }
}

impl Visit for Texts {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(format!("{field}: {value:?}"));
    }
}

/// The log, at all levels.
impl Subscriber for Texts {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if !self.has_no_log.load(Ordering::Relaxed) {
            event.record(&mut self.clone());
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Uses each part of the crate with these options until the part has received a response, and
/// collects the part's output.
fn use_all(connection: &ConnectionOptions, texts: &Texts) {
    texts.add_debug(connection);
    texts.add(connection);
    let heard = texts.clone();
    let bus = lossless();
    let builder = NatsPublisher::builder::<u64>("nats://h").on_status(move |status| {
        heard.add(status);
        heard.add_debug(status);
    });
    let builder = builder.ensure_stream("EVENTS", StreamOptions::default());
    let builder = builder.configure(|options| options.connection = connection.clone());
    texts.add_debug(&builder);
    let out = match builder.attach(&bus) {
        Ok(out) => out,
        Err(error) => {
            texts.add(&error);
            return texts.add_debug(&error);
        }
    };
    bus.publisher().publish(1).unwrap();
    let reader = NatsSubscriber::builder::<u64>("nats://h");
    let reader = reader.configure(|options| options.connection = connection.clone());
    texts.add_debug(&reader);
    let watcher = reader.watch().unwrap();
    let bridge = NatsBridge::builder::<u64>("nats://h", "EVENTS", StreamOptions::default()).configure(
        |out, reader| {
            out.connection = connection.clone();
            reader.connection = connection.clone();
        },
    );
    texts.add_debug(&bridge);
    let both = Broadcaster::<Routed<u64>>::new().unwrap();
    let bridge = bridge.attach(&both).unwrap();
    let mut options = NatsSinkOptions::default();
    options.connection = connection.clone();
    options.timeout = Duration::from_millis(100);
    texts.add_debug(&options);
    let sink = NatsSink::new(options).unwrap();
    let written = eventcast::EventSink::create(&sink, &eventcast::Event::default());
    texts.add_debug(&written.map_err(|error| error.to_string()));
    eventually(|| out.stats().acknowledged == 1 || out.status().failure().is_some());
    let is_told = || watcher.subscriber().status().to_string() != "connecting";
    eventually(is_told);
    texts.add_debug(&(&out, &watcher, &bridge, &sink));
    texts.add(bridge.status());
    texts.add(out.shutdown_timeout(Duration::ZERO));
    texts.add(serde_json::to_string(&watcher.subscriber().stats()).unwrap());
    watcher.close(Duration::from_secs(1));
}

/// Returns the address of a server that echoes the credentials in its response.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        // The thread runs until the process exits.
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let info = r#"{"server_id":"","version":"","max_payload":1,"nonce":"n"}"#;
            let _ = stream.write_all(format!("INFO {info}\r\n").as_bytes());
            let mut line = String::new();
            let _ = BufReader::new(&stream).read_line(&mut line);
            let _ = stream.write_all(line.as_bytes());
        }
    });
    address
}

const PASSWORD: &str = "Pa55w0rd";
const TOKEN: &str = "T0kenT0ken";

/// Returns the text of a credentials file, as written by `nsc`.
fn creds(seed: &str) -> String {
    let (jwt, nkey) = ("NATS USER JWT", "USER NKEY SEED");
    format!(
        "-----BEGIN {jwt}-----\n{TOKEN}\n------END {jwt}------\n\n\
         -----BEGIN {nkey}-----\n{seed}\n------END {nkey}------\n\n"
    )
}

/// The test runs in its own process, because the log belongs to the whole process.
pub(crate) fn no_text_contains_a_secret() {
    in_own_process!();
    let texts = Texts::default();
    tracing::subscriber::set_global_default(texts.clone()).unwrap();
    let server = Server::start(&format!("authorization {{ user: me, password: {PASSWORD} }}\n"));
    let (address, wrong) = (format!("127.0.0.1:{}", server.port()), echo());
    let folder = tempfile::tempdir().unwrap();
    let mut secrets = vec![PASSWORD.to_owned(), TOKEN.to_owned()];
    for (address, is_echo) in [(&address, false), (&wrong, true)] {
        // At its lowest log levels, the client itself logs data from such a server.
        texts.has_no_log.store(is_echo, Ordering::Relaxed);
        let password = Auth::Password { user: "me".to_owned(), password: PASSWORD.to_owned() };
        let auths = [None, Some(Auth::Token(TOKEN.to_owned())), Some(password)];
        let in_address = [format!("nats://me:{PASSWORD}@{address}"), format!("nats://{TOKEN}@{address}")];
        let plain = format!("nats://{address}");
        let options = in_address.iter().map(|url| (url, None)).chain(auths.map(|auth| (&plain, auth)));
        for (url, auth) in options {
            let mut options = ConnectionOptions::new(url);
            options.auth = auth;
            use_all(&options, &texts);
        }
        let key = nkeys::KeyPair::new_user();
        let (seed, file) = (key.seed().unwrap(), folder.path().join("me"));
        let (rest, last) = seed.split_at(seed.len() - 1);
        let damaged = format!("{rest}{}", if last == "A" { "B" } else { "A" });
        for (text, is_creds) in [
            (seed.clone(), false),
            (damaged.clone(), false),
            (creds(&seed), true),
            (creds(&damaged), true),
            (format!("{seed}{seed}"), true),
        ] {
            fs::write(&file, text).unwrap();
            let mut options = ConnectionOptions::new(&plain);
            let auth = if is_creds { Auth::CredentialsFile } else { Auth::NkeyFile };
            options.auth = Some(auth(file.clone()));
            use_all(&options, &texts);
        }
        // The damaged seed differs only in the last character.
        secrets.push(rest.to_owned());
    }
    let texts = texts.all.lock().unwrap();
    // Each kind of output must be present.
    for part in [
        "authorization violation",
        "PublisherOptions",
        "connecting to server",
        "the response is not from a NATS server",
        "has no seed of an nkey",
    ] {
        assert!(texts.contains(part), "{part}");
    }
    for secret in secrets {
        let line = texts.lines().find(|line| line.contains(&secret));
        assert_eq!(line, None);
    }
}
