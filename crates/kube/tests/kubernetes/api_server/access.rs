//! A server's access control, which decides whether a request is permitted. The decision depends on
//! who sends the request, on the sender's permissions, and on whether the server is ready to
//! decide.

use std::time::{Duration, Instant};

use axum::http::{Method, header};

use super::accounts::{Account, Accounts, Request};
use super::seen::Seen;
use super::status::{self, Answer};

/// The administrator's token. The administrator may do everything, and no server checks the
/// administrator's permissions.
pub(crate) const ADMIN: &str = "admin-token";

/// The events to which a path refers, which are all events in a namespace or a single event.
#[derive(Debug)]
pub(super) struct Target {
    /// The API group, which is empty for core/v1.
    pub(super) group: &'static str,
    pub(super) namespace: String,
    /// The name of the event, or an empty string for all events.
    pub(super) name: String,
}

impl Target {
    /// Returns the target of a path, or `None` if the path does not refer to events.
    pub(super) fn of(path: &str) -> Option<Self> {
        let (group, rest) = match path.strip_prefix("/api/v1/namespaces/") {
            Some(rest) => ("", rest),
            None => ("events.k8s.io", path.strip_prefix("/apis/events.k8s.io/v1/namespaces/")?),
        };
        let segments: Vec<String> = rest.split('/').map(decoded).collect();
        let (namespace, name) = match &segments[..] {
            [namespace, events] if events == "events" => (namespace, ""),
            [namespace, events, name] if events == "events" => (namespace, name.as_str()),
            _ => return None,
        };
        Some(Self { group, namespace: namespace.clone(), name: name.to_owned() })
    }
}

/// The state of a server's access control.
#[derive(Default)]
pub(super) struct Access {
    pub(super) accounts: Accounts,
    /// Whether a client without credentials may do everything.
    pub(super) is_open: bool,
    /// The time until which the server refuses every service account, and the number of requests
    /// that it has refused so far.
    starting: Option<(Instant, usize)>,
}

impl Access {
    /// Refuses every service account for the given time, like a server that has not yet filled its
    /// role caches.
    pub(super) fn start(&mut self, time: Duration) {
        self.starting = Some((Instant::now() + time, 0));
    }

    /// Returns the response that refuses a request because of its user, or `None` if the user is
    /// permitted to send the request. Administrators are permitted to do everything. Other users
    /// may query which APIs exist, and their roles determine what they may do with events.
    pub(super) fn refused(&mut self, request: &Seen, target: Option<&Target>) -> Option<Answer> {
        let token = request.headers.get(header::AUTHORIZATION);
        let token = token.map(|token| token.to_str().unwrap_or_default());
        let account = match token.map(|token| token.strip_prefix("Bearer ").unwrap_or_default()) {
            // kubectl sends no token to an address without TLS.
            None if self.is_open => return None,
            Some(ADMIN) => return None,
            None => return Some(not_allowed("system:anonymous", request, target)),
            Some(token) => match self.accounts.of_token(token) {
                Some(account) => account,
                None => return Some(status::unauthorized()),
            },
        };
        let Some(target) = target else {
            // Every known user is permitted to query which APIs exist.
            let is_allowed = request.method == Method::GET;
            return (!is_allowed).then(|| not_allowed(&account.user(), request, None));
        };
        let verb = verb(&request.method);
        let Target { group, namespace, name } = target;
        let asked = Request { verb, group, resource: "events", namespace };
        if let Some((until, refusals)) = &mut self.starting
            && Instant::now() < *until
        {
            *refusals += 1;
            return Some(not_ready(*refusals, &account, &asked, name));
        }
        let is_allowed = self.accounts.may(&account, &asked);
        (!is_allowed).then(|| not_allowed(&account.user(), request, Some(target)))
    }
}

/// Returns one of the refusals that a server sends while it is not ready. A server sends all of
/// these refusals, in any order.
fn not_ready(number: usize, account: &Account, asked: &Request<'_>, name: &str) -> Answer {
    let Request { verb, group, namespace, .. } = *asked;
    match number % 3 {
        0 => status::forbidden_because(name, "not yet ready to handle request"),
        1 => status::forbidden(&account.user(), verb, group, namespace, name),
        _ => {
            let missing = "RBAC: clusterrole.rbac.authorization.k8s.io \"recorder\" not found";
            status::forbidden_with(&account.user(), verb, group, namespace, name, missing)
        }
    }
}

fn not_allowed(user: &str, request: &Seen, target: Option<&Target>) -> Answer {
    let (group, namespace, name) =
        target.map_or(("", "", ""), |target| (target.group, &*target.namespace, &*target.name));
    status::forbidden(user, verb(&request.method), group, namespace, name)
}

fn verb(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "get",
    }
}

/// Decodes the percent-encoding in a path segment, such as `%41`.
pub(super) fn decoded(segment: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = segment.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex =
            (first == b'%').then(|| tail.get(..2)).flatten().and_then(|two| std::str::from_utf8(two).ok());
        if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
