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
mod without_a_server {
    use super::{run, run_with};

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
                &["publish", "--nats", address, "--timeout", "50ms"][..],
                &["publish", "--nats", address, "--timeout", "50ms", "--subject", "a.*"],
                &["watch", "--nats", address, "--count", "0"],
                &["watch", "--nats", address, "--filter", "a..b"],
            ] {
                let ended = run_with(args, b"1\n");
                let all = format!("{}{}", ended.stdout, ended.stderr);
                assert!(!all.contains("s3cret"), "{args:?}: {all}");
                let is_refused = ended.code == Some(2) && args.len() > 5;
                assert!(is_refused || all.contains(&format!("connecting to {shown}")), "{args:?}: {all}");
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
