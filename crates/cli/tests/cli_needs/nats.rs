//! Tests of `eventcast publish` and `eventcast watch` with a server through which two processes
//! share a bus.

use std::fs;
use std::path::Path;

use crate::certificates::Authority;
use crate::server::Server;
use crate::support::output::{ended, eventcast, run, run_with};

pub(crate) fn what_one_process_publishes_another_prints() {
    let server = Server::start("");
    let url = server.url();
    let input = b"{\"b\": 1, \"a\": 2}\n\nplain \x1b text\n[1,2]\n";
    let sent = run_with(&["publish", "--nats", &url, "--subject", "events.shop"], input);
    assert_eq!((sent.code, &*sent.stdout), (Some(0), ""), "{}", sent.stderr);
    assert!(sent.stderr.contains("complete: ended: offered 3, acknowledged 3"), "{}", sent.stderr);
    let args = ["watch", "--nats", &url, "--all", "--count", "3", "--filter", "events.>"];
    let seen = run(&args);
    let expected = "{\"b\": 1, \"a\": 2}\n\"plain \\u001b text\"\n[1,2]\n";
    assert_eq!((seen.code, &*seen.stdout), (Some(0), expected), "{}", seen.stderr);
}

pub(crate) fn a_watch_resumes_where_the_last_one_ended() {
    let server = Server::start("");
    let url = server.url();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("position.json");
    let args = ["watch", "--nats", &url, "--all", "--resume", file.to_str().unwrap(), "--count", "1"];
    // All lines are sent in one message, and each watch takes one line.
    let sent = run_with(&["publish", "--nats", &url], b"0\n1\n2\n");
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    for n in 0..3 {
        assert_eq!(run(&args).stdout, format!("{n}\n"));
    }
}

/// Publishes a line and prints it, first with options and then with environment variables.
#[track_caller]
fn carries(url: &str, files: &[(&str, &Path)]) {
    for is_option in [true, false] {
        let text = format!("by option: {is_option}");
        for args in [&["publish"][..], &["watch", "--all", "--count", if is_option { "1" } else { "2" }]] {
            let mut command = eventcast(args);
            let settings = files.iter().map(|(name, path)| (*name, path.to_str().unwrap()));
            for (name, value) in settings.chain([("nats", url)]) {
                let variable = if name == "nats" { "URL".to_owned() } else { name.to_uppercase() };
                if is_option {
                    command.args([&format!("--{name}"), value]);
                } else {
                    command.env(format!("EVENTCAST_NATS_{variable}"), value);
                }
            }
            let shown = ended(command, format!("{text}\n").as_bytes());
            assert_eq!(shown.code, Some(0), "{args:?}: {}", shown.stderr);
            assert!(shown.stderr.contains("eventcast: ready\n"), "{args:?}: {}", shown.stderr);
            let is_printed = shown.stdout.ends_with(&format!("\"{text}\"\n"));
            assert!(is_printed || args[0] == "publish", "{}", shown.stdout);
        }
    }
}

pub(crate) fn tls_and_each_way_to_sign_in_carry_events() {
    let authority = Authority::new();
    let file = |name: &str| authority.file(name);
    let server = Server::start(&authority.settings(false));
    carries(&server.url(), &[("ca", &file("ca.pem"))]);
    let server = Server::start(&authority.settings(true));
    let files = [("ca", file("ca.pem")), ("cert", file("client.pem")), ("key", file("client.key"))];
    carries(&server.url(), &files.each_ref().map(|(name, path)| (*name, path.as_path())));
    let server = Server::start("authorization { user: me, password: s3cret }\n");
    carries(&format!("nats://me:s3cret@127.0.0.1:{}", server.port()), &[]);
    let key = nkeys::KeyPair::new_user();
    let users = format!("authorization {{ users: [ {{ nkey: {} }} ] }}\n", key.public_key());
    let server = Server::start(&users);
    let seed = server.path().join("me.nk");
    fs::write(&seed, key.seed().unwrap()).unwrap();
    carries(&server.url(), &[("nkey", &seed)]);
}

pub(crate) fn a_refusal_ends_at_the_timeout_with_its_reason() {
    let input = "1\n".repeat(100_000);
    let says = |url: &str, input: &str, reason: &str| {
        let ended = run_with(&["publish", "--nats", url, "--timeout", "1s"], input.as_bytes());
        assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{}", ended.stderr);
        let status = format!("eventcast: refused: {reason}");
        assert!(ended.stderr.contains(&status), "{}", ended.stderr);
        assert!(ended.stderr.trim_end().ends_with(&format!("last failure: {reason}")), "{}", ended.stderr);
    };
    let server = Server::start_without_jetstream();
    for input in ["1\n", &input] {
        says(&server.url(), input, "no JetStream: enable it on the server (`nats-server -js`)");
    }
    let server = Server::start("jetstream { max_file_store: 64MB }\n");
    for input in ["1\n", &input] {
        let text = "cannot create the stream EVENTS: insufficient storage resources available (code 500, error \
                    code 10047): give the server more storage, or the stream a smaller `max_bytes`";
        says(&server.url(), input, text);
    }
    let ended = run_with(&["publish", "--nats", &server.url(), "--max-bytes", "1000000"], b"1\n");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let server = Server::start(&Authority::new().settings(false));
    let text = format!(
        "eventcast: connecting: 127.0.0.1:{}: the server's certificate was issued by an unknown authority: \
         set the certificate of its CA",
        server.port()
    );
    let ended = run_with(&["publish", "--nats", &server.url(), "--timeout", "1s"], input.as_bytes());
    assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains(&text), "{}", ended.stderr);
}
