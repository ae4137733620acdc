//! The connection: a client of NATS, and the state of its link as a value that tasks wait on.

use std::time::Duration;

use async_nats::{Client, ClientError, ConnectOptions, Event, ServerAddr, ServerError};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::error::BuildError;
use crate::options::{Auth, ConnectionOptions};

/// The longest pause between two attempts to connect.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// The link to the servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) is_connected: bool,
    /// The number of connections so far, which tells two connections apart.
    pub(crate) epoch: u64,
    /// The number of refusals of the server so far, and the text of the last one.
    pub(crate) refusals: u64,
    pub(crate) refusal: String,
}

/// The settings of a client, with everything that had to be read.
pub(crate) struct Settings {
    client: ConnectOptions,
    servers: Vec<ServerAddr>,
    /// The addresses without what signs in.
    shown: String,
}

impl Settings {
    /// Reads the files that the options name, and the addresses.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read, or if an address is not one.
    pub(crate) fn new(options: &ConnectionOptions) -> Result<Self, BuildError> {
        let shown = options.to_string();
        let failed = |text: String| BuildError::Connect { servers: shown.clone(), text };
        let servers = options.servers.iter().map(|url| url.parse::<ServerAddr>());
        let servers = servers.collect::<Result<Vec<_>, _>>().map_err(|error| failed(error.to_string()))?;
        // The client passes over what signs in in an address.
        let auth = options.auth.clone().or_else(|| servers.iter().find_map(auth_in));
        let client = signed(ConnectOptions::new(), options, auth).map_err(&failed)?.name(&options.name);
        Ok(Self { client, servers, shown })
    }
}

/// A client and its link.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) link: watch::Receiver<Link>,
}

impl Connection {
    /// Begins to connect, and tries again for as long as it takes. With `within`, waits for the
    /// first connection.
    ///
    /// # Errors
    ///
    /// Returns an error if no connection comes within the time.
    pub(crate) async fn open(
        settings: Settings,
        capacity: usize,
        within: Option<Duration>,
    ) -> Result<Self, BuildError> {
        let Settings { client, servers, shown } = settings;
        let failed = |text: String| BuildError::Connect { servers: shown.clone(), text };
        let (sender, mut link) = watch::channel(Link::default());
        let settings = client
            .retry_on_initial_connect()
            .subscription_capacity(capacity)
            .reconnect_delay_callback(pause)
            .event_callback(move |event| {
                sender.send_if_modified(|link| link.note(&event));
                std::future::ready(())
            });
        let client = settings.connect(servers).await.map_err(|error| failed(chain(&error)))?;
        if let Some(within) = within {
            let connected = timeout(within, link.wait_for(|link| link.is_connected)).await;
            if !matches!(connected, Ok(Ok(_))) {
                return Err(failed(format!("no connection within {within:?}")));
            }
        }
        Ok(Self { client, link })
    }

    /// Waits for a connection, and returns its number. Never returns if the client has given up.
    pub(crate) async fn connected(&mut self) -> u64 {
        let epoch = self.link.wait_for(|link| link.is_connected).await.map(|link| link.epoch);
        match epoch {
            Ok(epoch) => epoch,
            Err(_) => std::future::pending().await,
        }
    }

    /// Waits until there is another connection than that of this number.
    pub(crate) async fn reconnected(&mut self, epoch: u64) {
        if self.link.wait_for(|link| link.is_connected && link.epoch != epoch).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn link(&self) -> Link {
        self.link.borrow().clone()
    }
}

impl Link {
    /// Notes an event of the client. Returns whether something has changed.
    fn note(&mut self, event: &Event) -> bool {
        match event {
            Event::Connected => {
                self.is_connected = true;
                self.epoch += 1;
            }
            Event::Disconnected | Event::Closed => self.is_connected = false,
            Event::ServerError(ServerError::AuthorizationViolation) => self.refuse("authorization violation"),
            Event::ServerError(ServerError::Other(text)) => self.refuse(text),
            // An attempt to connect that the server has refused.
            Event::ClientError(ClientError::Other(text)) if text.contains("authorization") => {
                self.refuse(text);
            }
            _ => return false,
        }
        true
    }

    fn refuse(&mut self, text: &str) {
        self.refusals += 1;
        text.clone_into(&mut self.refusal);
    }
}

/// Returns what signs in in an address: a user and a password, or a token.
fn auth_in(server: &ServerAddr) -> Option<Auth> {
    let user = server.username()?.to_owned();
    Some(match server.password() {
        Some(password) => Auth::Password { user, password: password.to_owned() },
        None => Auth::Token(user),
    })
}

/// Adds what signs in, and the certificates.
fn signed(
    settings: ConnectOptions,
    options: &ConnectionOptions,
    auth: Option<Auth>,
) -> Result<ConnectOptions, String> {
    let settings = match auth {
        None => settings,
        Some(Auth::Token(token)) => settings.token(token),
        Some(Auth::Password { user, password }) => settings.user_and_password(user, password),
        #[cfg(feature = "nkeys")]
        Some(Auth::NkeyFile(path)) => settings.nkey(read(&path)?.trim().to_owned()),
        #[cfg(feature = "nkeys")]
        Some(Auth::CredentialsFile(path)) => {
            settings.credentials(&read(&path)?).map_err(|error| error.to_string())?
        }
        #[cfg(not(feature = "nkeys"))]
        Some(Auth::NkeyFile(_) | Auth::CredentialsFile(_)) => return Err("no feature `nkeys`".to_owned()),
    };
    let tls = &options.tls;
    let settings = settings.require_tls(tls.required);
    let settings = tls.ca.iter().fold(settings, |settings, ca| settings.add_root_certificates(ca.clone()));
    Ok(tls
        .client
        .iter()
        .fold(settings, |settings, (cert, key)| settings.add_client_certificate(cert.clone(), key.clone())))
}

#[cfg(feature = "nkeys")]
fn read(path: &std::path::Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Returns the pause before an attempt to connect: none before the first, and twice the last one
/// before each further one.
fn pause(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(2)).unwrap_or(u32::MAX).min(16);
    if attempts <= 1 { Duration::ZERO } else { (Duration::from_millis(20) * (1 << doublings)).min(MAX_PAUSE) }
}

/// Returns the text of an error and its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

/// Returns the number of JetStream's error behind an error of the client, if there is one.
pub(crate) fn server_code(error: &(dyn std::error::Error + 'static)) -> Option<u64> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<async_nats::jetstream::Error>() {
            return Some(error.error_code().0);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_limit() {
        assert_eq!(pause(1), Duration::ZERO);
        assert_eq!([pause(2), pause(3)], [Duration::from_millis(20), Duration::from_millis(40)]);
        assert_eq!([pause(12), pause(usize::MAX)], [MAX_PAUSE; 2]);
    }

    #[test]
    fn a_link_counts_its_connections() {
        let mut link = Link::default();
        assert!(
            link.note(&Event::Connected) && link.note(&Event::Disconnected) && link.note(&Event::Connected)
        );
        assert_eq!((link.is_connected, link.epoch), (true, 2));
        assert!(link.note(&Event::ServerError(ServerError::Other("Permissions Violation".to_owned()))));
        assert_eq!((link.refusals, link.refusal.as_str()), (1, "Permissions Violation"));
        assert!(!link.note(&Event::LameDuckMode));
    }
}
