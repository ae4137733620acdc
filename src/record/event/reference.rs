//! The object that an event is about, and the program that reports the event.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::text::Text;
use super::wire_fields;
use crate::escape::escape;

/// A reference to the object that an event is about. All fields may be empty.
///
/// A reference is shown as `kind/namespace/name`, without the parts that are empty, and with
/// control characters escaped.
///
/// # Examples
///
/// A type of yours can be the subject of events if it converts into a reference:
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
#[doc(alias = "GetReference")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", expecting = "a reference to an object, as a JSON object")]
#[non_exhaustive]
pub struct ObjectReference {
    /// The object's kind, such as `Pod`.
    #[serde(
        default,
        deserialize_with = "wire_fields::nullable",
        skip_serializing_if = "wire_fields::is_empty"
    )]
    pub kind: Text,
    /// The object's namespace. Empty for an object outside of namespaces.
    #[serde(
        default,
        deserialize_with = "wire_fields::nullable",
        skip_serializing_if = "wire_fields::is_empty"
    )]
    pub namespace: Text,
    /// The object's name.
    #[serde(
        default,
        deserialize_with = "wire_fields::nullable",
        skip_serializing_if = "wire_fields::is_empty"
    )]
    pub name: Text,
    /// The identifier that tells the object from earlier ones of the same name.
    #[serde(
        default,
        deserialize_with = "wire_fields::nullable",
        skip_serializing_if = "wire_fields::is_empty"
    )]
    pub uid: Text,
    /// The version of the object's kind, with the group before it if there is one: `v1`, `apps/v1`.
    #[serde(
        default,
        deserialize_with = "wire_fields::nullable",
        skip_serializing_if = "wire_fields::is_empty"
    )]
    pub api_version: Text,
    /// The version of the object at the time of the event.
    #[serde(
        default,
        deserialize_with = "wire_fields::nullable",
        skip_serializing_if = "wire_fields::is_empty"
    )]
    pub resource_version: Text,
    /// The part of the object that is meant, such as `spec.containers{web}`.
    #[serde(
        default,
        deserialize_with = "wire_fields::nullable",
        skip_serializing_if = "wire_fields::is_empty"
    )]
    pub field_path: Text,
}

impl ObjectReference {
    /// Creates a reference with a kind and a name.
    pub fn new(kind: impl Into<Text>, name: impl Into<Text>) -> Self {
        Self { kind: kind.into(), name: name.into(), ..Self::default() }
    }

    /// Sets the namespace.
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

/// The program that reports an event, and the machine that the program runs on. A text alone
/// converts into a source with this component and without a host.
///
/// # Examples
///
/// ```
/// use eventcast::EventSource;
///
/// let source = EventSource::from("kubelet").on_host("node-1");
/// assert_eq!((source.component.as_str(), source.host.as_str()), ("kubelet", "node-1"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", expecting = "a source, as a JSON object")]
#[non_exhaustive]
pub struct EventSource {
    /// The reporting program. A recorder also writes it to the event's `reporting_controller`.
    #[serde(
        default,
        deserialize_with = "wire_fields::nullable",
        skip_serializing_if = "wire_fields::is_empty"
    )]
    pub component: Text,
    /// The machine's name. A recorder also writes it to the event's `reporting_instance`.
    #[serde(
        default,
        deserialize_with = "wire_fields::nullable",
        skip_serializing_if = "wire_fields::is_empty"
    )]
    pub host: Text,
}

impl EventSource {
    /// Sets the machine's name.
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
