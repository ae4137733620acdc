//! Types for the object that an event is about, and for the program that reports the event.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::text::Text;
use super::wire_fields;
use crate::error::ParseError;
use crate::escape::{escape, needs_escape};
use crate::serde_object::object_only;

/// A reference to the object that an event is about. All fields may be empty.
///
/// A reference is displayed as `kind/namespace/name`. Empty parts are omitted, and control
/// characters are escaped.
///
/// # Examples
///
/// To record events about your own type, implement a conversion into a reference:
///
/// ```
/// use eventcast::ObjectReference;
///
/// struct Device { serial: String }
///
/// impl From<&Device> for ObjectReference {
///     fn from(device: &Device) -> Self {
///         let mut reference = ObjectReference::new("Device", device.serial.clone());
///         reference.api_version = "factory/v1".into();
///         reference
///     }
/// }
///
/// let reference = ObjectReference::from(&Device { serial: "a-17".to_owned() });
/// assert_eq!(reference.in_namespace("hall-2").to_string(), "Device/hall-2/a-17");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ObjectReference {
    /// The object's kind, such as `Pod`.
    #[serde(skip_serializing_if = "wire_fields::is_empty")]
    pub kind: Text,
    /// The object's namespace, or an empty string if the object has no namespace.
    #[serde(skip_serializing_if = "wire_fields::is_empty")]
    pub namespace: Text,
    /// The object's name.
    #[serde(skip_serializing_if = "wire_fields::is_empty")]
    pub name: Text,
    /// The identifier that distinguishes the object from earlier objects with the same name.
    #[serde(skip_serializing_if = "wire_fields::is_empty")]
    pub uid: Text,
    /// The API version of the object, including the API group if there is one, such as `v1` or
    /// `apps/v1`.
    #[serde(skip_serializing_if = "wire_fields::is_empty")]
    pub api_version: Text,
    /// The version of the object at the time of the event.
    #[serde(skip_serializing_if = "wire_fields::is_empty")]
    pub resource_version: Text,
    /// The part of the object that the event is about, such as `spec.containers{web}`.
    #[serde(skip_serializing_if = "wire_fields::is_empty")]
    pub field_path: Text,
}

/// The fields that `serde` reads for [`ObjectReference`].
#[derive(Deserialize)]
#[serde(
    remote = "ObjectReference",
    default = "ObjectReference::default",
    rename_all = "camelCase",
    expecting = "a reference to an object, as a JSON object"
)]
struct ObjectReferenceObject {
    #[serde(deserialize_with = "wire_fields::nullable")]
    kind: Text,
    #[serde(deserialize_with = "wire_fields::nullable")]
    namespace: Text,
    #[serde(deserialize_with = "wire_fields::nullable")]
    name: Text,
    #[serde(deserialize_with = "wire_fields::nullable")]
    uid: Text,
    #[serde(deserialize_with = "wire_fields::nullable")]
    api_version: Text,
    #[serde(deserialize_with = "wire_fields::nullable")]
    resource_version: Text,
    #[serde(deserialize_with = "wire_fields::nullable")]
    field_path: Text,
}

object_only!(ObjectReference, ObjectReferenceObject);

impl ObjectReference {
    /// Creates a reference with a kind and a name.
    pub fn new(kind: impl Into<Text>, name: impl Into<Text>) -> Self {
        Self { kind: kind.into(), name: name.into(), ..Self::default() }
    }

    /// Sets the namespace.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::ObjectReference;
    ///
    /// let node = ObjectReference::new("Node", "node-1");
    /// assert_eq!(node.to_string(), "Node/node-1");
    /// let pod = ObjectReference::new("Pod", "web-0").in_namespace("shop");
    /// assert_eq!(pod.to_string(), "Pod/shop/web-0");
    /// ```
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<Text>) -> Self {
        self.namespace = namespace.into();
        self
    }
}

impl From<&ObjectReference> for ObjectReference {
    fn from(reference: &ObjectReference) -> Self {
        reference.clone()
    }
}

/// Creates a reference from a kind and a name, like [`ObjectReference::new`].
///
/// # Examples
///
/// ```
/// use eventcast::ObjectReference;
///
/// assert_eq!(ObjectReference::from(("Job", "backup")), ObjectReference::new("Job", "backup"));
/// ```
impl<K: Into<Text>, N: Into<Text>> From<(K, N)> for ObjectReference {
    fn from((kind, name): (K, N)) -> Self {
        Self::new(kind, name)
    }
}

