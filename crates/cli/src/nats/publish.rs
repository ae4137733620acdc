//! Lines of stdin as events.

use std::error::Error;
use std::io;

use eventcast::{Broadcaster, BusOptions, OverflowPolicy};
use eventcast_nats::{BuildError, NatsPublisherBuilder, PublisherOptions, StreamOptions, Subject};
use serde::de::IgnoredAny;

use super::args::PublishArgs;
use super::lines::Raw;
use crate::support::bad_input::BadInput;
use crate::support::bad_usage::BadUsage;
use crate::support::lines::Lines;
use crate::support::output::complain;
use crate::support::text::plain;

/// Publishes the lines. Returns whether the server has acknowledged them all.
pub(crate) fn publish(args: &PublishArgs) -> Result<bool, Box<dyn Error>> {
    let subject = Subject::new(&args.subject);
    if subject.as_str() != args.subject {
        return Err(
            BadUsage(format!("--subject must be tokens with dots between, got {}", args.subject)).into()
        );
    }
    let mut options = PublisherOptions::default();
    options.connection.servers = vec![args.nats.clone()];
    // Without the password that the URL may contain.
    let connection = options.connection.to_string();
    args.stream.clone_into(&mut options.stream);
    args.subject.split('.').next().unwrap_or_default().clone_into(&mut options.prefix);
    options.ensure_stream = Some(StreamOptions::default());
    options.overflow = OverflowPolicy::Wait;
    let bus = Broadcaster::with_options(BusOptions::default().overflow(OverflowPolicy::Wait))?;
    let builder = NatsPublisherBuilder::with_codec(options, Raw).subject(move |_| subject.clone());
    complain(&format!("eventcast: connecting to {}", plain(&connection)));
    let told = builder.on_state(|state| complain(&format!("eventcast: {}", plain(&state.to_string()))));
    let out = told.attach(&bus).map_err(refusal)?;
    let publisher = bus.publisher();
    let mut lines = Lines::new(io::stdin().lock());
    while let Some((number, line)) = lines.next()? {
        let line = line.map_err(|bad| BadInput(format!("line {number}: {bad}")))?;
        if !line.trim().is_empty() {
            publisher.publish(as_json(line)?)?;
        }
    }
    bus.flush(args.timeout)?;
    let report = out.shutdown_timeout(args.timeout);
    complain(&format!("eventcast: {}", plain(&report.to_string())));
    Ok(report.complete && report.stats.lost() == 0)
}

/// Returns a line as JSON: as it is if it is JSON, and otherwise as a string.
fn as_json(line: String) -> Result<String, serde_json::Error> {
    let is_json = serde_json::from_str::<IgnoredAny>(&line).is_ok();
    if is_json { Ok(line) } else { serde_json::to_string(&line) }
}

/// Returns a refusal of the bridge as what it is: bad usage, or a failure.
pub(super) fn refusal(error: BuildError) -> Box<dyn Error> {
    match error {
        BuildError::Invalid { .. } => BadUsage(error.to_string()).into(),
        error => error.into(),
    }
}
