//! Publishes the lines of stdin as events.

use std::error::Error;
use std::io;
use std::time::{Duration, Instant};

use eventcast::stats::RemoteState;
use eventcast::{Broadcaster, BusOptions, OverflowPolicy};
use eventcast_nats::{NatsPublisher, NatsPublisherBuilder, PublisherOptions, StreamOptions, Subject};
use serde::de::IgnoredAny;

use super::args::PublishArgs;
use super::lines::Raw;
use super::server::{connection, refusal, show};
use crate::support::bad_input::BadInput;
use crate::support::bad_usage::BadUsage;
use crate::support::duration;
use crate::support::lines::Lines;
use crate::support::output::complain;
use crate::support::text::plain;

/// Publishes the lines of stdin. Returns whether the server has acknowledged all of them.
pub(crate) fn publish(args: &PublishArgs) -> Result<bool, Box<dyn Error>> {
    let subject = Subject::new(&args.subject);
    if subject.as_str() != args.subject {
        return Err(
            BadUsage(format!("--subject must be tokens separated by dots, got {}", args.subject)).into()
        );
    }
    let mut options = PublisherOptions::default();
    options.connection = connection(&args.server)?;
    args.stream.clone_into(&mut options.stream);
    args.subject.split('.').next().unwrap_or_default().clone_into(&mut options.prefix);
    let mut stream = StreamOptions::default();
    stream.max_bytes = args.max_bytes;
    options.ensure_stream = Some(stream);
    options.overflow = OverflowPolicy::Wait;
    let bus = Broadcaster::with_options(BusOptions::default().overflow(OverflowPolicy::Wait))?;
    let builder = NatsPublisherBuilder::with_codec(options, Raw).subject(move |_| subject.clone());
    let out = builder.on_status(show).attach(&bus).map_err(refusal)?;
    let is_read = send_lines(&bus, &out, args.timeout)?;
    // If publishing failed, waiting for queue space may have used up the timeout, so the command
    // does not wait any longer.
    let deadline = Instant::now() + if is_read { args.timeout } else { Duration::ZERO };
    let left = || deadline.saturating_duration_since(Instant::now());
    let is_offered = bus.flush(left()).is_ok();
    let report = out.shutdown_timeout(left());
    complain(&format!("eventcast: {}", plain(&report.to_string())));
    Ok(is_read && is_offered && report.complete && report.stats.lost() == 0)
}

/// Publishes the lines of stdin on the bus. If the queue does not have space for a line in time, or
/// if the bridge has ended, the function reports which lines were not published and returns false.
fn send_lines(
    bus: &Broadcaster<String>,
    out: &NatsPublisher,
    timeout: Duration,
) -> Result<bool, Box<dyn Error>> {
    let publisher = bus.publisher();
    let mut lines = Lines::new(io::stdin().lock());
    while let Some((number, line)) = lines.next()? {
        let line = line.map_err(|bad| BadInput(format!("line {number}: {bad}")))?;
        if line.trim().is_empty() {
            continue;
        }
        if out.status().state == RemoteState::Ended {
            complain(&format!("eventcast: line {number} and all later lines were not published"));
            return Ok(false);
        }
        match publisher.publish_timeout(as_json(line)?, timeout) {
            Err(error) if error.is_full() => {
                let text =
                    format!("line {number} and all later lines were not published: the queue was full");
                complain(&format!("eventcast: {text} for {}", duration::show(timeout)));
                return Ok(false);
            }
            published => published?,
        }
    }
    Ok(true)
}

/// Returns a line unchanged if it is valid JSON, and as a JSON string otherwise.
fn as_json(line: String) -> Result<String, serde_json::Error> {
    let is_json = serde_json::from_str::<IgnoredAny>(&line).is_ok();
    if is_json { Ok(line) } else { serde_json::to_string(&line) }
}
