//! A web service that sends everything that anybody publishes to all clients, as server-sent
//! events.
//!
//! ```sh
//! cargo run --release --example sse
//! curl -N localhost:8080/events                              # in a second terminal
//! curl -d 'it works' 'localhost:8080/publish?topic=news'     # in a third
//! curl localhost:8080/stats
//! ```
//!
//! Each client is a watcher with its own queue. The task that writes to the client's connection
//! reads this queue, so a client needs no thread and no copy of the texts. A client that reads too
//! slowly loses events and delays nobody. The client learns how many are missing at the place where
//! they are missing. A new client first gets the newest text of each topic. Routes and answers are
//! in `service.rs`. At Ctrl-C the service accepts nothing more, sends what it has accepted, and
//! prints what became of every event.

mod limit;
mod service;
#[path = "../support/mod.rs"]
mod support;

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use lexopt::prelude::{Long, Short};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::timeout;

use service::Service;
use support::flags::{self, Parser};
use support::interrupt::Interrupt;
use support::output::{complain, say};

const HELP: &str = "\
A web service that takes texts from clients and passes them on to all clients, as
server-sent events.

Usage: sse [OPTIONS]

    GET  /events                 Server-sent events: `data` is JSON with topic and text;
                                 an event `gap` says how many are missing
    POST /publish?topic=NAME     Publishes the body
    GET  /stats                  What became of the events until now, as JSON

Options:
      --port N             The port on this machine; 0 takes a free one [default: 8080]
      --queue N            How many events a client may be behind [default: 64]
      --grace DURATION     At the end, how long clients may read what is queued for them
                           [default: 5s]
  -h, --help               Print this

A DURATION is numbers with units: 500ms, 5s, 1m30s, 1h. The program prints its address
on stderr. Ctrl-C ends it; a second one does not wait for the clients.

Exit status: 0 when everything adds up, 1 when not, 2 for bad usage.
";

struct Settings {
    port: u16,
    queue: usize,
    grace: Duration,
}

fn main() -> ExitCode {
    flags::main("sse", HELP, read, run)
}

fn read(mut parser: Parser) -> Result<Option<Settings>, String> {
    let mut settings = Settings { port: 8080, queue: 64, grace: Duration::from_secs(5) };
    while let Some(argument) = flags::next(&mut parser)? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("port") => settings.port = flags::number(&mut parser, "--port", 0..=65535)? as u16,
            Long("queue") => settings.queue = flags::number(&mut parser, "--queue", 1..=1 << 24)? as usize,
            Long("grace") => settings.grace = flags::duration(&mut parser, "--grace")?,
            _ => return Err(flags::unknown(argument)),
        }
    }
    Ok(Some(settings))
}

/// Runs the service until it is interrupted. Returns whether everything adds up.
fn run(settings: &Settings) -> Result<bool, Box<dyn Error>> {
    let files = limit::raise();
    let service = Arc::new(Service::new(settings.queue)?);
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(settings, &service, files))?;
    // Clients that still have not read to the end are cut off here: the runtime drops their tasks,
    // and with them the connections and the watchers.
    let left = service.bus.stats().watchers.len();
    runtime.shutdown_timeout(Duration::from_secs(1));
    let (account, right) = service.account();
    say(&format!(
        "{account}\n{left} clients were cut off\n{}\n",
        if right { "everything adds up" } else { "this does not add up" },
    ))?;
    Ok(right)
}

/// Serves until the program is interrupted, and then until the clients have read what was accepted
/// before, or have had their time for it.
async fn serve(
    settings: &Settings,
    service: &Arc<Service>,
    files: Option<u64>,
) -> Result<(), Box<dyn Error>> {
    let mut interrupt = Interrupt::new()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, settings.port));
    let listener =
        TcpListener::bind(address).await.map_err(|error| format!("cannot listen on {address}: {error}"))?;
    complain(&format!("listening on http://{}", listener.local_addr()?));
    if let Some(files) = files {
        complain(&format!("the system allows {files} open files, and each client takes one"));
    }
    let (stop, stopped) = oneshot::channel::<()>();
    let app = service.routes().into_make_service_with_connect_info::<SocketAddr>();
    let server = axum::serve(listener, app).with_graceful_shutdown(async move { drop(stopped.await) });
    let mut server = tokio::spawn(server.into_future());
    tokio::select! {
        done = &mut server => return Ok(done??),
        () = interrupt.wait() => {}
    }
    complain("stopping");
    // The server takes no new connections. Publishers get the answer that it is too late. Watchers
    // end when they have been sent what they were offered.
    drop(stop);
    service.bus.shutdown_async(settings.grace).await;
    tokio::select! {
        // The time has run out: `run` cuts off the clients that are left.
        done = timeout(settings.grace, server) => done.unwrap_or(Ok(Ok(())))??,
        () = interrupt.wait() => {}
    }
    Ok(())
}
