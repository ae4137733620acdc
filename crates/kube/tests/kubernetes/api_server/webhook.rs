//! Admission webhooks, which are third-party code that a server calls before it stores an object in
//! a namespace, and the server's responses when that code misbehaves.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use super::locks::lock;
use super::status::{self, Answer};

/// The name of each webhook.
const NAME: &str = "deny.example.com";

/// The behaviour of a namespace's webhook. The webhook's failure policy is `Fail`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Webhook {
    /// The webhook cannot be called. The server responds with 500 immediately.
    Refuse500,
    /// Denies every request with 429, and asks the client to wait for this many seconds.
    TooMany(u32),
    /// Allows every request after this time.
    Slow(Duration),
    /// Does not respond. The server responds with 500 after this time, which is the webhook's
    /// timeout.
    Hang(Duration),
    /// Denies every request with 503.
    Unavailable503,
}

impl Webhook {
    /// Waits for the webhook. Returns the server's response, or `None` if the webhook allows the
    /// request. If the client closes the connection, the wait ends, because the server drops the
    /// future.
    async fn ask(self) -> Option<Answer> {
        match self {
            Self::Refuse500 => {
                let reason = "the server could not find the requested resource";
                Some(status::webhook_failed(NAME, reason))
            }
            Self::TooMany(seconds) => {
                Some(status::webhook_denied(NAME, 429, "TooManyRequests", "too many events", seconds))
            }
            Self::Slow(time) => {
                tokio::time::sleep(time).await;
                None
            }
            Self::Hang(timeout) => {
                tokio::time::sleep(timeout).await;
                let seconds = timeout.as_secs();
                let url = format!("https://deny.example.com:443/?timeout={seconds}s");
                Some(status::webhook_failed(NAME, &format!("Post \"{url}\": context deadline exceeded")))
            }
            Self::Unavailable503 => {
                let reason = "ServiceUnavailable";
                Some(status::webhook_denied(NAME, 503, reason, "the policy store is unavailable", 0))
            }
        }
    }
}

/// A server's webhooks, by namespace.
#[derive(Default)]
pub(super) struct Webhooks {
    of: Mutex<BTreeMap<String, Webhook>>,
}

impl Webhooks {
    pub(super) fn set(&self, namespace: &str, webhook: Option<Webhook>) {
        let mut of = lock(&self.of);
        match webhook {
            Some(webhook) => of.insert(namespace.to_owned(), webhook),
            None => of.remove(namespace),
        };
    }

    /// Calls a namespace's webhook, if the namespace has one.
    pub(super) async fn ask(&self, namespace: &str) -> Option<Answer> {
        let webhook = lock(&self.of).get(namespace).copied()?;
        webhook.ask().await
    }
}
