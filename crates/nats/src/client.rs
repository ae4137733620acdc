//! Connects to the servers. A connection consists of a NATS client and the state of the client's
//! link. Tasks can wait for changes of this state.

use std::sync::Arc;
use std::time::Duration;

use async_nats::rustls::crypto::CryptoProvider;
use async_nats::{Client, ConnectOptions, Event, ServerAddr, ServerError};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::address;
use crate::error::BuildError;
use crate::failure::{self, Failure, NO_PROVIDER};
use crate::options::{Auth, ConnectionOptions};
use crate::tls;

/// The longest pause between two attempts to connect.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// The state of the link to the servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) is_connected: bool,
    /// The number of connections so far, which distinguishes each connection from the next
    /// connection.
    pub(crate) epoch: u64,
    /// The number of failed attempts to connect since the last connection, and the last failure.
    pub(crate) attempts: u64,
    pub(crate) failure: Option<Failure>,
    /// The number of refusals by the server so far, and the text of the last refusal.
    pub(crate) refusals: u64,
    pub(crate) refusal: String,
}

/// The settings of a client, including the contents of all files that it needs.
pub(crate) struct Settings {
    client: ConnectOptions,
    servers: Vec<ServerAddr>,
    /// The addresses without credentials.
    shown: String,
}

impl Settings {
    /// Parses the addresses, and reads the files that the options name.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read or an address is invalid.
    pub(crate) fn new(options: &ConnectionOptions) -> Result<Self, BuildError> {
        Self::with_provider(options, tls::provider())
    }

    fn with_provider(
        options: &ConnectionOptions,
        provider: Option<Arc<CryptoProvider>>,
    ) -> Result<Self, BuildError> {
        options.check()?;
        let shown = options.to_string();
        let failed = |text: String| BuildError::Connect { servers: shown.clone(), text };
        let addresses = options.servers.iter().map(|url| address::parse(url));
        let addresses = addresses.collect::<Result<Vec<_>, _>>().map_err(&failed)?;
        let in_address = || addresses.iter().find_map(|found| found.signs_in.clone());
        let auth = options.auth.clone().or_else(|| in_address().map(auth_of));
        let client = signed(ConnectOptions::new().name(&options.name), auth).map_err(&failed)?;
        let client = client.require_tls(options.tls.required);
        let client = match provider {
            Some(provider) => {
                let (ca, own) = (options.tls.ca.as_deref(), options.tls.client.as_ref());
                client.tls_client_config(tls::config(provider, ca, own).map_err(&failed)?)
            }
            None => client.add_root_certificates(NO_PROVIDER.into()),
        };
        let servers = addresses.into_iter().map(|found| found.server).collect();
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
    /// Starts connecting, and retries indefinitely. If `within` is set, waits until the client is
    /// connected for the first time.
    ///
    /// # Errors
    ///
    /// Returns an error if the client cannot be started with these settings, or if `within` is set
    /// and the client is not connected within that time.
    pub(crate) async fn open(
        settings: Settings,
        capacity: usize,
        within: Option<Duration>,
    ) -> Result<Self, BuildError> {
        let Settings { client, servers, shown } = settings;
        let failed = |text: String| BuildError::Connect { servers: shown.clone(), text };
        // Only the client's own tasks hold the sender, so the sender is dropped when these tasks
        // end.
        let (sender, mut link) = watch::channel(Link::default());
        let attempts = sender.clone();
        let settings = client
            .retry_on_initial_connect()
            .subscription_capacity(capacity)
            .reconnect_delay_callback(pause)
            // This callback does not choose a server, but only observes how the last attempts to
            // connect ended.
            .reconnect_to_server_callback(move |servers, _| {
                let attempts = attempts.clone();
                async move {
                    if let Some(failure) = failure::of_attempts(&servers).await {
                        attempts.send_modify(|link| link.fail(failure));
                    }
                    None
                }
            })
            .event_callback(move |event| {
                sender.send_if_modified(|link| link.note(&event));
                std::future::ready(())
            });
        let client = settings.connect(servers).await.map_err(|error| failed(chain(&error)))?;
        if let Some(within) = within {
            let connected =
                timeout(within, link.wait_for(|link| link.is_connected)).await.map(|end| end.is_ok());
            if connected != Ok(true) {
                let cause = link.borrow().failure.clone();
                let cause = cause.map_or_else(String::new, |failure| format!(": {}", failure.text));
                return Err(failed(format!("no connection within {within:?}{cause}")));
            }
        }
        Ok(Self { client, link })
    }

    /// Waits until the client has ended. If the program did not request this, the client has ended
    /// because of a fault.
    pub(crate) async fn ended(&mut self) {
        // An error means that the client's tasks have ended.
        let _ = self.link.wait_for(|_| false).await;
    }

    /// Returns whether the client has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.link.has_changed().is_err()
    }

    /// Waits until the client is connected, and returns the number of the connection. Never returns
    /// if the client ends before it is connected.
    pub(crate) async fn connected(&mut self) -> u64 {
        let epoch = self.link.wait_for(|link| link.is_connected).await.map(|link| link.epoch);
        match epoch {
            Ok(epoch) => epoch,
            Err(_) => std::future::pending().await,
        }
    }

