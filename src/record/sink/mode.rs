//! The modes in which a sink can accept operations.

/// Specifies how a recording passes operations to a sink. A sink returns its mode from
/// [`EventSink::mode`](crate::EventSink::mode).
///
/// | the store's client | mode |
/// |---|---|
/// | blocks, and performs one operation per call | [`OneByOne`](Self::OneByOne), with more [`workers`](crate::record::RecordingBuilder::workers) if operations block on the network |
/// | performs many operations in one transaction | [`Batches`](Self::Batches) |
/// | is asynchronous, uses callbacks, or runs operations on its own threads | [`InFlight`](Self::InFlight), like an [`AsyncSink`](crate::sink::AsyncSink) |
///
/// # Examples
///
/// ```
/// use eventcast::sink::SinkMode;
/// use eventcast::{EventSink, MemorySink};
///
/// assert_eq!(SinkMode::default(), SinkMode::OneByOne);
/// assert_eq!(MemorySink::new().mode(), SinkMode::Batches);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SinkMode {
    /// Each of the recording's workers calls [`create`](crate::EventSink::create) or
    /// [`patch`](crate::EventSink::patch) for one operation at a time. A slow operation blocks its
    /// worker, and delays later writes for the same key.
    #[default]
    OneByOne,
    /// Each worker calls [`submit`](crate::EventSink::submit) with up to 256 operations that are
    /// ready. The sink must answer all operations in the batch before `submit` returns. Use this
    /// mode for a store that can perform many operations in one transaction.
    Batches,
    /// A worker calls [`submit`](crate::EventSink::submit), which must return immediately. The sink
    /// answers each operation later, in any order and on any thread. The number limits how many
    /// operations are in progress at the same time. A value of zero is treated as 1.
    InFlight(usize),
}
