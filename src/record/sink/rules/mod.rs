//! The rules of a Kubernetes API server for events (1.36), for a store that should respond like
//! one.
//!
//! [`MemorySink`](crate::MemorySink) follows these rules, and so does the `SqliteSink` of the crate
//! `eventcast-sqlite`. The functions here are all that your own store needs to do the same. A store
//! provides the lookup of a name, a number for each write, and the storage itself.
//!
//! | operation | the store calls | and then |
//! |---|---|---|
//! | `create` | [`Rules::check_new`], [`admit`], [`free_name`] if the event has only a `generateName` | returns [`already_exists`] if the name is taken. Otherwise sets the uid, creation time and resource version, whatever they were |
//! | `update` | [`check_named`], [`admit`], [`Rules::update`] | creates the event if it is not stored, or writes it if [`Rules::update`] returned true |
//! | `patch` | [`check_named`], [`Rules::patch`] | returns [`not_found`] if there is no such event, or writes it if [`Rules::patch`] returned true |
//!
//! Each write gives its event the store's next number as the resource version, and makes the event
//! expire after [`EVENT_TTL`], or after the store's own time to live. An operation that changes
//! nothing is not a write. An expired event counts as not stored.
//!
//! # Invalid events
//!
//! An event is invalid if it breaks one of these rules:
//!
//! - The event has a name, which does not contain `/` and is not `.` or `..`. A creation may have a
//!   `generateName` without `/` instead of a name.
//! - The event is in the namespace of its object, or in `default` if the object has none. An event
//!   with an event time may be about an object of another namespace, and in `kube-system` also
//!   about an object without a namespace.
//! - If the event has an event time: reason, action and reporting instance have 1 to 128 bytes, the
//!   message has at most 1024, and the reporting controller is a qualified name such as
//!   `example.com/controller`.
//!
//! With [`Rules::events_v1`], these rules of events.k8s.io/v1 also apply to an event that has an
//! event time:
//!
//! - Name and namespace of a new event are DNS subdomains of at most 253 bytes.
//! - Labels and the keys of annotations are qualified names. All annotations together have at most
//!   262,144 bytes.
//! - The type is `Normal` or `Warning`. Source, count, first and last time are unset.
//! - A series has a count of 2 or more, and a last observed time.
//! - An update changes series, labels and annotations only.
//!
//! A patch that changes the count is a patch of core/v1, so the rules of events.k8s.io/v1 do not
//! apply to it.
//!
//! # Examples
//!
//! A store that uses a table, complete except for expiry:
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::Mutex;
//! use std::time::SystemTime;
//!
//! use eventcast::sink::{SinkErrorKind, rules};
//! use eventcast::{Event, EventSink, SinkError, Text};
//!
//! #[derive(Default)]
//! struct Shelf(Mutex<Stock>);
//!
//! #[derive(Default)]
//! struct Stock {
//!     events: HashMap<(Text, Text), Event>,
//!     version: u64,
//! }
//!
//! fn key(event: &Event) -> (Text, Text) {
//!     (rules::namespace_of(event).into(), event.metadata.name.clone())
//! }
//!
//! impl Stock {
//!     fn insert(&mut self, mut event: Event) -> Event {
//!         event.metadata.set_uid(rules::uid(1, self.version + 1));
//!         event.metadata.set_creation_timestamp(Some(SystemTime::now().into()));
//!         self.write(event)
//!     }
//!
//!     fn write(&mut self, mut event: Event) -> Event {
//!         self.version += 1;
//!         event.metadata.set_resource_version(self.version.to_string());
//!         self.events.insert(key(&event), event.clone());
//!         event
//!     }
//! }
//!
//! impl EventSink for Shelf {
//!     fn create(&self, event: &Event) -> Result<Event, SinkError> {
//!         rules::Rules::new().check_new(event)?;
//!         let stock = &mut *self.0.lock().unwrap();
//!         let mut event = event.clone();
//!         rules::admit(&mut event);
//!         if event.metadata.name.is_empty() {
//!             let namespace = &event.metadata.namespace;
//!             let is_taken = |name: &str| {
//!                 Ok::<_, SinkError>(stock.events.contains_key(&(namespace.clone(), name.into())))
//!             };
//!             event.metadata.name =
//!                 rules::free_name(event.metadata.generate_name(), stock.version, is_taken)?;
//!         }
//!         match stock.events.get(&key(&event)) {
//!             Some(stored) => Err(rules::already_exists(&event).with_stored(stored.clone())),
//!             None => Ok(stock.insert(event)),
//!         }
//!     }
//!
//!     fn update(&self, event: &Event) -> Result<Event, SinkError> {
//!         rules::check_named(event)?;
//!         let stock = &mut *self.0.lock().unwrap();
//!         let mut event = event.clone();
//!         rules::admit(&mut event);
//!         let stored = stock.events.get(&key(&event));
//!         let is_new = stored.is_none();
//!         let is_write = rules::Rules::new().update(stored, &mut event)?;
//!         match (is_new, is_write) {
//!             (true, _) => Ok(stock.insert(event)),
//!             (false, true) => Ok(stock.write(event)),
//!             (false, false) => Ok(event),
//!         }
//!     }
//!
//!     fn patch(&self, event: &Event) -> Result<Event, SinkError> {
//!         rules::check_named(event)?;
//!         let stock = &mut *self.0.lock().unwrap();
//!         let stored = stock.events.get(&key(event)).cloned();
//!         let mut stored = stored.ok_or_else(|| rules::not_found(event))?;
//!         let is_write = rules::Rules::new().patch(&mut stored, event)?;
//!         Ok(if is_write { stock.write(stored) } else { stored })
//!     }
//! }
//!
//! let shelf = Shelf::default();
//! let mut event = Event::default();
//! assert_eq!(shelf.create(&event).unwrap_err().kind(), SinkErrorKind::Rejected);
//! event.metadata.set_generate_name("web-0.");
//! let mut stored = shelf.create(&event)?;
//! assert_eq!(stored.metadata.name, "web-0.00001");
//! stored.count = 2;
//! assert_eq!(shelf.patch(&stored)?.metadata.resource_version(), "2");
//! assert_eq!(shelf.patch(&stored)?.metadata.resource_version(), "2", "nothing has changed");
//! assert_eq!(shelf.update(&stored).unwrap_err().kind(), SinkErrorKind::Rejected, "another version");
//! # Ok::<(), SinkError>(())
//! ```

