//! The fields of log events and spans that the layer reads.

use std::fmt::Debug;

use eventcast::ObjectReference;
use tracing::field::{Field, Visit};

/// The values of the fields that the layer reads. A field without a value is `None`, although its
/// name may be declared. The layer keeps the fields of each span that may name an object.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) action: Option<String>,
    kind: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
}

impl Fields {
    /// Returns the object, or `None` if the kind or the name is missing or empty.
    pub(crate) fn object(&self) -> Option<ObjectReference> {
        let value = |field: &Option<String>| field.clone().filter(|value| !value.is_empty());
        let object = ObjectReference::new(value(&self.kind)?, value(&self.name)?);
        Some(match value(&self.namespace) {
            Some(namespace) => object.in_namespace(namespace),
            None => object,
        })
    }

    /// Replaces the parts of the object that have a value in `newer`.
    pub(crate) fn update_object(&mut self, newer: Self) {
        self.kind = newer.kind.or(self.kind.take());
        self.name = newer.name.or(self.name.take());
        self.namespace = newer.namespace.or(self.namespace.take());
    }

    fn set(&mut self, field: &Field, value: impl FnOnce() -> String) {
        let slot = match field.name() {
            "reason" => &mut self.reason,
            "message" => &mut self.message,
            "action" => &mut self.action,
            "object.kind" => &mut self.kind,
            "object.name" => &mut self.name,
            "object.namespace" => &mut self.namespace,
            _ => return,
        };
        *slot = Some(value());
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, || value.to_owned());
    }

    /// Receives every value that is not a string. A value passed with `%` or as an error is
    /// formatted with `Display`.
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.set(field, || format!("{value:?}"));
    }
}
