//! Tests the `eventcast` command with a NATS server and with events from real clusters, which are
//! not available on every machine. If something is missing, the tests that need it are ignored.

#[cfg(feature = "nats")]
#[path = "../../../nats/tests/nats/certificates.rs"]
mod certificates;
mod clusters;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "nats")]
#[path = "../../../nats/tests/nats/server.rs"]
#[allow(dead_code, reason = "the tests of the bridge use more of it")]
mod server;
#[path = "../cli/support/mod.rs"]
mod support;

use std::process::ExitCode;

use test_support::tests;

fn main() -> ExitCode {
    test_support::run([
        (clusters::missing(), tests![clusters::real_clusters_fit_on_one_screen]),
        #[cfg(feature = "nats")]
        (
            server::missing(),
            tests![
                nats::what_one_process_publishes_another_prints,
                nats::a_watch_resumes_where_the_last_one_ended,
                nats::tls_and_each_way_to_sign_in_carry_events,
                nats::a_refusal_ends_at_the_timeout_with_its_reason,
            ],
        ),
    ])
}
