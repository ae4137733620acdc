//! Parses YAML into JSON values. The elements of lists are parsed one at a time.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The maximum memory that an element may use, in bytes. Memory use is only estimated. If an
/// element contains aliases, it can be much larger than its text.
const MAX_ELEMENT: usize = 64 << 20;
/// The estimated size of a value in bytes, not including the contents of strings.
const VALUE: usize = 64;

/// Passes the elements of a document to a function.
pub(super) struct Elements<'a> {
    element: &'a mut dyn FnMut(&Value),
    /// Whether a list lacks a `kind`, which the API server writes after the items.
    pub(super) is_cut_off: bool,
}

impl<'a> Elements<'a> {
    pub(super) fn new(element: &'a mut dyn FnMut(&Value)) -> Self {
        Self { element, is_cut_off: false }
    }

    fn end(&mut self, object: Map<String, Value>, is_list: bool) {
        if is_list {
            self.is_cut_off |= object.contains_key("apiVersion") && !object.contains_key("kind");
        } else {
            (self.element)(&Value::Object(object));
        }
    }

    /// Reports a value that is neither an object nor a list.
    fn scalar(&mut self, value: impl Into<Value>) {
        (self.element)(&Value::Array(vec![value.into()]));
    }
}

impl<'de> DeserializeSeed<'de> for &mut Elements<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event or a list of events")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut object, mut is_list, mut left) = (Map::new(), false, MAX_ELEMENT);
        while let Some(key) = map.next_key::<String>()? {
            let is_items = key == "items";
            if object.contains_key(&key) || is_items && is_list {
                // A repeated key means that files were concatenated without a separator between
                // them.
                self.end(std::mem::take(&mut object), is_list);
                (is_list, left) = (false, MAX_ELEMENT);
            }
            if is_items {
                is_list = true;
                map.next_value_seed(&mut *self)?;
            } else {
                let value = map.next_value_seed(Bounded { left: &mut left })?;
                object.insert(key, value);
            }
        }
        self.end(object, is_list);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(&mut *self)?.is_some() {}
        Ok(())
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_none<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        self.scalar(text);
        Ok(())
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.scalar(value);
        Ok(())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        self.scalar(value);
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        self.scalar(value);
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        self.scalar(value);
        Ok(())
    }
}

/// Builds a value with bounded memory usage.
struct Bounded<'a> {
    left: &'a mut usize,
}

impl Bounded<'_> {
    fn take<E: de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        let left = self.left.checked_sub(VALUE + bytes);
        *self.left =
            left.ok_or_else(|| E::custom(format_args!("an event is larger than {} MiB", MAX_ELEMENT >> 20)))?;
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            // A map entry requires more memory than its key and value.
            self.take(4 * VALUE + key.len())?;
            let value = map.next_value_seed(Bounded { left: self.left })?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(value) = list.next_element_seed(Bounded { left: self.left })? {
            self.take(0)?;
            array.push(value);
        }
        Ok(Value::Array(array))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_str<E: de::Error>(mut self, text: &str) -> Result<Value, E> {
        self.take(text.len())?;
        Ok(Value::from(text))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }
}
