//! Support for types that are deserialized only from objects, which are the options in
//! configuration files and the parts of an event.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};

/// Implements `serde::Deserialize` for a type that is deserialized only from an object. The second
/// type is private, and has the same fields and a `deserialize` function that is derived with
/// `remote`. The derived function is an inherent function. If it were derived on the public type
/// itself, it would be public, and would accept a list.
macro_rules! object_only {
    ($type:ty, $object:ty) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <$object>::deserialize($crate::serde_object::ObjectOnly(deserializer))
            }
        }
    };
}

pub(crate) use object_only;

/// A deserializer that accepts only an object for a struct. Derived code would also accept a list
/// of field values, so that `[]` would be an empty event.
pub(crate) struct ObjectOnly<D>(pub(crate) D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for ObjectOnly<D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(FromMap(visitor))
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// A visitor that accepts only a map. When an object is requested, some formats, such as `toml`,
/// provide whatever value they find.
struct FromMap<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for FromMap<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(map)
    }
}
