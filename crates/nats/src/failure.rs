//! Connection failures as they are reported to an operator, with the observed fault and advice on
//! fixing it.

use async_nats::Server;
use async_nats::jetstream::{self, ErrorCode};

/// A failure to connect, or the loss of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) text: String,
    /// Whether a server responded and refused this client.
    pub(crate) is_refusal: bool,
}

impl Failure {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), is_refusal: false }
    }
}

const NO_ISSUER: &str =
    "the server's certificate was issued by an unknown authority: set the certificate of its CA";
const NO_CLIENT: &str =
    "the server requires a client certificate from an authority that it trusts: set one, and its key";
const NOT_NATS: &str = "the response is not from a NATS server";

/// Each row holds a part of the client's error message, the text for the operator, and whether the
/// error is a refusal. If a text includes a hint, the hint is at the end of the text. The first
/// matching row is used, so the order of the rows matters.
const KNOWN: &[(&str, &str, bool)] = &[
    ("authorization violation", "authorization violation: check the user, password, token or key", true),
    ("failed signing nonce", "authentication with the nkey or the credentials failed: check the file", true),
    ("onnection refused", "connection refused: is a server running there?", false),
    ("timed out", "no response in time: is it a NATS server?", false),
    ("'HTTP/", "an HTTP server responded, not a NATS server", false),
    // These errors contain a line sent by the server, which may repeat the credentials. The text of
    // these errors is therefore not shown.
    ("invalid server operation", NOT_NATS, false),
    ("expected INFO", NOT_NATS, false),
    ("unable to parse", NOT_NATS, false),
    ("UnknownIssuer", NO_ISSUER, false),
    // The client reports this error if another authority has the same name as the issuer.
    ("BadSignature", NO_ISSUER, false),
    ("CertificateRequired", NO_CLIENT, true),
    // Servers also respond with this error if the client presents no certificate.
    ("BadCertificate", NO_CLIENT, true),
    ("UnknownCA", NO_CLIENT, true),
    // The client reports this error because of `NO_PROVIDER`.
    (
        "NUL byte",
        "the server requires TLS, and this program is built without the feature `tls-ring` of eventcast-nats",
        false,
    ),
];

/// The name of a certificate file that cannot exist. Without a TLS provider, the client would
/// panic. The client reads the certificate files first, so this name makes the connection fail with
/// an error instead.
pub(crate) const NO_PROVIDER: &str = "\0";

/// The failure that is reported if a connected server does not acknowledge a message. If a server
/// cannot write to its disk, it does not respond.
pub(crate) const NO_ACK: &str =
    "no acknowledgement in time: the server may be overloaded or its disk may be full";

/// The failure that is reported if no JetStream server responds to a request.
pub(crate) const NO_JETSTREAM: &str = "no JetStream: enable it on the server (`nats-server -js`)";

/// Returns the text that describes a JetStream error to an operator.
pub(crate) fn of_jetstream(error: &jetstream::Error) -> String {
    match error.error_code() {
        ErrorCode::JETSTREAM_NOT_ENABLED => NO_JETSTREAM.to_owned(),
        ErrorCode::STORAGE_RESOURCES_EXCEEDED
        | ErrorCode::MEMORY_RESOURCES_EXCEEDED
        | ErrorCode::INSUFFICIENT_RESOURCES
        | ErrorCode::ACCOUNT_RESOURCES_EXCEEDED => {
            format!("{error}: give the server more storage, or the stream a smaller `max_bytes`")
        }
        _ => error.to_string(),
    }
}

/// Converts the text of a client error to the failure to report.
fn explain(error: &str) -> Failure {
    if let Some((_, text, is_refusal)) = KNOWN.iter().find(|(part, ..)| error.contains(part)) {
        return Failure { text: (*text).to_owned(), is_refusal: *is_refusal };
    }
    Failure::new(error.trim_start_matches("IO error: "))
}

/// Returns the failure of the last attempts to connect to these servers, or `None` if there was no
/// failure.
pub(crate) async fn of_attempts(servers: &[Server]) -> Option<Failure> {
    let (mut texts, mut is_refusal) = (Vec::new(), false);
    for server in servers {
        let (host, port) = (server.addr.host(), server.addr.port());
        let place = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        // The client does not record that a host name cannot be resolved, so this function checks
        // whether the name can be resolved.
        let unresolved = match server.addr.socket_addrs().await {
            Ok(mut found) => found.next().is_none().then(|| "it has no address".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = unresolved {
            texts.push(format!("{place}: cannot resolve the host name: {error}"));
        } else if let Some(error) = &server.last_error {
            let failure = explain(error);
            is_refusal |= failure.is_refusal;
            texts.push(format!("{place}: {}", failure.text));
        }
    }
    (!texts.is_empty()).then(|| Failure { text: texts.join("; "), is_refusal })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_server_is_not_repeated() {
        let error = r#"IO error: invalid server operation: 'CONNECT {"pass":"s3cret"}'"#;
        assert_eq!(explain(error), Failure::new(NOT_NATS));
        let error = r#"IO error: expected INFO, got Error(Other("s3cret"))"#;
        assert!(!explain(error).text.contains("s3cret"));
        assert_eq!(explain("IO error: broken pipe").text, "broken pipe");
    }
}
