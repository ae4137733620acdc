//! Constructs correlators.

use crate::error::BuildError;

use super::aggregator::Aggregator;
use super::cache::Caches;
use super::counters::CorrelatorCounters;
use super::spam_filter::BucketRules;
use super::{CorrelatorOptions, EventCorrelator};

impl EventCorrelator {
    /// Creates a correlator that has not seen any events yet and that any number of threads can
    /// share.
    ///
    /// If [`cache_size`](CorrelatorOptions::cache_size) is 128 or more, each cache is divided into
    /// several shards. When a cache is full, a shard evicts its own least recently used entry, even
    /// if another shard has an older entry.
    ///
    /// # Errors
    ///
    /// Returns an error if an option is out of range. The error names the option. A value of zero
    /// is never replaced with the default.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::correlator::EventCorrelator;
    /// use eventcast::CorrelatorOptions;
    ///
    /// assert!(EventCorrelator::new(CorrelatorOptions::default()).is_ok());
    /// let error = EventCorrelator::new(CorrelatorOptions::default().cache_size(0)).unwrap_err();
    /// assert_eq!(error.to_string(), "cache_size must be 1 to 16777216 entries, got 0");
    /// ```
    #[doc(alias = "NewEventCorrelator")]
    #[doc(alias = "NewEventCorrelatorWithOptions")]
    pub fn new(options: CorrelatorOptions) -> Result<Self, BuildError> {
        Self::build(options, true)
    }

    /// Creates a correlator that has not seen any events yet and whose eviction order is exact. A
    /// full cache evicts its least recently used entry, as in client-go. Threads that share the
    /// correlator contend for a single lock.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`new`](Self::new).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::correlator::{Correlation, EventCorrelator};
    /// use eventcast::{CorrelatorOptions, Event};
    ///
    /// let event = |number: u32| {
    ///     let mut event = Event::default();
    ///     (event.message, event.count) = (number.to_string().into(), 1);
    ///     event
    /// };
    /// let correlator = EventCorrelator::new_exact(CorrelatorOptions::off().cache_size(200))?;
    /// for number in 0..=200 {
    ///     correlator.correlate(&event(number));
    /// }
    /// // The last entry evicted the first one.
    /// assert!(matches!(correlator.correlate(&event(1)), Correlation::Update { .. }));
    /// assert!(matches!(correlator.correlate(&event(0)), Correlation::Create { .. }));
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    #[doc(alias = "NewEventCorrelator")]
    pub fn new_exact(options: CorrelatorOptions) -> Result<Self, BuildError> {
        Self::build(options, false)
    }

    /// Creates a recording's correlator, which differs from an [exact](Self::new_exact) correlator
    /// in that an object's groups have different names even at the same time.
    pub(crate) fn new_of_recording(options: CorrelatorOptions) -> Result<Self, BuildError> {
        Ok(Self { is_of_recording: true, ..Self::new_exact(options)? })
    }

    fn build(options: CorrelatorOptions, is_shared: bool) -> Result<Self, BuildError> {
        options.check()?;
        let CorrelatorOptions { cache_size, aggregation, spam_filter, functions, clock } = options;
        Ok(Self {
            clock,
            is_of_recording: false,
            aggregator: aggregation.map(|aggregation| {
                Aggregator::new(aggregation, functions.aggregate_key, functions.aggregate_message)
            }),
            filter: spam_filter.map(|filter| BucketRules::new(filter, functions.spam_key)),
            on_skip: functions.on_skip,
            caches: Caches::new(cache_size, is_shared),
            counters: CorrelatorCounters::default(),
        })
    }
}
