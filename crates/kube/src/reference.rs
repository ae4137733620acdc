//! References to Kubernetes objects.

use eventcast::ObjectReference;
use k8s_openapi::api::core::v1;
use kube::Resource;

/// Creates references to Kubernetes objects, for use in events about these objects. These methods
/// are available on every type that implements kube's [`Resource`] trait, which includes the types
/// of k8s-openapi, custom resources, and kube's `PartialObjectMeta` and `DynamicObject`. The
/// methods can also be called on an [`Arc`](std::sync::Arc) of such an object.
///
/// A reference contains the object's kind, API version, name, namespace, uid and resource version,
/// like a reference from client-go's `GetReference`.
///
/// # Examples
///
/// ```
/// use eventcast::testing::FakeRecorder;
/// use eventcast_kube::EventRef;
/// use k8s_openapi::api::apps::v1::Deployment;
/// use std::sync::Arc;
///
/// let mut deployment = Deployment::default();
/// deployment.metadata.name = Some("web".to_owned());
/// deployment.metadata.namespace = Some("shop".to_owned());
/// // A reconciler gets its object in an `Arc`.
/// let deployment = Arc::new(deployment);
///
/// let fake = FakeRecorder::new(2);
/// let recorder = fake.recorder("tester");
/// recorder.normal(deployment.event_ref(), "Scaled", "to 3 replicas");
/// recorder.warning(deployment.event_ref(), "Stalled", format_args!("after {} s", 600));
/// let events = fake.take();
/// assert_eq!(events[0].involved_object.to_string(), "Deployment/shop/web");
/// assert_eq!(events[1].involved_object.api_version, "apps/v1");
/// ```
#[doc(alias = "GetReference")]
#[doc(alias = "GetPartialReference")]
#[doc(alias = "object_ref")]
pub trait EventRef: Resource {
    /// Returns a reference to this object, whose type determines its kind and API version.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast_kube::EventRef;
    /// use k8s_openapi::api::core::v1::Node;
    ///
    /// let mut node = Node::default();
    /// node.metadata.name = Some("node-1".to_owned());
    /// node.metadata.uid = Some("4711".to_owned());
    /// let reference = node.event_ref();
    /// assert_eq!((&*reference.kind, &*reference.api_version), ("Node", "v1"));
    /// assert_eq!((&*reference.name, &*reference.uid), ("node-1", "4711"));
    /// ```
    fn event_ref(&self) -> ObjectReference
    where
        Self: Resource<DynamicType = ()>,
    {
        self.event_ref_with(&())
    }

    /// Returns a reference to this object, with the kind and the API version taken from
    /// `dynamic_type`. For a dynamic object, whose type does not determine the kind and the API
    /// version, pass kube's `ApiResource`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast_kube::EventRef;
    /// use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
    ///
    /// let widgets = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    /// let object = DynamicObject::new("gear", &widgets).within("shop");
    /// let reference = object.event_ref_with(&widgets);
    /// assert_eq!(reference.to_string(), "Widget/shop/gear");
    /// assert_eq!(reference.api_version, "example.com/v1");
    /// ```
    fn event_ref_with(&self, dynamic_type: &Self::DynamicType) -> ObjectReference {
        let meta = self.meta();
        let mut reference =
            ObjectReference::new(&*Self::kind(dynamic_type), meta.name.as_deref().unwrap_or_default());
        reference.api_version = (&*Self::api_version(dynamic_type)).into();
        reference.namespace = meta.namespace.as_deref().unwrap_or_default().into();
        reference.uid = meta.uid.as_deref().unwrap_or_default().into();
        reference.resource_version = meta.resource_version.as_deref().unwrap_or_default().into();
        reference
    }
}

impl<K: Resource> EventRef for K {}

/// Converts a reference from `k8s_openapi`, such as a field of another object or the return value
/// of kube's `object_ref`.
///
/// # Examples
///
/// ```
/// use eventcast_kube::event_ref_from;
/// use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeSpec};
///
/// let claim = ObjectReference {
///     api_version: Some("v1".to_owned()),
///     kind: Some("PersistentVolumeClaim".to_owned()),
///     name: Some("data".to_owned()),
///     namespace: Some("shop".to_owned()),
///     ..ObjectReference::default()
/// };
/// let spec = PersistentVolumeSpec { claim_ref: Some(claim), ..PersistentVolumeSpec::default() };
/// let reference = spec.claim_ref.as_ref().map(event_ref_from).unwrap_or_default();
/// assert_eq!(reference.to_string(), "PersistentVolumeClaim/shop/data");
/// ```
pub fn event_ref_from(reference: &v1::ObjectReference) -> ObjectReference {
    let mut converted = ObjectReference::default();
    for (to, from) in [
        (&mut converted.kind, &reference.kind),
        (&mut converted.namespace, &reference.namespace),
        (&mut converted.name, &reference.name),
        (&mut converted.uid, &reference.uid),
        (&mut converted.api_version, &reference.api_version),
        (&mut converted.resource_version, &reference.resource_version),
        (&mut converted.field_path, &reference.field_path),
    ] {
        *to = from.as_deref().unwrap_or_default().into();
    }
    converted
}
