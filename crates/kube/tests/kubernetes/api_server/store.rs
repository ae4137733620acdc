//! An API server's events, and the rules by which the server accepts, changes and refuses events.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, Method, header};
use serde_json::{Map, Value, json};

use super::selection::Selection;
use super::status::{self, Answer};

/// The maximum size of an event that etcd accepts in a request, in bytes.
const MAX_STORED: usize = 1_500_000;
/// The maximum size of an event that the server's etcd client sends, in bytes.
const MAX_SENT: usize = 2 << 20;
/// The maximum lengths of fields in events with an event time, in bytes.
const MAX_TIMED_MESSAGE: usize = 1024;
const MAX_TIMED_TEXT: usize = 128;

pub(crate) struct Store {
    /// Maps the name of each namespace to whether the namespace is terminating.
    namespaces: BTreeMap<String, bool>,
    events: BTreeMap<(String, String), Value>,
    /// All other objects that can be listed, keyed by the path of their collection and by name.
    objects: BTreeMap<String, BTreeMap<String, Value>>,
    version: u64,
    /// The field manager of the current request.
    pub(crate) manager: String,
    /// Whether the server supports events.k8s.io/v1.
    pub(crate) has_events_v1: bool,
}

impl Store {
    pub(crate) fn new() -> Self {
        let namespaces = ["default", "kube-system"].map(|name| (name.to_owned(), false)).into();
        Self {
            namespaces,
            events: BTreeMap::new(),
            objects: BTreeMap::new(),
            version: 1,
            manager: String::new(),
            has_events_v1: true,
        }
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        self.events.values().cloned().collect()
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    /// Returns the response to a request about the events in a namespace, or about the event with
    /// this name.
    pub(crate) fn events_of(
        &mut self,
        method: &Method,
        namespace: &str,
        name: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Answer {
        if name.is_empty() {
            self.collection(method, namespace, headers, body)
        } else {
            self.item(method, namespace, name, headers, body)
        }
    }

    fn collection(&mut self, method: &Method, namespace: &str, headers: &HeaderMap, body: &[u8]) -> Answer {
        match method.as_str() {
            "POST" => match read(headers, body, "application/json") {
                Ok(event) if !text(&event["metadata"], "resourceVersion").is_empty() => {
                    status::version_on_create()
                }
                Ok(event) => self.create(namespace, event),
                Err(answer) => answer,
            },
            _ => status::method_not_allowed(),
        }
    }

    fn item(
        &mut self,
        method: &Method,
        namespace: &str,
        name: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Answer {
        match method.as_str() {
            "GET" => match self.events.get(&key(namespace, name)) {
                Some(event) => Answer::new(200, event.clone()),
                None => self.missing(namespace, name),
            },
            "DELETE" => self.delete(namespace, name),
            "PUT" => match read(headers, body, "application/json") {
                Ok(event) => self.replace(namespace, name, event),
                Err(answer) => answer,
            },
            "PATCH" => match read(headers, body, "application/strategic-merge-patch+json") {
                Ok(patch) => self.patch(namespace, name, &patch),
                Err(answer) => answer,
            },
            _ => status::method_not_allowed(),
        }
    }

    /// Returns the selected events in a namespace, or in all namespaces if `namespace` is empty.
    pub(crate) fn list(&self, namespace: &str, selection: &Selection) -> Answer {
        let items = self.events.iter().filter(|((ns, _), _)| namespace.is_empty() || ns == namespace);
        let items: Vec<_> = items.map(|(_, event)| event).filter(|event| selection.includes(event)).collect();
        Answer::new(
            200,
            json!({
                "kind": "EventList", "apiVersion": "v1",
                "metadata": {"resourceVersion": self.version.to_string()}, "items": items,
            }),
        )
    }

    /// Deletes the selected events in a namespace, and returns these events.
    pub(crate) fn delete_selected(&mut self, namespace: &str, selection: &Selection) -> Answer {
        let answer = self.list(namespace, selection);
        self.events.retain(|(ns, _), event| ns != namespace || !selection.includes(event));
        answer
    }

    fn create(&mut self, namespace: &str, mut event: Value) -> Answer {
        if let Err(answer) = prepare(namespace, None, &mut event) {
            return answer;
        }
        let name = event["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match self.namespaces.get(namespace) {
            None => return status::not_found("namespaces", namespace),
            Some(true) => return status::terminating(namespace, &name),
            Some(false) => {}
        }
        if let Some(refused) = invalid(namespace, &name, &event) {
            return refused;
        }
        if self.events.contains_key(&key(namespace, &name)) {
            return status::already_exists("events", &name);
        }
        self.insert(201, namespace, &name, event)
    }

    fn replace(&mut self, namespace: &str, name: &str, mut event: Value) -> Answer {
        if let Err(answer) = prepare(namespace, Some(name), &mut event) {
            return answer;
        }
        let version = event["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let Some(stored) = self.events.get(&key(namespace, name)) else {
            return self.create(namespace, event);
        };
        if !version.is_empty() && stored["metadata"]["resourceVersion"] != version.as_str() {
            return status::conflict(name);
        }
        if let Some(refused) = invalid(namespace, name, &event) {
            return refused;
        }
        for field in ["uid", "creationTimestamp"] {
            event["metadata"][field] = stored["metadata"][field].clone();
        }
        self.insert(200, namespace, name, event)
    }

    fn patch(&mut self, namespace: &str, name: &str, patch: &Value) -> Answer {
        let Some(stored) = self.events.get(&key(namespace, name)) else {
            return self.missing(namespace, name);
        };
        if !self.namespaces.contains_key(namespace) {
            return status::not_found("namespaces", namespace);
        }
        let mut event = stored.clone();
        merge(&mut event, patch);
        for (field, text) in
            [("resourceVersion", "the object has been modified"), ("uid", "Precondition failed")]
        {
            let (asked, is) = (&patch["metadata"][field], &stored["metadata"][field]);
            if asked.as_str().is_some_and(|asked| !asked.is_empty()) && asked != is {
                return if field == "uid" {
                    status::invalid(name, "metadata.uid", text)
                } else {
                    status::conflict(name)
                };
            }
        }
        // An empty version counts as no version.
        event["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
        if event == *stored {
            return Answer::new(200, event);
        }
        if let Some(refused) = invalid(namespace, name, &event) {
            return refused;
        }
        self.insert(200, namespace, name, event)
    }

    fn insert(&mut self, code: u16, namespace: &str, name: &str, mut event: Value) -> Answer {
        match event.to_string().len() {
            0..=MAX_STORED => {}
            len if len > MAX_SENT => return status::more_than_can_be_sent(len, MAX_SENT),
            _ => return status::etcd_too_large(),
        }
        let version = self.next_version();
        let stored = self.events.get(&key(namespace, name));
        let managed = stored.and_then(|stored| stored["metadata"]["managedFields"].as_array());
        let mut managed = managed.cloned().unwrap_or_default();
        if !managed.iter().any(|fields| fields["manager"] == self.manager.as_str()) {
            managed.push(json!({"manager": self.manager, "operation": "Update"}));
        }
        let metadata = event["metadata"].as_object_mut().unwrap();
        if code == 201 {
            metadata.insert("uid".into(), json!(format!("00000000-0000-4000-8000-{:012}", self.version)));
            metadata.insert("creationTimestamp".into(), json!("2026-11-21T12:00:00Z"));
        }
        metadata.insert("resourceVersion".into(), json!(version));
        // A server adds many fields. `managedFields` represents the fields that a reader must
        // ignore.
        metadata.insert("managedFields".into(), Value::Array(managed));
        for field in ["firstTimestamp", "lastTimestamp"] {
            let whole = event[field].as_str().and_then(|text| text.split_once('.'));
            if let Some(whole) = whole.map(|(seconds, _)| format!("{seconds}Z")) {
                event[field] = json!(whole);
            }
        }
        self.events.insert(key(namespace, name), event.clone());
        Answer::new(code, event)
    }

    pub(crate) fn delete(&mut self, namespace: &str, name: &str) -> Answer {
        match self.events.remove(&key(namespace, name)) {
            Some(_) => Answer::new(200, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})),
            None => self.missing(namespace, name),
        }
    }

    fn missing(&self, namespace: &str, name: &str) -> Answer {
        if self.namespaces.contains_key(namespace) {
            status::not_found("events", name)
        } else {
            status::not_found("namespaces", namespace)
        }
    }

    pub(crate) fn create_namespace(&mut self, body: &[u8]) -> Answer {
        let namespace: Value = serde_json::from_slice(body).unwrap_or_default();
        let Some(name) = namespace["metadata"]["name"].as_str() else {
            return status::bad_request("no name");
        };
        if self.namespaces.contains_key(name) {
            return status::already_exists("namespaces", name);
        }
        self.namespaces.insert(name.to_owned(), false);
        self.namespace(name)
    }

    pub(crate) fn namespace(&self, name: &str) -> Answer {
        match self.namespaces.get(name) {
            Some(terminating) => {
                let phase = if *terminating { "Terminating" } else { "Active" };
                Answer::new(
                    200,
                    json!({
                        "kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name},
                        "status": {"phase": phase},
                    }),
                )
            }
            None => status::not_found("namespaces", name),
        }
    }

    /// Deletes a namespace in two calls. The first call marks it as terminating, as with a
    /// finalizer. The second call removes the namespace, but not its events.
    pub(crate) fn end_namespace(&mut self, name: &str) -> Answer {
        let answer = self.namespace(name);
        if self.namespaces.get(name) == Some(&true) {
            self.namespaces.remove(name);
        } else {
            self.namespaces.insert(name.to_owned(), true);
        }
        answer
    }

    pub(crate) fn put_object(&mut self, collection: &str, mut object: Value) -> Value {
        let version = self.next_version();
        object["metadata"]["resourceVersion"] = json!(version);
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.objects.entry(collection.to_owned()).or_default().insert(name, object.clone());
        json!({"collection": collection, "object": object})
    }

    /// Returns any other collection that was stored, or a "not found" response if there is none.
    pub(crate) fn objects(&self, collection: &str) -> Answer {
        match self.objects.get(collection) {
            Some(objects) => Answer::new(
                200,
                json!({
                    "kind": "List", "apiVersion": "v1",
                    "metadata": {"resourceVersion": self.version.to_string()},
                    "items": objects.values().collect::<Vec<_>>(),
                }),
            ),
            None => status::not_found("the path", collection),
        }
    }
}

fn key(namespace: &str, name: &str) -> (String, String) {
    (namespace.to_owned(), name.to_owned())
}

fn read(headers: &HeaderMap, body: &[u8], accepted: &str) -> Result<Value, Answer> {
    let content = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content != accepted {
        return Err(status::unsupported_media_type(accepted));
    }
    match serde_json::from_slice(body) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(status::bad_request("the object provided is unrecognized")),
        Err(error) => Err(status::bad_request(&error.to_string())),
    }
}

/// Checks the fields that must match the path, and fills in missing fields from the path.
fn prepare(namespace: &str, name: Option<&str>, event: &mut Value) -> Result<(), Answer> {
    for (field, allowed) in [("kind", "Event"), ("apiVersion", "v1")] {
        let given = event[field].as_str().unwrap_or(allowed);
        if given != allowed {
            return Err(status::bad_request(&format!("no kind {given} is registered here")));
        }
        event[field] = json!(allowed);
    }
    let metadata = &mut event["metadata"];
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    let given = metadata["namespace"].as_str().unwrap_or(namespace);
    if given != namespace {
        return Err(status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    metadata["namespace"] = json!(namespace);
    if name.is_some_and(|name| metadata["name"] != name) {
        return Err(status::bad_request("the name of the object does not match the name on the URL"));
    }
    let digits =
        event["eventTime"].as_str().map(|text| text.split_once('.').map_or(0, |(_, rest)| rest.len() - 1));
    if digits.is_some_and(|digits| digits != 6) {
        return Err(status::bad_request(&format!("parsing time {}: six digits", event["eventTime"])));
    }
    Ok(())
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// Validates an event according to core/v1's rules, which are lenient if the event has no event
/// time. Returns `None` if the event is valid.
fn invalid(namespace: &str, name: &str, event: &Value) -> Option<Answer> {
    if name.is_empty() {
        return Some(status::invalid(
            name,
            "metadata.name",
            "Required value: name or generateName is required",
        ));
    }
    if name.contains('/') {
        let why = format!("Invalid value: \"{name}\": may not contain '/'");
        return Some(status::invalid(name, "metadata.name", &why));
    }
    let object = text(&event["involvedObject"], "namespace");
    let is_timed = event["eventTime"].is_string();
    let is_here = match object {
        "" => namespace == "default" || (is_timed && namespace == "kube-system"),
        object => is_timed || object == namespace,
    };
    if !is_here {
        let why = format!("Invalid value: \"{object}\": does not match event.namespace");
        return Some(status::invalid(name, "involvedObject.namespace", &why));
    }
    if is_timed { invalid_with_time(name, event) } else { None }
}

fn invalid_with_time(name: &str, event: &Value) -> Option<Answer> {
    let controller = text(event, "reportingComponent");
    if !is_qualified(controller) {
        let why =
            format!("Invalid value: \"{controller}\": name part must consist of alphanumeric characters");
        let why = if controller.is_empty() { "Required value" } else { &why };
        return Some(status::invalid(name, "reportingController", why));
    }
    for field in ["reportingInstance", "action", "reason"] {
        let why = match text(event, field).len() {
            0 => "Required value",
            1..=MAX_TIMED_TEXT => continue,
            _ => "Invalid value: \"\": can have at most 128 characters",
        };
        return Some(status::invalid(name, field, why));
    }
    let is_long = text(event, "message").len() > MAX_TIMED_MESSAGE;
    let why = "Invalid value: \"\": can have at most 1024 characters";
    is_long.then(|| status::invalid(name, "message", why))
}

/// Returns whether a string is a qualified name as defined by apimachinery, which is either a name,
/// or a DNS subdomain followed by `/` and a name.
fn is_qualified(controller: &str) -> bool {
    let is_made_of = |text: &str, inner: fn(char) -> bool, end: fn(char) -> bool| {
        text.chars().all(inner) && text.starts_with(end) && text.ends_with(end)
    };
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label| is_made_of(label, |c| matches!(c, 'a'..='z' | '0'..='9' | '-'), is_end);
    let is_name = |name: &str| {
        name.len() <= 63
            && is_made_of(
                name,
                |c| c.is_ascii_alphanumeric() || "-_.".contains(c),
                |c| c.is_ascii_alphanumeric(),
            )
    };
    match controller.split('/').collect::<Vec<_>>()[..] {
        [name] => is_name(name),
        [prefix, name] => prefix.len() <= 253 && prefix.split('.').all(is_label) && is_name(name),
        _ => false,
    }
}

/// Applies a strategic merge patch, which is a plain merge for an event's fields.
fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (field, value) in patch {
                if value.is_null() {
                    target.remove(field);
                } else {
                    merge(target.entry(field.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (target, patch) => *target = patch.clone(),
    }
}
