//! A custom sink whose client is asynchronous. Shows what becomes of events if the store is busy,
//! hangs up, forgets, refuses or fails.
//!
//! ```sh
//! cargo run --release --example custom_sink
//! cargo run --release --example custom_sink -- --current-thread
//! ```
//!
//! A recording has its own thread, which may wait as long as it takes. The bridge to an
//! asynchronous client is therefore one line in this file, with `Blocking` and `Handle::block_on`.
//! `sink.rs` says what the client's answers mean. `client.rs` and `http.rs` are the client.
//! `store.rs` is the store, which runs in this process so that there is nothing to install. At the
//! end the program compares what the recording counted with what the store counted.
#![cfg_attr(test, allow(dead_code, reason = "the tests include this program and do not call its main"))]

mod client;
mod http;
mod sink;
mod store;
#[path = "../support/mod.rs"]
mod support;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use eventcast::EventType::{Normal, Warning};
use eventcast::escape::escape_message;
use eventcast::sink::Blocking;
use eventcast::{Event, EventBroadcaster, EventType, ObjectReference, Recorder, RetryPolicy};
use lexopt::prelude::{Long, Short};
use tokio::runtime::{Builder, Handle};

use client::Client;
use sink::StoreSink;
use store::{Mood, Store};
use support::flags::{self, Parser};
use support::output::{complain, say};
use support::table;
use support::text::plain;

const HELP: &str = "\
A sink that you write yourself, over an asynchronous client.

Usage: custom_sink [OPTIONS]

Options:
      --current-thread   Use a runtime of one thread
  -h, --help             Print this

The stored events go to stdout. The lost events, with the reason, go to stderr.

Exit status: 0 when everything adds up, 1 when not, 2 for bad usage.
";

/// The time that the last events have to reach the store.
const DRAIN: Duration = Duration::from_secs(30);

struct Settings {
    current_thread: bool,
}

fn main() -> ExitCode {
    flags::main("custom_sink", HELP, read, |settings| {
        let mut runtime =
            if settings.current_thread { Builder::new_current_thread() } else { Builder::new_multi_thread() };
        // The runtime outlives all that uses it.
        runtime.enable_all().build()?.block_on(run())
    })
}

fn read(mut parser: Parser) -> Result<Option<Settings>, String> {
    let mut settings = Settings { current_thread: false };
    while let Some(argument) = flags::next(&mut parser)? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("current-thread") => settings.current_thread = true,
            _ => return Err(flags::unknown(argument)),
        }
    }
    Ok(Some(settings))
}

/// Runs the program. Returns whether everything adds up.
async fn run() -> Result<bool, Box<dyn Error>> {
    // The moods are numbered by request, and a retry is one more request. The order of the events
    // below makes the numbers fit.
    let store = Store::new([(2, Mood::Busy), (5, Mood::HangUp), (8, Mood::Forget)]);
    let client = Client::new(store.serve().await?);

    let events = EventBroadcaster::builder()
        .retry(RetryPolicy::default().attempts(3).delay(Duration::from_millis(10)))
        .on_loss(|loss| complain(&format!("lost: {loss}")))
        .build()?;
    // The recording's thread waits for each answer, while the runtime runs. With one thread, the
    // runtime runs only while this task awaits, so the program never blocks in `flush` or
    // `shutdown`.
    let handle = Handle::current();
    let sink = Blocking::new(StoreSink::new(client), move |future| handle.block_on(future));
    let recording = events.recording().name("store").start(sink)?;

    let recorder = events.new_recorder("custom_sink");
    for happening in happenings() {
        // A recorder never waits, so it may be used anywhere in a task.
        let recorder = recorder.clone();
        tokio::spawn(async move { happening(&recorder) }).await?;
        // Flushed only here, so that the store meets each event in the mood that is meant for it.
        // Otherwise a recording goes on with other events while one waits to be tried again.
        events.flush_async(DRAIN).await?;
    }
    let report = events.shutdown_async(DRAIN).await;

    let stats = recording.stats();
    let (requests, created, replaced) = store.counts();
    let right = report.complete
        && stats.created == created
        && stats.updated == replaced
        && stats.handled() == report.bus.accepted;
    let mut rows = vec![["COUNT", "TYPE", "REASON", "OBJECT", "MESSAGE"].map(str::to_owned).to_vec()];
    rows.extend(store.events().iter().map(row));
    say(&format!(
        "{}\n{requests} requests, {created} created, {replaced} replaced\n{stats}\n{}\n",
        table::render(&rows),
        if right { "everything adds up" } else { "this does not add up" },
    ))?;
    Ok(right)
}

/// Returns what happens to a disk and to a tape.
fn happenings() -> Vec<fn(&Recorder)> {
    fn disk(recorder: &Recorder, type_: EventType, reason: &'static str, message: String) {
        recorder.event(ObjectReference::new("Disk", "sda"), type_, reason, message);
    }
    fn almost_full(recorder: &Recorder) {
        disk(recorder, Warning, "AlmostFull", "97 % are used".to_owned());
    }
    vec![
        |recorder| disk(recorder, Normal, "Mounted", "mounted on /".to_owned()),
        // The store is busy and says when to come back.
        almost_full,
        // The same event again: the recording counts it on the stored event.
        almost_full,
        // The store hangs up, and the client makes a new connection.
        almost_full,
        // The store never takes this one.
        |recorder| disk(recorder, Warning, "Smart", "0".repeat(2000)),
        // The store has forgotten the event: the recording creates it anew, with the whole count.
        almost_full,
        // The store always fails here, so in the end the recording gives up.
        |recorder| {
            recorder.event(ObjectReference::new("Tape", "st0"), Warning, "Torn", "cannot be read");
        },
    ]
}

fn row(event: &Event) -> Vec<String> {
    let object = event.involved_object.to_string();
    let message = escape_message(&event.message).to_string();
    [event.count.to_string(), plain(&event.type_), plain(&event.reason), object, message].to_vec()
}
