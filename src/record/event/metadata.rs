//! Defines the metadata of an event.

use std::collections::BTreeMap;

use super::text::Text;
use super::timestamp::Timestamp;

/// The event's own name and namespace, and the values added by a store.
///
/// These are the fields of Kubernetes' metadata that events use. Other fields (`managedFields`,
/// owners, finalizers) are discarded when an event is read. All values that a freshly recorded
/// event does not have, except the resource version, are held in one box, which is allocated only
/// when needed. [`Event`](super::Event) explains why.
///
/// # Examples
///
/// ```
/// use eventcast::event::ObjectMeta;
///
/// let mut metadata = ObjectMeta::default();
/// metadata.name = "web-0.17a6".into();
/// metadata.labels_mut().insert("team".into(), "blue".into());
/// metadata.set_uid("");
/// assert_eq!(metadata.labels()["team"], "blue");
/// assert_eq!(metadata.uid(), "");
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ObjectMeta {
    /// The event's name, which is unique within the namespace.
    pub name: Text,
    /// The namespace in which the event is stored.
    pub namespace: Text,
    /// Not in the box, because a recording sets it in each update of a stored event.
    pub(super) resource_version: Text,
    pub(super) rare: Option<Box<Rare>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rare {
    generate_name: Text,
    self_link: Text,
    uid: Text,
    creation_timestamp: Option<Timestamp>,
    labels: BTreeMap<Text, Text>,
    annotations: BTreeMap<Text, Text>,
}

impl Rare {
    const EMPTY: Self = Self {
        generate_name: Text::EMPTY,
        self_link: Text::EMPTY,
        uid: Text::EMPTY,
        creation_timestamp: None,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    };
}

static EMPTY: Rare = Rare::EMPTY;

impl ObjectMeta {
    fn rare(&self) -> &Rare {
        self.rare.as_deref().unwrap_or(&EMPTY)
    }

    fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_with(|| Box::new(Rare::EMPTY))
    }

    /// Sets a string field. Does not allocate the box just to hold an empty string.
    fn set(&mut self, text: Text, field: fn(&mut Rare) -> &mut Text) {
        if !text.is_empty() || self.rare.is_some() {
            *field(self.rare_mut()) = text;
        }
    }

    /// Returns the prefix from which the store should generate the event's name. The prefix is
    /// empty if the event has a name.
    pub fn generate_name(&self) -> &Text {
        &self.rare().generate_name
    }

    /// Sets [`generate_name`](Self::generate_name).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Event;
    ///
    /// let mut event = Event::default();
    /// event.metadata.set_generate_name("web-0.");
    /// assert_eq!(event.metadata.generate_name(), "web-0.");
    /// assert!(event.to_json().contains(r#"{"generateName":"web-0."}"#));
    /// ```
    pub fn set_generate_name(&mut self, generate_name: impl Into<Text>) {
        self.set(generate_name.into(), |rare| &mut rare.generate_name);
    }

    /// Returns the URL that was assigned to the stored event by an old API server.
    pub fn self_link(&self) -> &Text {
        &self.rare().self_link
    }

    /// Sets [`self_link`](Self::self_link).
    pub fn set_self_link(&mut self, self_link: impl Into<Text>) {
        self.set(self_link.into(), |rare| &mut rare.self_link);
    }

    /// Returns the identifier that the store assigned to this event.
    pub fn uid(&self) -> &Text {
        &self.rare().uid
    }

    /// Sets [`uid`](Self::uid).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::event::ObjectMeta;
    ///
    /// let mut metadata = ObjectMeta::default();
    /// metadata.set_uid("7f3a");
    /// metadata.set_resource_version("12");
    /// metadata.set_self_link("/api/v1/namespaces/default/events/web-0.17a6");
    /// assert_eq!((metadata.uid().as_str(), metadata.resource_version().as_str()), ("7f3a", "12"));
    /// assert!(metadata.self_link().ends_with("/web-0.17a6"));
    /// ```
    pub fn set_uid(&mut self, uid: impl Into<Text>) {
        self.set(uid.into(), |rare| &mut rare.uid);
    }

    /// Returns the version that the store assigned to this event. Every write changes the version.
    pub fn resource_version(&self) -> &Text {
        &self.resource_version
    }

    /// Sets [`resource_version`](Self::resource_version).
    pub fn set_resource_version(&mut self, resource_version: impl Into<Text>) {
        self.resource_version = resource_version.into();
    }

    /// Returns the time when the event was first stored, in whole seconds. Returns `None` if this
    /// time is not set.
    pub fn creation_timestamp(&self) -> Option<Timestamp> {
        self.rare().creation_timestamp
    }

    /// Sets [`creation_timestamp`](Self::creation_timestamp).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Event;
    ///
    /// let mut event = Event::default();
    /// event.metadata.set_creation_timestamp(Some("2024-01-31T08:15:00.9Z".parse()?));
    /// assert!(event.to_json().contains(r#""creationTimestamp":"2024-01-31T08:15:00Z""#));
    /// event.metadata.set_creation_timestamp(None);
    /// assert_eq!(event, Event::default());
    /// # Ok::<(), eventcast::error::ParseError>(())
    /// ```
    pub fn set_creation_timestamp(&mut self, at: impl Into<Option<Timestamp>>) {
        let at = at.into();
        if at.is_some() || self.rare.is_some() {
            self.rare_mut().creation_timestamp = at;
        }
    }

    /// Returns the labels, which can be used to query a store.
    pub fn labels(&self) -> &BTreeMap<Text, Text> {
        &self.rare().labels
    }

    /// Returns a mutable reference to the labels.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::event::ObjectMeta;
    ///
    /// let mut metadata = ObjectMeta::default();
    /// metadata.labels_mut().insert("team".into(), "blue".into());
    /// assert_eq!(metadata.labels().get("team").map(|team| team.as_str()), Some("blue"));
    /// metadata.labels_mut().clear();
    /// assert_eq!(metadata, ObjectMeta::default());
    /// ```
    pub fn labels_mut(&mut self) -> &mut BTreeMap<Text, Text> {
        &mut self.rare_mut().labels
    }

    /// Returns the annotations, which hold arbitrary data that is worth storing with the event.
    pub fn annotations(&self) -> &BTreeMap<Text, Text> {
        &self.rare().annotations
    }

    /// Returns a mutable reference to the annotations.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::event::ObjectMeta;
    ///
    /// let mut metadata = ObjectMeta::default();
    /// metadata.annotations_mut().insert("pid".into(), "17".into());
    /// assert_eq!(metadata.annotations()["pid"], "17");
    /// assert!(metadata.labels().is_empty());
    /// ```
    pub fn annotations_mut(&mut self) -> &mut BTreeMap<Text, Text> {
        &mut self.rare_mut().annotations
    }
}

/// Compares the contents, so an empty box is equal to a missing box.
impl PartialEq for ObjectMeta {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.namespace == other.namespace
            && self.resource_version == other.resource_version
            && self.rare() == other.rare()
    }
}