mod core_v1;
mod events_v1;

use std::time::Duration;

use crate::escape::escape;
use crate::record::event::{Event, Text, Timestamp, changed_series, name};

use super::error::{SinkError, SinkErrorKind};

use core_v1::{check, described, trunc_to_second, whole_series};

pub use core_v1::{admit, namespace_of};

/// How long an API server keeps an event after its last write, unless its operator sets another
/// time (`--event-ttl`): one hour.
pub const EVENT_TTL: Duration = Duration::from_secs(3600);

/// The rules that a store follows: the rules for every event and, if enabled, the rules of
/// events.k8s.io/v1.
///
/// # Examples
///
/// ```
/// use eventcast::sink::rules::Rules;
/// use eventcast::{Event, Timestamp};
///
/// let mut event = Event::default();
/// event.metadata.name = "Not_A_Subdomain".into();
/// event.reason = "Started".into();
/// event.set_action("Start");
/// event.set_event_time(Timestamp::UNIX_EPOCH);
/// (event.reporting_controller, event.reporting_instance) = ("doc".into(), "doc-1".into());
/// assert!(Rules::new().check_new(&event).is_ok());
/// let error = Rules::new().events_v1(true).check_new(&event).unwrap_err();
/// assert!(error.to_string().contains("the name must be a DNS subdomain"), "{error}");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    has_events_v1: bool,
}

impl Rules {
    /// Returns the rules for every event, which are the rules of core/v1.
    pub const fn new() -> Self {
        Self { has_events_v1: false }
    }

    /// Sets whether an event with an event time must also satisfy the rules of events.k8s.io/v1.
    /// Default false.
    #[must_use]
    pub const fn events_v1(self, applies: bool) -> Self {
        Self { has_events_v1: applies }
    }

    /// Checks an event that is to be created.
    ///
    /// # Errors
    ///
    /// Returns [`SinkError::rejected`] with the first rule that the event breaks.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Event;
    /// use eventcast::sink::rules::Rules;
    ///
    /// let mut event = Event::default();
    /// let error = Rules::new().check_new(&event).unwrap_err();
    /// assert!(error.to_string().ends_with(r#"events "" in namespace default is invalid: a name is required"#));
    /// event.metadata.set_generate_name("web-0.");
    /// assert!(Rules::new().check_new(&event).is_ok());
    /// ```
    pub fn check_new(self, event: &Event) -> Result<(), SinkError> {
        check(event, true)?;
        self.check_new_strictly(event)
    }

