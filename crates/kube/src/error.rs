//! The error returned if a sink cannot be created.

use std::error::Error;
use std::fmt;
use std::io;

use eventcast::escape::escape;

use crate::answer::chain;
use crate::runtime::THREAD;

/// The error returned by [`KubernetesSink::new`](crate::KubernetesSink::new). The error's text
/// names the cause, with control characters escaped.
///
/// # Examples
///
/// ```
/// use eventcast_kube::{BuildError, KubernetesSink};
/// use std::error::Error;
///
/// let mut config = kube::Config::new("http://127.0.0.1:8001".parse()?);
/// config.proxy_url = Some("gopher://127.0.0.1".parse()?);
/// let error = KubernetesSink::new(config).unwrap_err();
/// assert!(matches!(error, BuildError::Client { .. }));
/// assert!(error.to_string().starts_with("cannot create a client for http://127.0.0.1:8001/: "));
/// assert!(error.source().is_some());
/// # Ok::<(), Box<dyn Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// No client can be created from the configuration.
    #[non_exhaustive]
    Client {
        /// The address of the cluster, from the configuration.
        url: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The system cannot start the thread that runs the requests.
    #[non_exhaustive]
    Thread {
        /// The cause.
        source: io::Error,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client { url, source } => {
                write!(f, "cannot create a client for {}: {}", escape(url), escape(&chain(source)))
            }
            Self::Thread { source } => write!(f, "cannot start the thread `{THREAD}`: {source}"),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Client { source, .. } => Some(source),
            Self::Thread { source } => Some(source),
        }
    }
}
