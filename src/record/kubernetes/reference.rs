//! References to Kubernetes objects.

use k8s_openapi::api::core::v1;
use kube::Resource;

use crate::record::event::{ObjectReference, Text};

/// Refers to any typed Kubernetes object, custom resources included. The reference has kind, API
/// version, name, namespace, uid and resource version, as client-go's `GetReference` sets them.
/// Feature `kube-5`.
///
/// # Examples
///
/// ```
/// use eventcast::ObjectReference;
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// let mut deployment = Deployment::default();
/// deployment.metadata.name = Some("web".to_owned());
/// deployment.metadata.namespace = Some("shop".to_owned());
/// let reference = ObjectReference::from(&deployment);
/// assert_eq!(reference.to_string(), "Deployment/shop/web");
/// assert_eq!(reference.api_version, "apps/v1");
/// ```
impl<K: Resource<DynamicType = ()>> From<&K> for ObjectReference {
    fn from(object: &K) -> Self {
        let meta = object.meta();
        let text = |value: &Option<String>| value.as_deref().map_or(Text::EMPTY, Text::copied);
        Self {
            kind: K::kind(&()).into(),
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            uid: text(&meta.uid),
            api_version: K::api_version(&()).into(),
            resource_version: text(&meta.resource_version),
            field_path: Text::EMPTY,
        }
    }
}

/// Converts a reference of `k8s_openapi`, such as `object.object_ref(&api_resource)` returns for a
/// dynamic object. Feature `kube-5`.
///
/// # Examples
///
/// ```
/// use eventcast::ObjectReference;
/// use kube::Resource;
/// use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
///
/// let widgets = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
/// let object = DynamicObject::new("gear", &widgets).within("shop");
/// let reference = ObjectReference::from(object.object_ref(&widgets));
/// assert_eq!(reference.to_string(), "Widget/shop/gear");
/// ```
impl From<v1::ObjectReference> for ObjectReference {
    fn from(reference: v1::ObjectReference) -> Self {
        let text = |value: Option<String>| value.map_or(Text::EMPTY, Text::from);
        Self {
            kind: text(reference.kind),
            namespace: text(reference.namespace),
            name: text(reference.name),
            uid: text(reference.uid),
            api_version: text(reference.api_version),
            resource_version: text(reference.resource_version),
            field_path: text(reference.field_path),
        }
    }
}
