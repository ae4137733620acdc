//! `eventcast publish` and `eventcast watch` with a server: two processes share a bus.

use crate::server::Server;
use crate::support::output::{run, run_with};

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
    // All lines are in one message, and each watch takes one of them.
    let sent = run_with(&["publish", "--nats", &url], b"0\n1\n2\n");
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    for n in 0..3 {
        assert_eq!(run(&args).stdout, format!("{n}\n"));
    }
}
