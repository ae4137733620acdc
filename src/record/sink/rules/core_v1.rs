//! The rules that apply to every event, and the form in which a server stores an event.

use crate::escape::escape;
use crate::record::event::timed::{self, MAX_TIMED_MESSAGE, MAX_TIMED_TEXT, is_qualified};
use crate::record::event::{Event, EventSeries, Text, Timestamp};
use crate::record::sink::error::SinkError;

/// Describes an event for use in an error message, for example about a missing or an invalid event.
pub(super) fn described(event: &Event) -> String {
    format!("events \"{}\" in namespace {}", escape(&event.metadata.name), escape(namespace_of(event)))
}

/// Returns the namespace in which the event is, or would be, stored. If the event has its own
/// namespace, that namespace is returned. Otherwise, the object's namespace is returned, or
/// `default` if the object has no namespace.
///
/// # Examples
///
/// ```
/// use eventcast::Event;
/// use eventcast::sink::rules;
///
/// let mut event = Event::default();
/// assert_eq!(rules::namespace_of(&event), "default");
/// event.involved_object.namespace = "shop".into();
/// assert_eq!(rules::namespace_of(&event), "shop");
/// event.metadata.namespace = "kube-system".into();
/// assert_eq!(rules::namespace_of(&event), "kube-system");
/// ```
pub fn namespace_of(event: &Event) -> &str {
    // client-go and the API server choose the namespace in the same way.
    match (event.metadata.namespace.as_str(), event.involved_object.namespace.as_str()) {
        ("", "") => "default",
        ("", namespace) | (namespace, _) => namespace,
    }
}

/// Returns `Ok` if the event can be stored, and otherwise an error that describes why the event
/// cannot be stored. If `can_be_named` is true, the event may have a `generateName` instead of a
/// name.
pub(super) fn check(event: &Event, can_be_named: bool) -> Result<(), SinkError> {
    let name = event.metadata.name.as_str();
    let is_timed = set(event.event_time()).is_some();
    let wrong = if name.is_empty() {
        match event.metadata.generate_name().as_str() {
            beginning if !can_be_named || beginning.is_empty() => Some("a name is required"),
            beginning if beginning.contains('/') => Some("the name cannot be used in a URL path"),
            _ => None,
        }
    } else {
        (name.contains('/') || [".", ".."].contains(&name)).then_some("the name cannot be used in a URL path")
    };
    let wrong = wrong.or_else(|| {
        is_elsewhere(event, is_timed).then_some("the object is in another namespace than the event")
    });
    let wrong = wrong.map(str::to_owned);
    match wrong.or_else(|| if is_timed { wrong_if_timed(event) } else { None }) {
        None => Ok(()),
        Some(wrong) => Err(invalid(event, &wrong)),
    }
}

/// Returns the error for an event that violates a rule.
pub(super) fn invalid(event: &Event, wrong: &str) -> SinkError {
    SinkError::rejected(format!("{} is invalid: {wrong}", described(event)))
}

/// Returns whether an API server would reject the event because of its namespace.
///
/// - If the object has no namespace, the event must be in `default`. An event with an event time
///   may also be in `kube-system`.
/// - If the object has a namespace, the event must be in the same namespace. An event with an event
///   time may be in any namespace.
fn is_elsewhere(event: &Event, is_timed: bool) -> bool {
    let namespace = namespace_of(event);
    match event.involved_object.namespace.as_str() {
        "" => namespace != "default" && !(is_timed && namespace == "kube-system"),
        object => !is_timed && namespace != object,
    }
}

fn wrong_if_timed(event: &Event) -> Option<String> {
    let controller = event.reporting_controller.as_str();
    if !is_qualified(controller) {
        let controller = escape(controller);
        return Some(format!(
            "with an event time the reporting controller must be a qualified name, got \"{controller:.100}\""
        ));
    }
    let bounds = [
        ("reporting instance", &event.reporting_instance, 1, MAX_TIMED_TEXT),
        ("action", event.action(), 1, MAX_TIMED_TEXT),
        ("reason", &event.reason, 1, MAX_TIMED_TEXT),
        ("message", &event.message, 0, MAX_TIMED_MESSAGE),
    ];
    let wrong = bounds.into_iter().find(|(_, text, min, max)| !(*min..=*max).contains(&text.len()));
    wrong.map(|(what, text, min, max)| {
        format!("with an event time the {what} must be {min} to {max} bytes, got {}", text.len())
    })
}

/// Converts a validated event to the form in which a server stores events. If the event has no
/// namespace, sets the [namespace](namespace_of). Truncates the first and last time to whole
/// seconds, and truncates the event time and the series' time to microseconds. A time that equals
/// Go's zero time becomes unset.
///
/// # Examples
///
/// ```
/// use eventcast::Event;
/// use eventcast::sink::rules;
///
/// let mut event = Event::default();
/// event.last_timestamp = Some("2024-01-02T03:04:05.9Z".parse()?);
/// event.set_event_time(Some("0001-01-01T00:00:00Z".parse()?));
/// rules::admit(&mut event);
/// assert_eq!(event.metadata.namespace, "default");
/// assert_eq!(event.last_timestamp, Some("2024-01-02T03:04:05Z".parse()?));
/// assert_eq!(event.event_time(), None);
/// # Ok::<(), eventcast::error::ParseError>(())
/// ```
pub fn admit(event: &mut Event) {
    if event.metadata.namespace.is_empty() {
        event.metadata.namespace = match &event.involved_object.namespace {
            none if none.is_empty() => Text::from_static("default"),
            namespace => namespace.clone(),
        };
    }
    event.first_timestamp = trunc_to_second(event.first_timestamp);
    event.last_timestamp = trunc_to_second(event.last_timestamp);
    if let Some(at) = event.event_time() {
        event.set_event_time(whole_micros(at));
    }
    if let Some(series) = event.series() {
        event.set_series(whole_series(series));
    }
}

/// Converts a series to the form in which a server stores it.
pub(super) fn whole_series(mut series: EventSeries) -> EventSeries {
    series.last_observed_time = series.last_observed_time.and_then(whole_micros);
    series
}

/// Returns the time, or `None` if the time is represented as `null` in JSON. An API server also
/// treats such a time as unset.
pub(super) fn set(at: Option<Timestamp>) -> Option<Timestamp> {
    at.filter(|at| *at != Timestamp::GO_ZERO)
}

/// Truncates the time to whole seconds, which is the precision of most time fields in Kubernetes.
pub(super) fn trunc_to_second(at: Option<Timestamp>) -> Option<Timestamp> {
    set(at.map(Timestamp::trunc_to_second))
}

fn whole_micros(at: Timestamp) -> Option<Timestamp> {
    set(timed::whole_micros(at))
}
