//! Tests that events are transferred with TLS and with each method of authentication.

use eventcast_nats::{Auth, ConnectionOptions, Start};
#[cfg(feature = "nkeys")]
use nkeys::KeyPair;
use test_support::LONG;

#[cfg(feature = "tls-ring")]
use crate::certificates::Authority;
use crate::reading::{Remote, lossless, out, publish, reader};
use crate::server::Server;

/// Transfers events from one side to the other with these options.
#[track_caller]
fn carries(url: &str, change: impl Fn(&mut ConnectionOptions)) {
    let bus = lossless();
    let out = out(url).configure(|options| change(&mut options.connection)).attach(&bus).unwrap();
    let reader = reader(url).start(Start::New).configure(|options| change(&mut options.connection));
    let mut remote = Remote::new(reader);
    assert!(remote.subscriber.ready(LONG), "{}", remote.subscriber.status());
    publish(&bus, &out, 0..100);
    remote.receive_exactly(0..100);
    remote.ends_here();
}

pub(crate) fn a_password_carries_events() {
    let server = Server::start("authorization { user: \"me@home\", password: \"p@/ss: word\" }\n");
    let port = server.port();
    carries(&format!("nats://me%40home:p%40%2Fss%3A%20word@127.0.0.1:{port}"), |_| {});
    carries(&server.url(), |options| {
        let (user, password) = ("me@home".to_owned(), "p@/ss: word".to_owned());
        options.auth = Some(Auth::Password { user, password });
    });
}

pub(crate) fn a_token_carries_events() {
    let server = Server::start("authorization { token: t0ken }\n");
    carries(&format!("nats://t0ken@127.0.0.1:{}", server.port()), |_| {});
    carries(&server.url(), |options| options.auth = Some(Auth::Token("t0ken".to_owned())));
}

#[cfg(feature = "nkeys")]
pub(crate) fn an_nkey_carries_events() {
    let key = KeyPair::new_user();
    let server = Server::start(&format!("authorization {{ users: [ {{ nkey: {} }} ] }}\n", key.public_key()));
    let file = server.path().join("me.nk");
    std::fs::write(&file, format!("{}\n", key.seed().unwrap())).unwrap();
    carries(&server.url(), |options| options.auth = Some(Auth::NkeyFile(file.clone())));
}

#[cfg(feature = "tls-ring")]
pub(crate) fn a_certificate_of_an_authority_carries_events() {
    let authority = Authority::new();
    let server = Server::start(&authority.settings(false));
    carries(&server.url(), |options| options.tls.ca = Some(authority.file("ca.pem")));
    carries(&server.url().replace("nats://", "tls://"), |options| {
        options.tls.ca = Some(authority.file("ca.pem"));
    });
}

#[cfg(feature = "tls-ring")]
pub(crate) fn certificates_of_both_sides_carry_events() {
    let authority = Authority::new();
    let server = Server::start(&authority.settings(true));
    carries(&server.url(), |options| {
        options.tls.required = true;
        options.tls.ca = Some(authority.file("ca.pem"));
        options.tls.client = Some((authority.file("client.pem"), authority.file("client.key")));
    });
}

#[cfg(feature = "tls-ring")]
pub(crate) fn a_file_that_is_no_certificate_is_named() {
    let (authority, other) = (Authority::new(), Authority::new());
    let error = |change: &dyn Fn(&mut ConnectionOptions)| {
        let builder = out("nats://127.0.0.1:1").configure(|options| change(&mut options.connection));
        builder.attach(&lossless()).unwrap_err().to_string()
    };
    let begin = "cannot connect to nats://127.0.0.1:1: cannot read";
    let missing = authority.file("missing");
    let text = error(&|options| options.tls.ca = Some(missing.clone()));
    assert!(text.starts_with(&format!("{begin} certificates from {}: ", missing.display())), "{text}");
    let key = authority.file("client.key");
    let text = error(&|options| options.tls.ca = Some(key.clone()));
    let expected = format!("{begin} certificates from {}: it contains none in PEM format", key.display());
    assert_eq!(text, expected);
    let certificate = authority.file("client.pem");
    let text = error(&|options| options.tls.client = Some((certificate.clone(), certificate.clone())));
    assert!(text.starts_with(&format!("{begin} a key from {}: ", certificate.display())), "{text}");
    let foreign = other.file("client.key");
    let text = error(&|options| options.tls.client = Some((certificate.clone(), foreign.clone())));
    let expected = format!("the key in {} does not belong to {}: ", foreign.display(), certificate.display());
    assert!(text.contains(&expected), "{text}");
}