    /// Prepares an update: decides whether `new` may replace the stored event, and copies the
    /// values that an update does not change into `new`: uid, creation time and resource version.
    /// `stored` is `None` if there is no event with this name. The update then creates the event.
    ///
    /// `new` must have passed [`check_named`] and [`admit`]. Returns whether the store has to write
    /// `new`, which is false if it equals the stored event.
    ///
    /// # Errors
    ///
    /// Returns [`SinkError::rejected`] if `new` has a different resource version from the stored
    /// event, or changes an event in a way that events.k8s.io/v1 does not allow. An update without
    /// a resource version replaces any version.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Event;
    /// use eventcast::sink::rules::Rules;
    ///
    /// let mut stored = Event::default();
    /// stored.metadata.set_uid("7f3a");
    /// stored.metadata.set_resource_version("12");
    ///
    /// let mut new = Event::default();
    /// assert!(!Rules::new().update(Some(&stored), &mut new)?, "the same event");
    /// assert_eq!(new, stored);
    /// new.message = "restarting".into();
    /// assert!(Rules::new().update(Some(&stored), &mut new)?);
    /// new.metadata.set_resource_version("11");
    /// assert!(Rules::new().update(Some(&stored), &mut new).is_err(), "based on an older version");
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    pub fn update(self, stored: Option<&Event>, new: &mut Event) -> Result<bool, SinkError> {
        let Some(old) = stored else {
            self.check_new_strictly(new)?;
            return Ok(true);
        };
        let (given, version) = (new.metadata.resource_version(), old.metadata.resource_version());
        if !given.is_empty() && given != version {
            let cause = format!("{} has been changed since version {}", described(new), escape(given));
            return Err(SinkError::rejected(cause));
        }
        new.metadata.set_uid(old.metadata.uid());
        new.metadata.set_creation_timestamp(old.metadata.creation_timestamp());
        new.metadata.set_resource_version(version);
        if self.has_events_v1 {
            events_v1::check_change(old, new)?;
        }
        Ok(new != old)
    }

    /// Applies a patch to the stored event with the same name. `patch` is the event as it should be
    /// after the patch, as [`EventSink::patch`](crate::EventSink::patch) receives it, and must have
    /// passed [`check_named`]. Returns whether the stored event has changed and has to be written.
    ///
    /// The patch changes what [`Event::to_patch_json`] returns: the series of an
    /// event that has an event time and no count, otherwise count, last time and message. A value
    /// that the patch leaves out (a count of 0, 1970-01-01T00:00:00Z, an empty message) stays
    /// unchanged.
    ///
    /// # Errors
    ///
    /// Returns [`SinkError::rejected`] if events.k8s.io/v1 does not allow the new series. The
    /// stored event is then unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Event;
    /// use eventcast::sink::rules::Rules;
    ///
    /// let mut stored = Event::default();
    /// (stored.count, stored.message) = (1, "restarting".into());
    /// let mut patch = Event::default();
    /// patch.count = 2;
    /// assert!(Rules::new().patch(&mut stored, &patch)?);
    /// assert_eq!((stored.count, &*stored.message), (2, "restarting"));
    /// assert!(!Rules::new().patch(&mut stored, &patch)?, "nothing is left to change");
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    pub fn patch(self, stored: &mut Event, patch: &Event) -> Result<bool, SinkError> {
        if let Some(series) = changed_series(patch).map(whole_series) {
            let is_write = stored.series() != Some(series);
            if is_write {
                if self.has_events_v1 {
                    events_v1::check_series(patch, series)?;
                }
                stored.set_series(series);
            }
            return Ok(is_write);
        }
        let count = if patch.count == 0 { stored.count } else { patch.count };
        let message = if patch.message.is_empty() { &stored.message } else { &patch.message };
        let last = match trunc_to_second(patch.last_timestamp) {
            Some(Timestamp::UNIX_EPOCH) => stored.last_timestamp,
            last => last,
        };
        let is_write = (count, message, last) != (stored.count, &stored.message, stored.last_timestamp);
        if is_write {
            (stored.message, stored.count, stored.last_timestamp) = (message.clone(), count, last);
        }
        Ok(is_write)
    }

