//! The requests that the server has received.

use axum::body::Bytes;
use axum::http::{HeaderMap, Method};

/// A request as the server received it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whether the request is a watch. If so, the watch has begun.
    pub(crate) is_watch: bool,
}

impl Seen {
    /// Returns the method and the namespace, such as `POST default`, followed by the event's name
    /// if the path contains it.
    pub(crate) fn short(&self) -> String {
        let rest = self.path.strip_prefix("/api/v1/namespaces/");
        let rest =
            rest.or(self.path.strip_prefix("/apis/events.k8s.io/v1/namespaces/")).unwrap_or(&self.path);
        format!("{} {}", self.method, rest.replacen("/events", "", 1))
    }
}
