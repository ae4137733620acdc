//! The colours, each of which has the same meaning in all pictures.
//!
//! The palette is by Okabe and Ito, and people with a colour vision deficiency can distinguish its
//! colours. When a picture is printed without colour, the dashed border of a loss, the round
//! corners of a gap and the labels convey the meaning.

/// The meaning of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A publisher, or another thread of the program that calls the bus.
    Caller,
    /// A part of the bus that is working.
    Bus,
    /// A queue, or an event in a queue.
    Queue,
    /// A reader, or an event that the reader has received.
    Reader,
    /// A waiting thread or task.
    Wait,
    /// An event that is lost or handed back.
    Loss,
    /// A gap, which the reader receives as `Lagged`.
    Gap,
    /// The end of a watcher.
    End,
}

impl Meaning {
    pub(crate) const ALL: [Self; 8] =
        [Self::Caller, Self::Bus, Self::Queue, Self::Reader, Self::Wait, Self::Loss, Self::Gap, Self::End];

    /// Returns the class of an area.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Bus => "bus",
            Self::Queue => "queue",
            Self::Reader => "reader",
            Self::Wait => "wait",
            Self::Loss => "loss",
            Self::Gap => "gap",
            Self::End => "end",
        }
    }

    /// Returns the colour of an area.
    pub(crate) fn fill(self) -> &'static str {
        match self {
            Self::Caller => "#FFFFFF",
            Self::Bus => "#ECECEC",
            Self::Queue => "#CFE3F2",
            Self::Reader => "#C8EADE",
            Self::Wait => "#FCE6B0",
            Self::Loss => "#FADDCB",
            Self::Gap => "#F2D9E6",
            Self::End => "#222222",
        }
    }

    /// Returns the colour of a border or a line.
    pub(crate) fn line(self) -> &'static str {
        match self {
            Self::Caller | Self::End => "#222222",
            Self::Bus => "#666666",
            Self::Queue => "#0072B2",
            Self::Reader => "#009E73",
            Self::Wait => "#E69F00",
            Self::Loss => "#D55E00",
            Self::Gap => "#CC79A7",
        }
    }

    /// Returns the name in a legend.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Caller => "publisher, caller",
            Self::Bus => "the bus at work",
            Self::Queue => "queued",
            Self::Reader => "reader, received",
            Self::Wait => "waits",
            Self::Loss => "lost or handed back",
            Self::Gap => "gap",
            Self::End => "end",
        }
    }
}
