//! `KubernetesSink` against an API server: the one of `support/api_server`, or a real one.
//!
//! With `EVENTCAST_TEST_KUBECONFIG=FILE` the tests of `answers.rs` run against the cluster that the
//! file names. They run in new namespaces, which they delete. The user in the file must be allowed
//! to create namespaces and roles. kube then needs TLS, which the library leaves to the program:
//!
//! ```sh
//! EVENTCAST_TEST_KUBECONFIG=~/.kube/config \
//!     cargo test --features kube-5,kube/rustls-tls,kube/ring --test kubernetes answers
//! ```

mod answers;
mod cluster;
mod faults;
mod kubectl;
mod recordings;
mod references;
mod runtimes;

#[path = "../support/api_server/mod.rs"]
mod api_server;
