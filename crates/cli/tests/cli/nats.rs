//! `eventcast publish` and `eventcast watch`: two processes that share a bus.

use crate::support::output::{run, run_with};

#[cfg(not(feature = "nats"))]
#[test]
fn without_the_feature_both_say_which_one_they_need() {
    for command in ["publish", "watch"] {
        let ended = run_with(&[command, "--nats", "nats://127.0.0.1:1"], b"");
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""));
        assert!(ended.stderr.contains("needs the feature `nats`"), "{}", ended.stderr);
    }
    assert!(run(&["watch", "--help"]).stdout.contains("lacks the feature `nats`"));
}

#[cfg(feature = "nats")]
mod with_a_server {
    use test_support::{skipped, test_name};

    use super::{run, run_with};
    use crate::server::Server;

    /// Starts a server, or says that the test is skipped.
    fn server(test: &str) -> Option<Server> {
        let server = Server::start("");
        if server.is_none() {
            assert!(std::env::var("EVENTCAST_NATS").as_deref() != Ok("required"), "there is no nats-server");
            skipped(test, "there is no nats-server");
        }
        server
    }

    #[test]
    fn what_one_process_publishes_another_prints() {
        let Some(server) = server(test_name!()) else { return };
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

    #[test]
    fn a_watch_resumes_where_the_last_one_ended() {
        let Some(server) = server(test_name!()) else { return };
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

    #[test]
    fn a_server_that_does_not_come_is_a_failure() {
        let ended = run_with(&["publish", "--nats", "nats://127.0.0.1:1", "--timeout", "100ms"], b"1\n");
        assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("not complete") && ended.stderr.contains("abandoned 1"),
            "{}",
            ended.stderr
        );
    }

    #[test]
    fn options_out_of_range_are_bad_usage() {
        let url = "nats://127.0.0.1:1";
        for args in [
            &["watch", "--nats", url, "--filter", "a..b"][..],
            &["watch", "--nats", url, "--stream", "a b"],
            &["publish", "--nats", url, "--subject", "a.*"],
        ] {
            let ended = run(args);
            assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args:?}: {}", ended.stderr);
            assert!(ended.stderr.contains("must be"), "{}", ended.stderr);
        }
    }
}
