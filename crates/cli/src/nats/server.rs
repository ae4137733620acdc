//! The connection options for both commands, and the connection's status lines on stderr.

use std::error::Error;

use eventcast_nats::RemoteStatus;
use eventcast_nats::{Auth, BuildError, ConnectionOptions};

use super::args::ServerArgs;
use crate::support::bad_usage::BadUsage;
use crate::support::output::complain;
use crate::support::text::plain;

/// Returns the connection options, and prints the server's address.
pub(super) fn connection(args: &ServerArgs) -> Result<ConnectionOptions, Box<dyn Error>> {
    let mut options = ConnectionOptions::new(&args.nats.0);
    options.tls.ca.clone_from(&args.ca);
    options.tls.client = args.cert.clone().zip(args.key.clone());
    options.auth = args.creds.clone().map(Auth::CredentialsFile).or(args.nkey.clone().map(Auth::NkeyFile));
    options.check().map_err(refusal)?;
    // The `Display` form omits the password that the URL may contain.
    complain(&format!("eventcast: connecting to {}", plain(&options.to_string())));
    Ok(options)
}

/// Prints the connection status.
pub(super) fn show(status: &RemoteStatus) {
    complain(&format!("eventcast: {}", plain(&status.to_string())));
}

/// Classifies an error that occurred while creating the bridge as bad usage or as a failure.
pub(super) fn refusal(error: BuildError) -> Box<dyn Error> {
    match error {
        BuildError::Invalid { .. } => BadUsage(error.to_string()).into(),
        error => error.into(),
    }
}
