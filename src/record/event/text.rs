//! Defines `Text`, the string type used in events.

use std::borrow::{Borrow, Cow};
use std::fmt::{self, Write as _};
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use smol_str::{SmolStr, SmolStrBuilder};

/// An immutable string that is cheap to clone. Cloning a string does no more than increment a
/// reference count.
///
/// - A string of up to 23 bytes is stored inline, in the value itself.
/// - A longer string is allocated once.
/// - [`from_static`](Self::from_static) and `format_args!` without arguments do not copy the
///   string.
///
/// A `Text` can be created from `&str`, `String`, `char`, `Arc<str>`, `Cow<str>` or `format_args!`.
/// A `Text` dereferences to a `str`, and is compared, ordered and hashed like that `str`. A `Text`
/// can be compared directly with a `str`, a `&str` or a `String`.
///
/// # Examples
///
/// ```
/// use eventcast::Text;
///
/// let reason = Text::from("BackOff");
/// assert_eq!(reason, "BackOff");
/// assert_eq!(String::from("BackOff"), reason);
/// assert_eq!(Text::from(format_args!("restart {}", 3)).len(), 9);
/// let error = std::io::Error::other("the disk is full");
/// assert_eq!(Text::from(&error.to_string()), "the disk is full");
/// assert!(Text::default().is_empty());
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text(SmolStr);

impl Text {
    /// The empty `Text`, as a constant.
    pub(crate) const EMPTY: Self = Self(SmolStr::new_static(""));

    /// Creates a `Text` from a string literal, for example in a constant.
    ///
    /// # Examples
    ///
    /// ```
    /// const REASON: eventcast::Text = eventcast::Text::from_static("Started");
    /// assert_eq!(REASON, "Started");
    /// ```
    pub const fn from_static(text: &'static str) -> Self {
        Self(SmolStr::new_static(text))
    }

    /// Returns the text as a `str`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Text;
    ///
    /// let reason = Text::from("BackOff");
    /// assert_eq!(reason.as_str(), "BackOff");
    /// assert!(reason.starts_with("Back"), "a text derefs to a `str`");
    /// ```
    #[inline]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Creates a `Text` by copying `text`, which does not need to outlive the call.
    #[inline]
    pub(crate) fn copied(text: &str) -> Self {
        Self(SmolStr::new(text))
    }

    /// Formats a number in decimal.
    pub(crate) fn decimal(mut number: u64) -> Self {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        // The default is never used, because digits are valid UTF-8.
        Self::copied(std::str::from_utf8(&digits[at..]).unwrap_or_default())
    }

    /// Concatenates `first` and `second` into one `Text`.
    pub(crate) fn joined(first: &str, second: &str) -> Self {
        let len = first.len() + second.len();
        let mut buffer = [0; 256];
        let Some((start, end)) = buffer.get_mut(..len).and_then(|b| b.split_at_mut_checked(first.len()))
        else {
            return format_args!("{first}{second}").into();
        };
        // Most results fit in the buffer, so only the `Text` itself is allocated.
        start.copy_from_slice(first.as_bytes());
        end.copy_from_slice(second.as_bytes());
        // The default is never used, because the concatenation of two strings is valid UTF-8.
        Self::copied(std::str::from_utf8(&buffer[..len]).unwrap_or_default())
    }
}

impl Deref for Text {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl From<&str> for Text {
    /// Copies the string. Up to 23 bytes are stored inline, and a longer string is allocated.
    #[inline]
    fn from(text: &str) -> Self {
        Self::copied(text)
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        Self::copied(text)
    }
}

impl From<char> for Text {
    fn from(text: char) -> Self {
        Self::copied(text.encode_utf8(&mut [0; 4]))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

#[allow(clippy::disallowed_types, reason = "callers hold std's Arc; nothing here synchronises through it")]
impl From<std::sync::Arc<str>> for Text {
    fn from(text: std::sync::Arc<str>) -> Self {
        Self(text.into())
    }
}

impl From<Cow<'_, str>> for Text {
    fn from(text: Cow<'_, str>) -> Self {
        match text {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        }
    }
}

impl From<fmt::Arguments<'_>> for Text {
    fn from(text: fmt::Arguments<'_>) -> Self {
        if let Some(text) = text.as_str() {
            return Self::from_static(text);
        }
        let mut builder = SmolStrBuilder::new();
        // Writing fails only if an argument's `Display` implementation fails. In that case, the
        // text written before the failure is kept.
        let _ = builder.write_fmt(text);
        Self(builder.finish())
    }
}

impl From<&Text> for Text {
    fn from(text: &Text) -> Self {
        text.clone()
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0.into()
    }
}

/// Compares a `Text` with other string types, in both directions.
macro_rules! compared_with {
    ($($other:ty),*) => {$(
        impl PartialEq<$other> for Text {
            fn eq(&self, other: &$other) -> bool {
                self.as_str() == &other[..]
            }
        }

        impl PartialEq<Text> for $other {
            fn eq(&self, other: &Text) -> bool {
                &self[..] == other.as_str()
            }
        }
    )*};
}

compared_with!(str, &str, String);

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text::copied(text))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Text, E> {
                Ok(text.into())
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}
