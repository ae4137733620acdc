//! The position in a stream at which a session begins.

use std::sync::Arc;

use async_nats::datetime::from_nanos;
use async_nats::jetstream::consumer::DeliverPolicy;

use crate::options::Start;

/// The state of a stream, as reported by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamState {
    pub(crate) created: Arc<str>,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// A reader's position, which is either where the reader will begin or where the reader is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The reader has received no message yet.
    Begin(Start),
    /// The reader has received the message with this number, from the stream created at this time.
    Behind { sequence: u64, created: Arc<str> },
}

/// How a session begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Beginning {
    pub(crate) policy: DeliverPolicy,
    /// The number of the message after which the session begins, or 0 if it is not known.
    pub(crate) behind: u64,
    /// Whether the reader sees the stream from its first message.
    pub(crate) is_from_start: bool,
    /// Whether the stream has been recreated, or has lost its last messages.
    pub(crate) is_reset: bool,
    /// The number of messages between the position and the first message in the stream.
    pub(crate) removed: u64,
    /// The message number up to which skipped positions do not count as gaps.
    pub(crate) selected_to: u64,
}

impl Place {
    /// Returns how a session begins in a stream with this state.
    pub(crate) fn begin(&self, state: &StreamState) -> Beginning {
        match self {
            Self::Begin(start) => begin_new(*start, state),
            Self::Behind { created, .. } if *created != state.created => {
                Beginning { is_reset: true, is_from_start: state.first <= 1, ..all() }
            }
            // The server has lost the last messages of the stream, and reuses their numbers.
            Self::Behind { sequence, .. } if *sequence > state.last => {
                Beginning { is_reset: true, ..behind(state.last, state) }
            }
            Self::Behind { sequence, .. } => behind(*sequence, state),
        }
    }
}

fn begin_new(start: Start, state: &StreamState) -> Beginning {
    match start {
        // If a consumer with the `New` policy had to be recreated, the new consumer would skip the
        // messages that were stored in the meantime.
        Start::New => behind(state.last, state),
        Start::All => Beginning { is_from_start: state.first <= 1, ..all() },
        Start::Last => Beginning { policy: DeliverPolicy::Last, ..all() },
        Start::LastPerSubject => {
            Beginning { policy: DeliverPolicy::LastPerSubject, selected_to: state.last, ..all() }
        }
        Start::Sequence(sequence) => {
            let is_from_start = sequence <= 1 && state.first <= 1;
            Beginning { is_from_start, ..behind(sequence.saturating_sub(1), state) }
        }
        Start::Since(seconds) => {
            let time = from_nanos(i128::from(seconds) * 1_000_000_000).ok();
            let policy =
                time.map_or(DeliverPolicy::All, |start_time| DeliverPolicy::ByStartTime { start_time });
            Beginning { policy, ..all() }
        }
    }
}

fn all() -> Beginning {
    Beginning {
        policy: DeliverPolicy::All,
        behind: 0,
        is_from_start: false,
        is_reset: false,
        removed: 0,
        selected_to: 0,
    }
}

fn behind(sequence: u64, state: &StreamState) -> Beginning {
    let start_sequence = sequence.saturating_add(1);
    let removed = state.first.saturating_sub(start_sequence);
    let policy = DeliverPolicy::ByStartSequence { start_sequence };
    Beginning { policy, behind: sequence, removed, ..all() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(first: u64, last: u64) -> StreamState {
        StreamState { created: "then".into(), first, last }
    }

    fn by(start_sequence: u64) -> DeliverPolicy {
        DeliverPolicy::ByStartSequence { start_sequence }
    }

    fn at(sequence: u64, created: &str) -> Place {
        Place::Behind { sequence, created: created.into() }
    }

    #[test]
    fn a_new_reader_skips_no_later_event() {
        let begins = Place::Begin(Start::New).begin(&state(1, 7));
        assert_eq!((begins.policy, begins.behind, begins.is_from_start), (by(8), 7, false));
    }

    #[test]
    fn a_reader_of_all_knows_whether_it_has_the_beginning() {
        for (first, is_from_start) in [(0, true), (1, true), (2, false)] {
            assert_eq!(Place::Begin(Start::All).begin(&state(first, 9)).is_from_start, is_from_start);
        }
    }

    #[test]
    fn a_reader_continues_after_its_position() {
        assert_eq!(at(5, "then").begin(&state(1, 9)).policy, by(6));
        let late = at(50, "then").begin(&state(151, 200));
        assert_eq!((late.policy, late.removed), (by(51), 100));
    }

    #[test]
    fn a_stream_that_is_another_one_is_read_from_its_beginning() {
        let anew = at(5, "before").begin(&state(1, 9));
        assert_eq!((anew.policy, anew.is_reset, anew.is_from_start), (DeliverPolicy::All, true, true));
        let cut = at(50, "then").begin(&state(1, 9));
        assert_eq!((cut.policy, cut.behind, cut.is_reset), (by(10), 9, true));
    }
}
