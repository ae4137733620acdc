//! Tests of `eventcast publish` and `eventcast watch`, which share a bus between processes.
#![cfg(feature = "nats")]

use crate::support::output::{run, run_with};

mod without_a_server {
    use std::net::TcpListener;

    use super::{run, run_with};
    use crate::support::output::{ended, eventcast};

    /// Returns a port on which no server is listening.
    fn free_port() -> u16 {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    #[test]
    fn an_unreachable_server_is_a_failure_with_its_reason() {
        let port = free_port();
        let url = format!("nats://127.0.0.1:{port}");
        let ended = run_with(&["publish", "--nats", &url, "--timeout", "1s"], b"1\n");
        assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{}", ended.stderr);
        let reason = format!("127.0.0.1:{port}: connection refused: is a server running there?");
        let lines: Vec<&str> = ended.stderr.lines().collect();
        assert_eq!(lines[0], format!("eventcast: connecting to {url}"));
        assert!(lines[1].starts_with(&format!("eventcast: connecting: {reason} (failed attempts: ")));
        assert!(lines[2].starts_with(&format!("eventcast: ended: {reason}")), "{}", lines[2]);
        assert!(lines[3].starts_with("eventcast: not complete: ended: offered 1, "), "{}", lines[3]);
        assert!(lines[3].contains("abandoned 1") && lines[3].ends_with(&reason), "{}", lines[3]);
    }

    /// There are more lines than the queues of the bus and the bridge can hold.
    #[test]
    fn more_lines_than_the_queue_holds_wait_no_longer_than_the_timeout() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let silent = format!("nats://{}", silent.local_addr().unwrap());
        let refused = format!("nats://127.0.0.1:{}", free_port());
        let input = "1\n".repeat(100_000);
        for url in [&refused, &silent] {
            let ended = run_with(&["publish", "--nats", url, "--timeout", "100ms"], input.as_bytes());
            assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{}", ended.stderr);
            let text = " and all later lines were not published: the queue was full for 100ms\n";
            assert!(ended.stderr.contains(text), "{}", ended.stderr);
            assert!(ended.stderr.contains("eventcast: not complete: "), "{}", ended.stderr);
        }
    }

    #[test]
    fn an_address_that_cannot_be_one_is_bad_usage() {
        for (address, reason) in [
            ("", "got \"\": it is empty"),
            ("nats://", "got nats://: it has no host"),
            ("nats://me:s3cret@", "got nats://: it has no host"),
            ("nats://two words", "got nats://two words: no host name contains ' '"),
            ("nats://h:port", "got nats://h:port: its port must be a number from 1 to 65535"),
            ("http://h", "got nats://h: it must begin with `nats://` or `tls://`"),
        ] {
            for command in ["publish", "watch"] {
                let ended = run(&[command, "--nats", address]);
                assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{address}: {}", ended.stderr);
                let text = format!("servers must be addresses such as nats://host:4222, {reason}");
                assert!(ended.stderr.contains(&text), "{address}: {}", ended.stderr);
            }
        }
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (file, missing) = (folder.path().join("rubbish"), folder.path().join("missing"));
        std::fs::write(&file, "rubbish").unwrap();
        let (file, missing) = (file.to_str().unwrap(), missing.to_str().unwrap());
        for (option, variable, path, reason) in [
            ("--ca", "EVENTCAST_NATS_CA", missing, format!("cannot read certificates from {missing}: ")),
            (
                "--ca",
                "EVENTCAST_NATS_CA",
                file,
                format!("certificates from {file}: it contains none in PEM format"),
            ),
            ("--creds", "EVENTCAST_NATS_CREDS", missing, format!("cannot read {missing}: ")),
            (
                "--creds",
                "EVENTCAST_NATS_CREDS",
                file,
                format!("{file} has no credentials as `nsc` writes them"),
            ),
            ("--nkey", "EVENTCAST_NATS_NKEY", file, format!("{file} has no seed of an nkey")),
        ] {
            let by_option = eventcast(&["watch", "--nats", "nats://127.0.0.1:1", option, path]);
            let mut by_variable = eventcast(&["watch"]);
            by_variable.env(variable, path).env("EVENTCAST_NATS_URL", "nats://127.0.0.1:1");
            for command in [by_option, by_variable] {
                let shown = ended(command, b"");
                assert_eq!((shown.code, &*shown.stdout), (Some(1), ""), "{}", shown.stderr);
                assert!(shown.stderr.contains(&reason), "{reason}: {}", shown.stderr);
            }
        }
    }

    #[test]
    fn options_that_belong_together_are_asked_for() {
        let url = "nats://127.0.0.1:1";
        for (args, named) in [
            (&["watch", "--nats", url, "--cert", "a"][..], "--key <FILE>"),
            (&["watch", "--nats", url, "--key", "a"], "--cert <FILE>"),
            (
                &["watch", "--nats", url, "--nkey", "a", "--creds", "b"],
                "cannot be used with '--creds <FILE>'",
            ),
            (&["watch"], "--nats <URL>"),
        ] {
            let ended = run(args);
            assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args:?}: {}", ended.stderr);
            assert!(ended.stderr.contains(named), "{args:?}: {}", ended.stderr);
        }
    }

    #[test]
    fn no_output_contains_the_password_of_the_address() {
        for (address, shown) in [
            ("nats://me:s3cret@127.0.0.1:1", "nats://127.0.0.1:1"),
            ("s3cret@127.0.0.1:1", "nats://127.0.0.1:1"),
            ("nats://me:s3cret/s3cret@127.0.0.1:1", "nats://127.0.0.1:1"),
            ("tls://me:s3cret@127.0.0.1:1", "tls://127.0.0.1:1"),
            ("nats://me:s3cret@", "nats://"),
            ("nats://me:s3cret@127.0.0.1:port", "nats://127.0.0.1:port"),
        ] {
            for args in [
                &["publish", "--timeout", "50ms"][..],
                &["publish", "--timeout", "50ms", "--subject", "a.*"],
                &["watch", "--count", "0"],
                &["watch", "--filter", "a..b"],
                &["watch", "--help"],
                &["watch", "--nkey"],
            ] {
                let mut by_variable = eventcast(args);
                by_variable.env("EVENTCAST_NATS_URL", address);
                let by_option = eventcast(&[args, &["--nats", address]].concat());
                for command in [by_option, by_variable] {
                    let ended = ended(command, b"1\n");
                    let all = format!("{}{}", ended.stdout, ended.stderr);
                    assert!(!all.contains("s3cret"), "{args:?}: {all}");
                    let is_shown = all.contains(&format!("connecting to {shown}"))
                        || all.contains(&format!("got {shown}: "));
                    assert!(is_shown || args.len() > 1 && ended.code != Some(1), "{args:?}: {all}");
                }
            }
        }
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
