//! Stores the events of [eventcast](https://docs.rs/eventcast) in a Kubernetes cluster, and makes
//! Kubernetes objects usable as the objects of events.
//!
//! - [`KubernetesSink`] writes recorded events to a cluster as core/v1 Events, which `kubectl get
//!   events` and `kubectl describe` show.
//! - [`EventRef`] adds the method [`event_ref`](EventRef::event_ref) to every typed Kubernetes
//!   object, including custom resources.
//!
//! # A cluster's events in ten lines
//!
//! ```no_run
//! use eventcast::EventBroadcaster;
//! use eventcast_kube::{EventRef, KubernetesSink};
//! use k8s_openapi::api::core::v1::Pod;
//! use std::time::Duration;
//!
//! # async fn run(pod: std::sync::Arc<Pod>) -> Result<(), Box<dyn std::error::Error>> {
//! let events = EventBroadcaster::new()?;
//! events.record_to(KubernetesSink::new(kube::Config::infer().await?)?)?;
//! let recorder = events.recorder("pod-watcher");
//! recorder.normal(pod.event_ref(), "Seen", "pod seen");
//! recorder.warning(pod.event_ref(), "Restarts", format_args!("{} restarts", 3));
//! println!("{}", events.shutdown_async(Duration::from_secs(10)).await);
//! # Ok(())
//! # }
//! ```
//!
//! # Log lines of kube
//!
//! If a program has a `tracing` subscriber, kube itself logs a line at level `ERROR` for each 5xx
//! response and for each broken connection. It therefore logs a line whenever a recording's attempt
//! fails in one of these ways. The recording itself already reports outages. The following
//! `EnvFilter` directive silences kube's lines: `kube_client::client::builder=off`.
//!
//! # Versions
//!
//! This version works with kube 5 and k8s-openapi 0.29, whose types appear in its signatures. It
//! requires Rust 1.89, because kube requires that version. The program selects kube's TLS
//! implementation and k8s-openapi's Kubernetes version in its own manifest:
//!
//! ```toml
//! [dependencies]
//! eventcast = "0.1"
//! eventcast-kube = "0.1"
//! kube = "5"
//! # The oldest Kubernetes that the program is to work with. Only one crate of a program may choose,
//! # so libraries do not.
//! k8s-openapi = { version = "0.29", features = ["v1_33"] }
//! ```
//!
//! `docs/kubernetes.md`, which is also included in the `eventcast` package, contains the manifest
//! with the required permissions, and describes everything else about running in a cluster. For a
//! complete operator, see this crate's `examples/operator`.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(clippy::dbg_macro, clippy::print_stderr, clippy::print_stdout, clippy::todo, clippy::unwrap_used)]

mod answer;
mod api;
mod error;
mod reference;
mod request;
mod runtime;
mod sink;
mod verb;

pub use crate::api::EventsApi;
pub use crate::error::BuildError;
pub use crate::reference::{EventRef, event_ref_from};
pub use crate::sink::KubernetesSink;

/// Compiles the examples in the documents so that they stay correct.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/kubernetes.md")]
    mod kubernetes {}
}