impl fmt::Display for ObjectReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut slash = "";
        for part in [&self.kind, &self.namespace, &self.name] {
            if !part.is_empty() {
                write!(f, "{slash}{}", escape(part))?;
                slash = "/";
            }
        }
        Ok(())
    }
}

/// Parses `Kind/name` or `Kind/namespace/name`, the format in which a reference is displayed.
///
/// If a reference is parsed from a string, it is displayed as the same string. Conversely, a
/// displayed reference parses back to the same reference if all of the following conditions hold:
///
/// - The reference has a kind and a name.
/// - The reference's kind, namespace and name do not contain a slash, a backslash or a character
///   that is escaped for display.
/// - The fields that are not displayed are empty.
///
/// The format cannot distinguish a slash in the name from the slash before the name. For example,
/// `Disk/dev/sda` is parsed as the disk `sda` in the namespace `dev`.
///
/// # Errors
///
/// Returns an error if the string does not have two or three parts, if a part is empty, or if a
/// part contains a backslash or a character that is escaped for display. A backslash is ambiguous,
/// because it could either begin an escape sequence or be part of the name.
///
/// # Examples
///
/// ```
/// use eventcast::ObjectReference;
///
/// let pod: ObjectReference = "Pod/shop/web-0".parse()?;
/// assert_eq!(pod, ObjectReference::new("Pod", "web-0").in_namespace("shop"));
/// assert_eq!("Node/n1".parse(), Ok(ObjectReference::new("Node", "n1")));
/// let error = "Pod/\u{1b}[2J".parse::<ObjectReference>().unwrap_err();
/// assert!(error.to_string().starts_with(r"invalid reference `Pod/\u{1b}[2J`: expected Kind/name"));
/// # Ok::<(), eventcast::error::ParseError>(())
/// ```
impl FromStr for ObjectReference {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse(text).ok_or_else(|| {
            let expected = "Kind/name or Kind/namespace/name, such as Pod/default/web-0";
            ParseError::new(format!("invalid reference `{:.64}`: expected {expected}", escape(text)))
        })
    }
}

fn parse(text: &str) -> Option<ObjectReference> {
    let (kind, rest) = text.split_once('/')?;
    let (namespace, name) = match rest.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, rest),
    };
    let is_plain =
        |part: &str| !part.is_empty() && !part.contains(|c| matches!(c, '/' | '\\') || needs_escape(c));
    let is_read = is_plain(kind) && namespace.is_none_or(is_plain) && is_plain(name);
    is_read.then(|| ObjectReference::new(kind, name).in_namespace(namespace.unwrap_or_default()))
}

/// The program that reports an event, and the machine on which that program runs. A plain string
/// converts into a source that has the string as its component and no host.
///
/// # Examples
///
/// ```
/// use eventcast::EventSource;
///
/// let source = EventSource::from("kubelet").on_host("node-1");
/// assert_eq!((source.component.as_str(), source.host.as_str()), ("kubelet", "node-1"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EventSource {
    /// The reporting program. A recorder also copies this field to the event's
    /// `reporting_controller`.
    #[serde(skip_serializing_if = "wire_fields::is_empty")]
    pub component: Text,
    /// The machine's name. A recorder also copies this field to the event's `reporting_instance`.
    #[serde(skip_serializing_if = "wire_fields::is_empty")]
    pub host: Text,
}

/// The fields that `serde` reads for [`EventSource`].
#[derive(Deserialize)]
#[serde(
    remote = "EventSource",
    default = "EventSource::default",
    rename_all = "camelCase",
    expecting = "a source, as a JSON object"
)]
struct EventSourceObject {
    #[serde(deserialize_with = "wire_fields::nullable")]
    component: Text,
    #[serde(deserialize_with = "wire_fields::nullable")]
    host: Text,
}

object_only!(EventSource, EventSourceObject);

impl EventSource {
    /// Sets the machine's name.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeRecorder;
    /// use eventcast::{EventSource, ObjectReference};
    ///
    /// let fake = FakeRecorder::new(1);
    /// let recorder = fake.recorder(EventSource::from("kubelet").on_host("node-1"));
    /// recorder.normal(ObjectReference::new("Pod", "web-0"), "Started", "up");
    /// assert_eq!(fake.take()[0].reporting_instance, "node-1");
    /// ```
    #[must_use]
    pub fn on_host(mut self, host: impl Into<Text>) -> Self {
        self.host = host.into();
        self
    }
}

impl<T: Into<Text>> From<T> for EventSource {
    fn from(component: T) -> Self {
        Self { component: component.into(), host: Text::EMPTY }
    }
}
