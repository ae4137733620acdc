//! An API server's responses, in the form of metav1's `Status` with a kube-apiserver's messages.

use serde_json::{Value, json};

/// A response, whose body is an object or a `Status`.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn new(code: u16, body: Value) -> Self {
        Self { code, body }
    }
}

fn failure(code: u16, reason: &str, message: &str, details: &Value) -> Answer {
    let mut body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "details": details, "code": code,
    });
    for field in ["reason", "details"] {
        if body[field] == "" || body[field].is_null() {
            body.as_object_mut().unwrap().remove(field);
        }
    }
    Answer::new(code, body)
}

pub(crate) fn not_found(kind: &str, name: &str) -> Answer {
    let message = format!("{kind} \"{name}\" not found");
    failure(404, "NotFound", &message, &json!({"name": name, "kind": kind}))
}

pub(crate) fn already_exists(kind: &str, name: &str) -> Answer {
    let message = format!("{kind} \"{name}\" already exists");
    failure(409, "AlreadyExists", &message, &json!({"name": name, "kind": kind}))
}

pub(crate) fn conflict(name: &str) -> Answer {
    let message = format!(
        "Operation cannot be fulfilled on events \"{name}\": the object has been modified; please apply your changes \
         to the latest version and try again"
    );
    failure(409, "Conflict", &message, &json!({"name": name, "kind": "events"}))
}

pub(crate) fn invalid(name: &str, field: &str, why: &str) -> Answer {
    let message = format!("Event \"{name}\" is invalid: {field}: {why}");
    let cause = json!({"reason": "FieldValueInvalid", "message": why, "field": field});
    failure(422, "Invalid", &message, &json!({"name": name, "kind": "Event", "causes": [cause]}))
}

pub(crate) fn terminating(namespace: &str, name: &str) -> Answer {
    let message = format!(
        "events \"{name}\" is forbidden: unable to create new content in namespace {namespace} because it is being \
         terminated"
    );
    let cause = json!({
        "reason": "NamespaceTerminating", "message": format!("namespace {namespace} is being terminated"),
        "field": "metadata.namespace",
    });
    failure(403, "Forbidden", &message, &json!({"name": name, "kind": "events", "causes": [cause]}))
}

pub(crate) fn forbidden(user: &str, verb: &str, group: &str, namespace: &str, name: &str) -> Answer {
    forbidden_because(name, &cannot(user, verb, group, namespace))
}

/// Returns a refusal that includes the authorizer's reason.
pub(crate) fn forbidden_with(
    user: &str,
    verb: &str,
    group: &str,
    namespace: &str,
    name: &str,
    reason: &str,
) -> Answer {
    forbidden_because(name, &format!("{}: {reason}", cannot(user, verb, group, namespace)))
}

fn cannot(user: &str, verb: &str, group: &str, namespace: &str) -> String {
    format!(
        "User \"{user}\" cannot {verb} resource \"events\" in API group \"{group}\" in the namespace \"{namespace}\""
    )
}

/// Returns a refusal with the given reason.
pub(crate) fn forbidden_because(name: &str, reason: &str) -> Answer {
    let what = if name.is_empty() { "events".to_owned() } else { format!("events \"{name}\"") };
    let message = format!("{what} is forbidden: {reason}");
    failure(403, "Forbidden", &message, &json!({"name": name, "kind": "events"}))
}

pub(crate) fn unauthorized() -> Answer {
    failure(401, "Unauthorized", "Unauthorized", &Value::Null)
}

pub(crate) fn bad_request(message: &str) -> Answer {
    failure(400, "BadRequest", message, &Value::Null)
}

pub(crate) fn method_not_allowed() -> Answer {
    let message = "the server does not allow this method on the requested resource";
    failure(405, "MethodNotAllowed", message, &json!({}))
}

pub(crate) fn unsupported_media_type(accepted: &str) -> Answer {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {accepted}"
    );
    failure(415, "UnsupportedMediaType", &message, &json!({}))
}

pub(crate) fn too_large(limit: usize) -> Answer {
    let message = format!("Request entity too large: limit is {limit}");
    failure(413, "RequestEntityTooLarge", &message, &json!({}))
}

/// Returns etcd's error, which a server forwards without a reason.
pub(crate) fn etcd_too_large() -> Answer {
    failure(500, "", "etcdserver: request is too large", &Value::Null)
}

/// Returns an error from the connection to etcd, which a server forwards without a reason.
pub(crate) fn more_than_can_be_sent(len: usize, limit: usize) -> Answer {
    let message = format!(
        "rpc error: code = ResourceExhausted desc = trying to send message larger than max ({len} vs. {limit})"
    );
    failure(500, "", &message, &Value::Null)
}

/// Returns the store's own error, which a server forwards without a reason.
pub(crate) fn version_on_create() -> Answer {
    failure(500, "", "resourceVersion should not be set on objects to be created", &Value::Null)
}

/// Returns the response of the `EventRateLimit` admission plugin.
pub(crate) fn too_many_requests() -> Answer {
    let message = "the server has received too many requests and has asked us to try again later";
    failure(429, "TooManyRequests", message, &json!({}))
}

/// Returns the response to a request whose webhook could not be called, or did not respond in time.
pub(crate) fn webhook_failed(webhook: &str, reason: &str) -> Answer {
    let cause = format!("failed calling webhook \"{webhook}\": failed to call webhook: {reason}");
    let message = format!("Internal error occurred: {cause}");
    failure(500, "InternalError", &message, &json!({"causes": [{"message": cause}]}))
}

/// Returns the response to a request that a webhook denied. The webhook chose the code, the reason
/// and the delay. A delay of zero means that there is no delay.
pub(crate) fn webhook_denied(webhook: &str, code: u16, reason: &str, message: &str, delay: u32) -> Answer {
    let message = format!("admission webhook \"{webhook}\" denied the request: {message}");
    let details = if delay > 0 { json!({ "retryAfterSeconds": delay }) } else { Value::Null };
    failure(code, reason, &message, &details)
}
