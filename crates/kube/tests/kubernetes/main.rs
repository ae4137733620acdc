//! Tests `KubernetesSink` and the example `operator` with the fake API server in `api_server`, or
//! with a real API server.
//!
//! With `EVENTCAST_TEST_KUBECONFIG=FILE`, the tests in `answers.rs` and `conformance.rs`, and most
//! tests in `events_v1.rs`, run against the cluster that the file names. The tests run in new
//! namespaces, which they delete afterwards. The user in the file must be permitted to create
//! namespaces, service accounts, their tokens, roles and cluster roles. The sinks do not run as
//! this user, but with the role that `docs/kubernetes.md` documents:
//!
//! ```sh
//! EVENTCAST_TEST_KUBECONFIG=~/.kube/config \
//!     cargo test -p eventcast-kube --test kubernetes -- answers conformance events_v1
//! ```

mod answers;
mod api_server;
mod cluster;
mod conformance;
mod events_v1;
mod faults;
mod log;
mod operator;
mod recordings;
mod references;
mod restarts;
mod runtimes;
mod webhooks;

use eventcast_kube::{BuildError, EventsApi, KubernetesSink};

/// Asserts that the public types can be sent to other threads and shared between threads.
const _: () = {
    const fn is_send_and_sync<T: Send + Sync + 'static>() {}
    is_send_and_sync::<KubernetesSink>();
    is_send_and_sync::<BuildError>();
    is_send_and_sync::<EventsApi>();
};
