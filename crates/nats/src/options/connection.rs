//! Options for the servers' addresses and for authentication.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::address;
use crate::error::BuildError;
use crate::tls;

/// The servers to connect to, and the options for connecting to these servers.
///
/// # Examples
///
/// ```
/// use eventcast_nats::ConnectionOptions;
///
/// let options: ConnectionOptions = serde_json::from_str(
///     r#"{"servers": ["nats://127.0.0.1:4222"], "auth": {"token": "s3cret"}}"#,
/// )?;
/// assert!(!format!("{options:?}").contains("s3cret"));
/// assert!(serde_json::from_str::<ConnectionOptions>(r#"{"server": []}"#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ConnectionOptions {
    /// The addresses of the servers. Defaults to `nats://127.0.0.1:4222`. An address may contain a
    /// user and a password, as in `nats://user:password@host`, or a token. These credentials are
    /// used if `auth` is not set. Characters that are not allowed in an address must be written as
    /// `%XX`, for example `%40` for `@`.
    pub servers: Vec<String>,
    /// The name that the server shows for the connection. Defaults to `eventcast`.
    pub name: String,
    /// How to authenticate. If `auth` is not set, the client uses the credentials in an address, if
    /// there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// TLS settings.
    pub tls: TlsOptions,
}

/// The credentials with which a client authenticates. The `Debug` output contains no secrets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Auth {
    /// A token.
    Token(String),
    /// A user with a password.
    Password {
        /// The name of the user.
        user: String,
        /// The password.
        password: String,
    },
    /// The path of a file that contains the seed of an nkey. This variant requires the `nkeys`
    /// feature.
    NkeyFile(PathBuf),
    /// The path of a credentials file, as written by `nsc`. This variant requires the `nkeys`
    /// feature.
    CredentialsFile(PathBuf),
}

/// TLS settings, which require the `tls-ring` feature or a provider that the program has installed
/// with rustls' `CryptoProvider::install_default`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TlsOptions {
    /// Whether connections without TLS are refused. A URL that begins with `tls://` has the same
    /// effect as setting this option.
    pub required: bool,
    /// The path of a file with CA certificates in PEM format, which replace the system's
    /// certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// The paths of two files in PEM format, which contain the client's certificate and the
    /// client's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<(PathBuf, PathBuf)>,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            servers: vec!["nats://127.0.0.1:4222".to_owned()],
            name: "eventcast".to_owned(),
            auth: None,
            tls: TlsOptions::default(),
        }
    }
}

impl ConnectionOptions {
    /// Returns the options for one server.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast_nats::ConnectionOptions;
    ///
    /// assert_eq!(ConnectionOptions::new("nats://h").servers, ["nats://h"]);
    /// ```
    pub fn new(server: &str) -> Self {
        Self { servers: vec![server.to_owned()], ..Self::default() }
    }

    /// Checks that the addresses are valid, and that this build supports the options. This method
    /// does not read files or connect to a server. All code that connects to a server calls this
    /// method first.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError::Invalid`] if an option is invalid or not supported. The error
    /// describes what is wrong with the option.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast_nats::ConnectionOptions;
    ///
    /// assert!(ConnectionOptions::new("nats://127.0.0.1:4222").check().is_ok());
    /// let error = ConnectionOptions::new("nats://").check().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "servers must be addresses such as nats://host:4222, got nats://: it has no host"
    /// );
    /// ```
    pub fn check(&self) -> Result<(), BuildError> {
        if self.servers.is_empty() {
            return Err(BuildError::invalid("servers", "1 or more addresses", "none"));
        }
        for url in &self.servers {
            if let Err(reason) = address::parse(url) {
                let got = if url.is_empty() { "\"\"".to_owned() } else { without_secret(url) };
                let allowed = "addresses such as nats://host:4222";
                return Err(BuildError::invalid("servers", allowed, format!("{got}: {reason}")));
            }
        }
        let wants_tls =
            self.tls != TlsOptions::default() || self.servers.iter().any(|url| url.starts_with("tls://"));
        if wants_tls && tls::provider().is_none() {
            let allowed = "without TLS, because this build does not have the feature `tls-ring`";
            return Err(BuildError::invalid("servers", allowed, self.to_string()));
        }
        let wants_keys = matches!(self.auth, Some(Auth::NkeyFile(_) | Auth::CredentialsFile(_)));
        if wants_keys && !cfg!(feature = "nkeys") {
            let allowed = "a token or a password, because this build lacks the feature `nkeys`";
            return Err(BuildError::invalid("auth", allowed, "a file"));
        }
        Ok(())
    }
}

