//! The payload of a message, which consists of the bytes of the message's events, one after
//! another.

use std::io::BufRead as _;

use bytes::Bytes;

use crate::codec::Framing;

/// The size of the length prefix before an event, in bytes.
const LENGTH: usize = 4;

/// A growing payload, which can be split between two events.
#[derive(Clone, Debug)]
pub(crate) struct Payload {
    bytes: Vec<u8>,
    /// The end offsets of the events in `bytes`.
    ends: Vec<usize>,
    framing: Framing,
}

impl Payload {
    pub(crate) fn new(framing: Framing) -> Self {
        Self { bytes: Vec::new(), ends: Vec::new(), framing }
    }

    /// Returns the number of events.
    pub(crate) fn events(&self) -> usize {
        self.ends.len()
    }

    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of bytes that an event of this length takes if a message contains only
    /// this event.
    pub(crate) fn alone(framing: Framing, length: usize) -> usize {
        match framing {
            Framing::Lines => length,
            Framing::Lengths => length.saturating_add(LENGTH),
        }
    }

    /// Returns whether the bytes are valid as one event in this framing.
    pub(crate) fn fits(framing: Framing, event: &[u8]) -> bool {
        match framing {
            Framing::Lines => !event.is_empty() && !event.contains(&b'\n'),
            Framing::Lengths => u32::try_from(event.len()).is_ok(),
        }
    }

    /// Appends an event, whose bytes must [fit](Self::fits).
    pub(crate) fn push(&mut self, event: &[u8]) {
        match self.framing {
            Framing::Lines if self.ends.is_empty() => {}
            Framing::Lines => self.bytes.push(b'\n'),
            Framing::Lengths => {
                let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
                self.bytes.extend(length.to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(event);
        self.ends.push(self.bytes.len());
    }

    /// Splits the payload in two, and returns the second half. The first half keeps at least one
    /// event.
    pub(crate) fn split_off_half(&mut self) -> Self {
        let keep = (self.ends.len() / 2).max(1).min(self.ends.len());
        let at = keep.checked_sub(1).map_or(0, |last| self.ends[last]);
        // A line feed between the two halves belongs to neither half.
        let skip = match self.framing {
            Framing::Lines if at < self.bytes.len() => at + 1,
            _ => at,
        };
        let bytes = self.bytes[skip..].to_vec();
        let ends = self.ends.split_off(keep).into_iter().map(|end| end - skip).collect();
        self.bytes.truncate(at);
        Self { bytes, ends, framing: self.framing }
    }

    /// Returns a copy of the bytes.
    pub(crate) fn to_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(&self.bytes)
    }
}

/// Returns the bytes of each of `count` events in an untrusted payload, or `None` if the payload
/// does not hold that many events.
pub(crate) fn split(payload: &[u8], framing: Framing, count: u64) -> Option<Vec<&[u8]>> {
    // Each event takes at least one byte or the bytes of its length, so the payload's size limits
    // the number of events. A larger count must not determine how much memory is allocated.
    let count = usize::try_from(count).ok().filter(|count| *count <= payload.len().saturating_add(1))?;
    let events = match framing {
        Framing::Lines if count == 0 => Vec::new(),
        Framing::Lines => lines(payload, count),
        Framing::Lengths => {
            let (mut events, mut rest) = (Vec::with_capacity(count), payload);
            while let Some((length, behind)) = rest.split_first_chunk::<LENGTH>() {
                let (event, after) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
                events.push(event);
                rest = after;
            }
            if !rest.is_empty() {
                return None;
            }
            events
        }
    };
    (events.len() == count).then_some(events)
}

/// Splits a payload at its line feeds.
fn lines(payload: &[u8], count: usize) -> Vec<&[u8]> {
    let (mut events, mut rest) = (Vec::with_capacity(count), payload);
    loop {
        let line = rest;
        // Unlike the slice's own `split`, this searches several bytes at a time. Reading from a
        // slice never fails.
        let read = rest.skip_until(b'\n').unwrap_or_default();
        let Some(event) = line[..read].strip_suffix(b"\n") else {
            events.push(line);
            return events;
        };
        events.push(event);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wrong_payloads_are_refused() {
        for framing in [Framing::Lines, Framing::Lengths] {
            assert_eq!(split(b"", framing, u64::MAX), None);
            assert_eq!(split(b"\x09\0\0\0ab", framing, 2), None);
        }
        assert_eq!(split(b"a\nb", Framing::Lines, 3), None);
        assert_eq!(split(b"\xff\xff\xff\xff", Framing::Lengths, 1), None);
        assert_eq!(split(b"\0\0\0\0\0", Framing::Lengths, 1), None);
        assert!(!Payload::fits(Framing::Lines, b"a\nb") && !Payload::fits(Framing::Lines, b""));
    }

    fn events() -> impl Strategy<Value = Vec<Vec<u8>>> {
        proptest::collection::vec(proptest::collection::vec(11_u8..=255, 1..9), 1..20)
    }

    proptest! {
        #[test]
        fn events_are_read_back_also_in_halves(events in events(), lines in any::<bool>()) {
            let framing = if lines { Framing::Lines } else { Framing::Lengths };
            let mut payload = Payload::new(framing);
            for event in &events {
                payload.push(event);
            }
            prop_assert_eq!(payload.events(), events.len());
            let back = |payload: &Payload| {
                let bytes = payload.to_bytes();
                let events = split(&bytes, framing, payload.events() as u64).unwrap();
                events.into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>()
            };
            prop_assert_eq!(&back(&payload), &events);
            let second = payload.split_off_half();
            prop_assert!(payload.events() > 0);
            prop_assert_eq!([back(&payload), back(&second)].concat(), events);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64), count in any::<u64>()) {
            let _ = split(&bytes, Framing::Lengths, count % 80);
            let _ = split(&bytes, Framing::Lines, count % 80);
        }
    }
}
