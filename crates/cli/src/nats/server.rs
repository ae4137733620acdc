//! The server of both commands, and the lines about it on stderr.

use std::error::Error;

use eventcast_nats::RemoteStatus;
use eventcast_nats::{Auth, BuildError, ConnectionOptions};

use super::args::ServerArgs;
use crate::support::bad_usage::BadUsage;
use crate::support::output::complain;
use crate::support::text::plain;

/// Returns the options for a server, and prints the server to which the command connects.
pub(super) fn connection(args: &ServerArgs) -> Result<ConnectionOptions, Box<dyn Error>> {
    let mut options = ConnectionOptions::new(&args.nats.0);
    options.tls.ca.clone_from(&args.ca);
    options.tls.client = args.cert.clone().zip(args.key.clone());
    options.auth = args.creds.clone().map(Auth::CredentialsFile).or(args.nkey.clone().map(Auth::NkeyFile));
    options.check().map_err(refusal)?;
    // Without the password that the URL may contain.
    complain(&format!("eventcast: connecting to {}", plain(&options.to_string())));
    Ok(options)
}

/// Prints the status of the server.
pub(super) fn show(status: &RemoteStatus) {
    complain(&format!("eventcast: {}", plain(&status.to_string())));
}

/// Classifies an error from creating the bridge as bad usage or as a failure.
pub(super) fn refusal(error: BuildError) -> Box<dyn Error> {
    match error {
        BuildError::Invalid { .. } => BadUsage(error.to_string()).into(),
        error => error.into(),
    }
}