/// Shows the addresses of the servers, without the credentials in them.
///
/// ```
/// use eventcast_nats::ConnectionOptions;
///
/// let options = ConnectionOptions::new("nats://me:secret@example.com:4222");
/// assert_eq!(options.to_string(), "nats://example.com:4222");
/// ```
impl fmt::Display for ConnectionOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self.servers.iter().map(|url| without_secret(url)).collect();
        f.write_str(&shown.join(", "))
    }
}

impl fmt::Debug for ConnectionOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionOptions")
            .field("servers", &self.to_string())
            .field("name", &self.name)
            .field("auth", &self.auth)
            .field("tls", &self.tls)
            .finish()
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(_) => f.write_str("Token(..)"),
            Self::Password { user, .. } => write!(f, "Password {{ user: {user:?}, .. }}"),
            Self::NkeyFile(path) => f.debug_tuple("NkeyFile").field(path).finish(),
            Self::CredentialsFile(path) => f.debug_tuple("CredentialsFile").field(path).finish(),
        }
    }
}

/// Returns an address without the credentials in it. Removes everything between the scheme and the
/// last `@`, because a password can contain slashes and colons.
fn without_secret(url: &str) -> String {
    let scheme = ["tls", "ws", "wss"]
        .into_iter()
        .find(|scheme| url.strip_prefix(scheme).is_some_and(|rest| rest.starts_with("://")));
    let address = match url.rsplit_once('@') {
        Some((_, address)) => address,
        None => url.split_once("://").map_or(url, |(_, address)| address),
    };
    let host = address.split('/').next().unwrap_or_default();
    format!("{}://{host}", scheme.unwrap_or("nats"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_shows_a_secret() {
        let mut options = ConnectionOptions::new("nats://me:pa@ss@h:1/x");
        options.servers.push("tok3n@h:2".to_owned());
        options.servers.push("tls://me:w/o:r@d@h:3/x".to_owned());
        options.servers.push("me:p://q@h:4".to_owned());
        for auth in [
            Auth::Token("s3cret".to_owned()),
            Auth::Password { user: "me".to_owned(), password: "s3cret".to_owned() },
        ] {
            options.auth = Some(auth);
            let shown = format!("{options:?} {options}");
            for secret in ["s3cret", "pa@ss", "tok3n", "w/o", "r@d", "p:", "q@"] {
                assert!(!shown.contains(secret), "{shown}");
            }
            assert!(shown.contains("nats://h:1, nats://h:2, tls://h:3, nats://h:4"), "{shown}");
        }
    }

    #[test]
    #[cfg(not(feature = "tls-ring"))]
    fn tls_without_a_provider_is_an_error() {
        let error = ConnectionOptions::new("tls://user:pw@h").check().unwrap_err().to_string();
        assert!(error.contains("tls-ring") && error.ends_with("got tls://h"), "{error}");
    }

    #[test]
    #[cfg(not(feature = "nkeys"))]
    fn files_to_sign_in_need_their_feature() {
        let auth = Some(Auth::NkeyFile("seed".into()));
        let options = ConnectionOptions { auth, ..ConnectionOptions::default() };
        assert!(options.check().unwrap_err().to_string().contains("`nkeys`"));
    }
}
