//! The two APIs through which a server accepts the same events.

use eventcast::Event;

/// The API through which a sink writes events that have an event time. Events without an event time
/// are always written through core/v1, because events.k8s.io/v1 refuses them.
///
/// A server stores the same object for both APIs. The APIs differ in their validation and in the
/// role that they require. The role's API group is `""` for core/v1, and `events.k8s.io` for
/// events.k8s.io/v1.
///
/// # Examples
///
/// ```
/// use eventcast_kube::{EventsApi, KubernetesSink};
///
/// let config = kube::Config::new("http://127.0.0.1:1".parse()?);
/// let sink = KubernetesSink::new(config)?.api(EventsApi::Auto);
/// assert!(format!("{sink:?}").contains("api: Auto"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[doc(alias = "NewEventBroadcasterAdapter")]
pub enum EventsApi {
    /// core/v1, which every server supports.
    #[default]
    CoreV1,
    /// events.k8s.io/v1, which servers have supported since Kubernetes 1.19. Its validation is
    /// stricter.
    EventsV1,
    /// events.k8s.io/v1 if the server supports it, otherwise core/v1. Before the sink writes the
    /// first event with an event time, it asks the server whether events.k8s.io/v1 is supported.
    /// The sink repeats the request until a response shows whether this is the case.
    Auto,
}

/// The API that a request uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Core,
    Events,
}

impl Api {
    /// The path that a server serves if it supports events.k8s.io/v1.
    pub(crate) const DISCOVERY: &'static str = "/apis/events.k8s.io/v1";

    /// Returns the prefix of the paths of namespaced resources.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Core => "/api/v1",
            Self::Events => Self::DISCOVERY,
        }
    }

    /// Returns a complete event as this API's JSON document.
    pub(crate) fn document(self, event: &Event) -> Vec<u8> {
        match self {
            Self::Core => event.to_json(),
            Self::Events => event.to_events_v1_json(),
        }
        .into_bytes()
    }
}

/// Returns whether the choice of API applies to this event, which is the case if the event has an
/// event time and its count is zero. If so, a patch for the event consists only of the event's
/// series, which is the same in both APIs.
pub(crate) fn is_timed(event: &Event) -> bool {
    event.event_time().is_some() && event.count == 0
}
