//! The rules that a Kubernetes API server (1.36) applies to events. A store can use these rules in
//! order to respond like an API server.
//!
//! [`MemorySink`](crate::MemorySink) follows these rules, and so does the `SqliteSink` in the
//! `eventcast-sqlite` crate. A custom store can follow the rules by using the functions in this
//! module. The store itself only needs to look up names, number its writes, and store the events.
//!
//! | operation | the store calls | and then |
//! |---|---|---|
//! | `create` | [`Rules::check_new`], [`admit`], [`free_name`] if the event has only a `generateName` | returns [`already_exists`] if the name is taken. Otherwise sets the uid, creation time and resource version, regardless of their previous values |
//! | `update` | [`check_named`], [`admit`], [`Rules::update`] | creates the event if it is not stored, or writes it if [`Rules::update`] returned true |
//! | `patch` | [`check_named`], [`Rules::patch`] | returns [`not_found`] if there is no such event, or writes it if [`Rules::patch`] returned true |
//!
//! Each write sets the event's resource version to the store's next number. After the write, the
//! event expires after [`EVENT_TTL`], or after the store's own time to live. If an operation does
//! not change the event, it does not count as a write. An expired event is treated as not stored.
//!
//! # Invalid events
//!
//! An event is invalid if it violates one of the following rules:
//!
//! - The event must have a name, which must not contain `/` and must not be `.` or `..`. A new
//!   event may have a `generateName` instead, which must not contain `/`.
//! - The event must be in its object's namespace, or in `default` if the object has no namespace.
//!   If the event has an event time, its object may be in a different namespace. If the event has
//!   an event time and is in `kube-system`, its object may also have no namespace.
//! - If the event has an event time, its reason, action and reporting instance must each be 1 to
//!   128 bytes long, its message must be at most 1024 bytes long, and its reporting controller must
//!   be a qualified name such as `example.com/controller`.
//!
//! If [`Rules::events_v1`] is enabled, an event with an event time must also satisfy the following
//! rules of events.k8s.io/v1:
//!
//! - The name and namespace of a new event must be DNS subdomains of at most 253 bytes.
//! - Labels and annotation keys must be qualified names. The total size of all annotations must be
//!   at most 262,144 bytes.
//! - The type must be `Normal` or `Warning`. The source, count, first time and last time must be
//!   unset.
//! - A series must have a count of at least 2 and a last observed time.
//! - An update may change only the series, labels and annotations.
//!
//! The rules of events.k8s.io/v1 do not apply to a patch that changes the count, because such a
//! patch is a core/v1 patch.
//!
//! # Examples
//!
//! The following store keeps its events in a hash map. The store is complete except for expiry:
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

/// The time for which an API server keeps an event after its last write. This is one hour, unless
/// the server's operator sets a different time (`--event-ttl`).
pub const EVENT_TTL: Duration = Duration::from_secs(3600);

/// The set of rules that a store follows. The set consists of the rules for every event and, if
/// enabled, the rules of events.k8s.io/v1.
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
    /// Returns only the rules that apply to every event, which are the rules of core/v1.
    pub const fn new() -> Self {
        Self { has_events_v1: false }
    }

    /// Sets whether an event with an event time must also satisfy the rules of events.k8s.io/v1.
    /// Defaults to `false`.
    #[must_use]
    pub const fn events_v1(self, applies: bool) -> Self {
        Self { has_events_v1: applies }
    }

    /// Validates a new event.
    ///
    /// # Errors
    ///
    /// Returns [`SinkError::rejected`], naming the first rule that the event breaks.
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

    /// Prepares an update by checking whether `new` may replace the stored event. Copies the values
    /// that an update does not change (uid, creation time and resource version) into `new`. If no
    /// event with this name is stored, the caller must pass `None` as `stored`. In this case, the
    /// update creates the event.
    ///
    /// The caller must already have passed `new` to [`check_named`] and [`admit`]. Returns whether
    /// the store has to write `new`. The result is `false` if `new` equals the stored event.
    ///
    /// # Errors
    ///
    /// Returns [`SinkError::rejected`] if `new` has a different resource version from the stored
    /// event, or if the update breaks a rule of events.k8s.io/v1 and these rules are enabled. If
    /// the update does not specify a resource version, it replaces any version.
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

    /// Applies a patch to the stored event with the same name. `patch` is the event in the state
    /// that it should have after the patch, as passed to
    /// [`EventSink::patch`](crate::EventSink::patch). The caller must already have validated
    /// `patch` with [`check_named`]. Returns whether the stored event has changed and must be
    /// written.
    ///
    /// The patch changes the fields in the JSON that [`Event::to_patch_json`] returns. If `patch`
    /// has an event time and a series but no count, only the series is changed. Otherwise, the
    /// count, last time and message are changed. If a field is omitted from the patch (a count of
    /// 0, a time of 1970-01-01T00:00:00Z, or an empty message), the field remains unchanged.
    ///
    /// # Errors
    ///
    /// Returns [`SinkError::rejected`] if the rules of events.k8s.io/v1 are enabled and do not
    /// allow the new series. In this case, the stored event remains unchanged.
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

/// Validates the event in an update or a patch. Unlike a new event, the event must already have a
/// name.
///
/// # Errors
///
/// Returns [`SinkError::rejected`], naming the first rule that the event breaks.
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

/// Returns the error for a new event whose name is already taken. The store should attach the event
/// that has the name by calling [`SinkError::with_stored`].
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

/// Returns the error for a patch to an event that is not stored.
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

/// Generates a name from a `generateName`. Returns `beginning` followed by the first number above
/// `version` for which the name is not already taken. `version` is the number of the store's last
/// write.
///
/// # Errors
///
/// Returns the error from `is_taken`.
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

/// Returns a uid in the form of a random UUID for the `number`th event that a store has created.
/// `store` is a number that identifies the store, such as the store's creation time in nanoseconds
/// since 1970. The uid is therefore unique. If a fake clock is used, the uid is the same in every
/// run.
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
    // The default is never used, because the digits are ASCII.
    Text::copied(std::str::from_utf8(&uid).unwrap_or_default())
}