    fn check_new_strictly(self, event: &Event) -> Result<(), SinkError> {
        if self.has_events_v1 { events_v1::check_new(event) } else { Ok(()) }
    }
}

/// Checks the event of an update or a patch. Unlike a new event, it must have a name.
///
/// # Errors
///
/// Returns [`SinkError::rejected`] with the first rule that the event breaks.
///
/// # Examples
///
/// ```
/// use eventcast::Event;
/// use eventcast::sink::rules;
///
/// let mut event = Event::default();
/// event.metadata.set_generate_name("web-0.");
/// assert!(rules::check_named(&event).is_err());
/// event.metadata.name = "web-0.1".into();
/// assert!(rules::check_named(&event).is_ok());
/// ```
pub fn check_named(event: &Event) -> Result<(), SinkError> {
    check(event, false)
}

/// Returns the error for a new event whose name is taken. A store adds the event that has the name
/// with [`SinkError::with_stored`].
///
/// # Examples
///
/// ```
/// use eventcast::Event;
/// use eventcast::sink::{SinkErrorKind, rules};
///
/// let mut event = Event::default();
/// event.metadata.name = "web-0.1".into();
/// let error = rules::already_exists(&event);
/// assert_eq!(error.kind(), SinkErrorKind::AlreadyExists);
/// assert!(error.to_string().ends_with(r#"events "web-0.1" in namespace default"#));
/// ```
pub fn already_exists(event: &Event) -> SinkError {
    SinkError::new(SinkErrorKind::AlreadyExists, described(event))
}

/// Returns the error for a patch of an event that is not stored.
///
/// # Examples
///
/// ```
/// use eventcast::Event;
/// use eventcast::sink::{SinkErrorKind, rules};
///
/// let mut event = Event::default();
/// event.metadata.name = "web-0.1".into();
/// assert_eq!(rules::not_found(&event).kind(), SinkErrorKind::NotFound);
/// ```
pub fn not_found(event: &Event) -> SinkError {
    SinkError::new(SinkErrorKind::NotFound, described(event))
}

/// Completes `generateName`: returns `beginning` followed by the first number above `version` for
/// which the name is not taken. `version` is the number of the store's last write.
///
/// # Errors
///
/// Returns the error of `is_taken`.
///
/// # Examples
///
/// ```
/// use eventcast::sink::rules;
/// use std::convert::Infallible;
///
/// let is_taken = |name: &str| Ok::<_, Infallible>(name == "web-0.00008");
/// assert_eq!(rules::free_name("web-0.", 7, is_taken)?, "web-0.00009");
/// # Ok::<(), Infallible>(())
/// ```
pub fn free_name<E>(
    beginning: &str,
    version: u64,
    mut is_taken: impl FnMut(&str) -> Result<bool, E>,
) -> Result<Text, E> {
    let mut number = version;
    loop {
        number += 1;
        let name = Text::from(format_args!("{beginning}{number:05x}"));
        if !is_taken(&name)? {
            return Ok(name);
        }
    }
}

/// Returns a uid in the form of a random UUID, for the `number`th event that a store has created.
/// `store` is a number for the store itself, such as the nanoseconds since 1970 when it was
/// created. A uid is therefore unique, and with a fake clock it is the same in every run.
///
/// # Examples
///
/// ```
/// use eventcast::sink::rules;
///
/// assert_eq!(rules::uid(0x17a6_5f3c_0d2e_1b49, 12), "17a65f3c-0d2e-41b4-8009-00000000000c");
/// ```
pub fn uid(store: u64, number: u64) -> Text {
    if number >> 48 > 0 {
        let (high, middle, low) = (store >> 32, store >> 16 & 0xFFFF, store >> 4 & 0xFFF);
        let last = store & 0xF;
        return Text::from(format_args!("{high:08x}-{middle:04x}-4{low:03x}-8{last:03x}-{number:x}"));
    }
    let mut uid = *b"________-____-4___-8___-____________";
    for (digits, bits) in [
        (0..8, store >> 32),
        (9..13, store >> 16),
        (15..18, store >> 4),
        (20..23, store & 0xF),
        (24..36, number),
    ] {
        name::write_hex(bits, &mut uid[digits]);
    }
    // The default is never used: the digits are ASCII.
    Text::copied(std::str::from_utf8(&uid).unwrap_or_default())
}
