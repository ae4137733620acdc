//! A [`tracing`] layer that records log events through [eventcast](https://docs.rs/eventcast)'s
//! recorder.
//!
//! The layer records each log event that has the field `reason`. A recording then treats the event
//! like any other: it aggregates similar events, counts repeats and limits floods. The layer
//! ignores log events without a `reason`, and other layers still receive all log events.
//!
//! | part of the recorded event | source |
//! |---|---|
//! | object | the fields `object.kind`, `object.name` and `object.namespace` |
//! | type | `Warning` for the levels `WARN` and `ERROR`, otherwise `Normal` |
//! | reason | the field `reason` |
//! | message | the log event's message |
//! | action | the field `action` |
//! | source, time, name | set by the recorder |
//!
//! - All other fields are ignored.
//! - The object is the first that has a non-empty kind and name: the log event's own fields, the
//!   fields of the nearest span, then of the spans around it, or the layer's
//!   [default object](RecorderLayer::default_object). An object is never assembled from several of
//!   these. Its namespace is optional.
//! - A span's fields may also be recorded later, with [`Span::record`](tracing::Span::record).
//! - A value that is not a string is formatted with `Debug`, or with `Display` if it is an error or
//!   is passed with `%`. The reason `?State::Full` therefore becomes `Full`, but the reason
//!   `?"Full"` contains quotation marks.
//! - A field without a value, such as `None`, counts as missing.
//! - The recorder refuses an empty reason, and truncates a long message. [`Recorder::stats`] counts
//!   both.
//! - Records of the `log` crate that arrive through `tracing-log` have no field `reason`, so the
//!   layer does not record them.
//!
//! # Examples
//!
//! ```
//! use eventcast::EventBroadcaster;
//! use eventcast::sink::MemorySink;
//! use eventcast_tracing::RecorderLayer;
//! use tracing::level_filters::LevelFilter;
//! use tracing_subscriber::prelude::*;
//!
//! let (events, store) = (EventBroadcaster::new()?, MemorySink::new());
//! events.record_to(store.clone())?;
//! let layer = RecorderLayer::new(events.recorder("shop")).with_filter(LevelFilter::INFO);
//! let log = tracing_subscriber::registry().with(layer);
//! tracing::subscriber::with_default(log, || {
//!     let order = tracing::info_span!("order", object.kind = "Order", object.name = "o-17");
//!     for _ in 0..3 {
//!         order.in_scope(|| tracing::warn!(reason = "PaymentRefused", "the card has expired"));
//!     }
//! });
//! events.shutdown();
//! let event = &store.events()[0];
//! assert_eq!((event.reason.as_str(), event.count), ("PaymentRefused", 3));
//! assert_eq!(event.involved_object.name, "o-17");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Recorder::stats`]: eventcast::Recorder::stats

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(clippy::dbg_macro, clippy::print_stderr, clippy::print_stdout, clippy::todo, clippy::unwrap_used)]

mod fields;
mod layer;

pub use crate::layer::RecorderLayer;

/// The README, included here so that its examples are compiled as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
