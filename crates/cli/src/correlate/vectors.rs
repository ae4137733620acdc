//! The format of the test vectors, which consist of options, events, and decisions.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use eventcast::correlator::{Aggregation, Correlation, EventCorrelator, SpamFilter};
use eventcast::testing::FakeClock;
use eventcast::{CorrelatorOptions, Event, Text, Timestamp};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::support::lines::json_error;
use crate::support::time::system_time;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    #[serde(deserialize_with = "fields")]
    options: GoOptions,
}

/// client-go's options, in which zero means the default.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct GoOptions {
    #[serde(rename = "lruCacheSize")]
    cache_size: usize,
    burst_size: u32,
    qps: f32,
    max_events: usize,
    max_interval_in_seconds: u64,
}

impl GoOptions {
    fn to_options(&self) -> CorrelatorOptions {
        let interval = Duration::from_secs(self.max_interval_in_seconds);
        let aggregation = set(Aggregation::default(), Aggregation::max_events, self.max_events);
        let aggregation = set(aggregation, Aggregation::max_interval, interval);
        let filter = set(SpamFilter::default(), SpamFilter::burst, self.burst_size);
        let filter = set(filter, SpamFilter::qps, self.qps);
        let options = CorrelatorOptions::default().aggregation(aggregation).spam_filter(filter);
        set(options, CorrelatorOptions::cache_size, self.cache_size)
    }
}

/// Sets an option unless the value is zero.
fn set<O, T: Default + PartialEq>(options: O, setter: fn(O, T) -> O, value: T) -> O {
    if value == T::default() { options } else { setter(options, value) }
}

/// An event, and the store's response to the write.
#[derive(Deserialize)]
pub(crate) struct Vector {
    at: Timestamp,
    event: Event,
    #[serde(default, deserialize_with = "fields_or_default")]
    server: Server,
    pub(crate) expect: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Server {
    fail: bool,
    name: Option<String>,
    resource_version: Option<String>,
}

impl Vector {
    pub(crate) fn read(line: &str) -> Result<Self, String> {
        read_object(line)
    }
}

/// Reads a JSON object, and refuses anything else. Serde alone would also accept an array that
/// contains the struct's fields in order.
fn read_object<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    if !line.trim_start().starts_with('{') {
        return Err("expected a JSON object".to_owned());
    }
    serde_json::from_str(line).map_err(|error| json_error(&error))
}

/// Deserializes a struct, and accepts only a JSON object.
fn fields<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    let fields = Map::deserialize(deserializer)?;
    T::deserialize(Value::Object(fields)).map_err(D::Error::custom)
}

/// Deserializes a struct like [`fields`], but treats null as the default.
fn fields_or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + DeserializeOwned,
{
    let Some(fields) = Option::<Map<String, Value>>::deserialize(deserializer)? else {
        return Ok(T::default());
    };
    T::deserialize(Value::Object(fields)).map_err(D::Error::custom)
}

/// A correlator's decision.
pub(crate) struct Answer {
    pub(crate) event: Option<Event>,
    pub(crate) patch: Option<String>,
}

impl Answer {
    pub(crate) fn to_json(&self) -> String {
        let event = self.event.as_ref().map_or_else(|| "null".to_owned(), Event::to_json);
        let patch = self.patch.as_deref().unwrap_or("null");
        format!(r#"{{"skip":{},"event":{event},"patch":{patch},"error":null}}"#, self.event.is_none())
    }
}

/// A correlator that runs on the vectors' clock, and the simulated store to which it writes.
pub(crate) struct Rig {
    clock: FakeClock,
    correlator: EventCorrelator,
    /// The number of writes for each name. This number is the resource version unless `server`
    /// overrides it.
    writes: HashMap<Text, u64>,
}

impl Rig {
    /// Creates a rig with the options from the first line of the input.
    pub(crate) fn new(line: &str) -> Result<Self, String> {
        let head: Head = read_object(line).map_err(|error| format!("cannot read the options: {error}"))?;
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
        let correlator = EventCorrelator::new_exact(head.options.to_options().clock(clock.clock()))
            .map_err(|error| error.to_string())?;
        Ok(Self { clock, correlator, writes: HashMap::new() })
    }

    pub(crate) fn answer(&mut self, vector: &Vector) -> Answer {
        self.clock.set(system_time(vector.at));
        let (event, patch, key) = match self.correlator.correlate(&vector.event) {
            Correlation::Create { event, key, .. } => (event, None, key),
            Correlation::Update { event, key, .. } => {
                let patch = event.to_patch_json();
                (event, Some(patch), key)
            }
            _ => return Answer { event: None, patch: None },
        };
        let server = &vector.server;
        if !server.fail {
            let mut stored = event.clone();
            if let Some(name) = &server.name {
                stored.metadata.name = name.clone().into();
            }
            let writes = self.writes.entry(stored.metadata.name.clone()).or_default();
            *writes += 1;
            let version = server.resource_version.clone().unwrap_or_else(|| writes.to_string());
            stored.metadata.set_resource_version(version);
            self.correlator.confirm(key, &stored);
        }
        Answer { event: Some(event), patch }
    }
}
