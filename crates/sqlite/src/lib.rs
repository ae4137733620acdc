//! A store for [eventcast](https://docs.rs/eventcast)'s recorded events in a SQLite file.
//!
//! [`SqliteSink`] behaves like a Kubernetes API server, following the same rules as eventcast's
//! `MemorySink`, and retains every acknowledged write even if the process is killed. Several
//! processes can write to the same file, and a process can follow the file while another process is
//! writing to it.
//!
//! ```
//! # let folder = std::env::temp_dir().join(format!("eventcast-sqlite-lib-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let path = folder.join("events.db");
//! use eventcast::{EventBroadcaster, ObjectReference};
//! use eventcast_sqlite::SqliteSink;
//!
//! let events = EventBroadcaster::new()?;
//! events.record_to(SqliteSink::open(&path)?)?;
//! let web = ObjectReference::new("Pod", "web-0");
//! events.recorder("doc").normal(&web, "Started", "it runs");
//! assert!(events.shutdown().complete);
//! # drop(events);
//!
//! // The next run of the program, or another program:
//! let store = SqliteSink::open_read_only(&path)?;
//! assert_eq!(store.events()?[0].reason, "Started");
//! # drop(store);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which SQLite
//!
//! The `bundled` feature, which is enabled by default, compiles SQLite from source and needs a C
//! compiler. Without the default features, the program links to the system's SQLite:
//!
//! ```toml
//! [dependencies]
//! eventcast = "0.1"
//! eventcast-sqlite = { version = "0.1", default-features = false }
//! ```
//!
//! A link error about `sqlite3_set_clientdata` means that the system's SQLite is older than
//! rusqlite 0.41 supports (3.45.3). If you see this error, either use rusqlite 0.40 (`cargo update
//! -p rusqlite --precise 0.40.2`) or enable the `bundled` feature.
//!
//! Only one crate in a program can link to SQLite (`links = "sqlite3"`). This crate therefore
//! accepts versions 0.34 to 0.41 of rusqlite, and cargo chooses a version that is compatible with
//! the program's other crates. No rusqlite type appears in this crate's public API.
//!
//! The crate requires Rust 1.89, because rusqlite 0.41 requires it.
//!
//! <details>
//! <summary>Locks and atomics, for those who change the crate</summary>
//!
//! The `SqliteStore::writer` lock is held during a transaction. The `SqliteStore::reader` lock is
//! held during a query. Both locks are held while a write reopens the files. A thread never takes
//! the writer's lock while it holds the reader's lock. A write reads the clock while it holds the
//! writer's lock or both locks. No user code runs while either lock is held.
//!
//! `SqliteStore::unreadable` is a relaxed counter. Reads increment the counter for each unreadable
//! row, and `stats` loads the counter.
//!
//! </details>

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(clippy::dbg_macro, clippy::print_stderr, clippy::print_stdout, clippy::todo, clippy::unwrap_used)]

mod error;
mod files;
mod open;
mod options;
mod read;
mod row;
mod schema;
mod select;
mod sink;
mod stats;
mod store;
mod write;

pub use crate::error::{SqliteError, SqliteErrorKind};
pub use crate::options::{SqliteSinkOptions, SqliteSynchronous};
pub use crate::read::SqliteEvents;
pub use crate::stats::{SqliteChanges, SqliteSinkStats};
pub use crate::store::SqliteSink;

/// The README, included here so that its examples are compiled as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