    /// Waits until the client is connected and the number of the connection differs from `epoch`.
    pub(crate) async fn reconnected(&mut self, epoch: u64) {
        if self.link.wait_for(|link| link.is_connected && link.epoch != epoch).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn link(&self) -> Link {
        self.link.borrow().clone()
    }

    /// Returns a connection whose client has ended, as if its task had panicked.
    #[cfg(test)]
    pub(crate) async fn that_has_ended() -> Self {
        let client = ConnectOptions::new().retry_on_initial_connect().connect("127.0.0.1:1").await;
        Self { client: client.unwrap(), link: watch::channel(Link::default()).1 }
    }
}

impl Link {
    /// Records an event from the client. Returns whether the link has changed.
    fn note(&mut self, event: &Event) -> bool {
        match event {
            Event::Connected => {
                self.is_connected = true;
                self.epoch += 1;
                (self.attempts, self.failure) = (0, None);
            }
            Event::Disconnected | Event::Closed => {
                self.is_connected = false;
                self.fail(Failure::new("the connection was lost"));
            }
            Event::ServerError(ServerError::AuthorizationViolation) => self.refuse("authorization violation"),
            Event::ServerError(ServerError::Other(text)) => self.refuse(text),
            _ => return false,
        }
        true
    }

    fn fail(&mut self, failure: Failure) {
        self.attempts += 1;
        self.failure = Some(failure);
    }

    fn refuse(&mut self, text: &str) {
        self.refusals += 1;
        text.clone_into(&mut self.refusal);
    }
}

fn auth_of((user, password): (String, Option<String>)) -> Auth {
    match password {
        Some(password) => Auth::Password { user, password },
        None => Auth::Token(user),
    }
}

/// Adds the credentials to the settings.
fn signed(settings: ConnectOptions, auth: Option<Auth>) -> Result<ConnectOptions, String> {
    Ok(match auth {
        None => settings,
        Some(Auth::Token(token)) => settings.token(token),
        Some(Auth::Password { user, password }) => settings.user_and_password(user, password),
        #[cfg(feature = "nkeys")]
        Some(Auth::NkeyFile(path)) => settings.nkey(seed(&path)?),
        #[cfg(feature = "nkeys")]
        Some(Auth::CredentialsFile(path)) => settings.credentials(&read(&path)?).map_err(|error| {
            format!("{} has no credentials as `nsc` writes them: {error}", path.display())
        })?,
        #[cfg(not(feature = "nkeys"))]
        Some(Auth::NkeyFile(_) | Auth::CredentialsFile(_)) => return Err("no feature `nkeys`".to_owned()),
    })
}

/// Reads the seed of an nkey from a file.
#[cfg(feature = "nkeys")]
fn seed(path: &std::path::Path) -> Result<String, String> {
    let seed = read(path)?.trim().to_owned();
    // The parser's error may repeat a part of the seed, so the error is not shown.
    match nkeys::KeyPair::from_seed(&seed) {
        Ok(_) => Ok(seed),
        Err(_) => Err(format!("{} has no seed of an nkey, a word that begins with `SU`", path.display())),
    }
}

#[cfg(feature = "nkeys")]
fn read(path: &std::path::Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Returns the pause before an attempt to connect. There is no pause before the first attempt. Each
/// later pause is twice as long as the previous pause, up to [`MAX_PAUSE`].
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

/// Returns the JetStream error that caused a client error, or `None` if there is no such error.
pub(crate) fn server_error<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a async_nats::jetstream::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
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

    /// The client would panic if it needed a TLS provider and no provider was available.
    #[test]
    fn without_a_provider_a_server_that_requires_tls_is_a_failure_that_names_the_feature() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            // The thread runs until the process exits.
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let info = r#"{"server_id":"","version":"","max_payload":1,"tls_required":true}"#;
                let _ = std::io::Write::write_all(&mut stream, format!("INFO {info}\r\n").as_bytes());
            }
        });
        let settings = Settings::with_provider(&ConnectionOptions::new(&url), None).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut connection = Connection::open(settings, 1, None).await.unwrap();
            let link = connection.link.wait_for(|link| link.failure.is_some()).await.unwrap().clone();
            assert!(link.failure.unwrap().text.contains("without the feature `tls-ring`"));
            // The client is still running, and continues to retry.
            connection.link.wait_for(|link| link.attempts > 2).await.unwrap();
            assert!(!connection.has_ended());
        });
    }

    #[test]
    fn a_connection_ends_the_failures_before_it() {
        let mut link = Link::default();
        link.fail(Failure::new("connection refused"));
        link.fail(Failure::new("no answer"));
        assert_eq!((link.attempts, link.failure.as_ref().unwrap().text.as_str()), (2, "no answer"));
        assert!(link.note(&Event::Connected));
        assert_eq!((link.attempts, &link.failure), (0, &None));
        assert!(link.note(&Event::Disconnected));
        assert_eq!((link.attempts, link.failure), (1, Some(Failure::new("the connection was lost"))));
    }
}
