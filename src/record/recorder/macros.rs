//! The macro that formats a message as it records.

/// Records an event with a formatted message, as [`Recorder::eventf`](crate::Recorder::eventf)
/// does.
///
/// The type is `Normal` or `Warning`. The message is a format string with its arguments. It is not
/// formatted if the broadcaster is closed, the recorder is disabled or the reason is empty.
///
/// # Examples
///
/// ```
/// use eventcast::testing::FakeRecorder;
/// use eventcast::{ObjectReference, event};
///
/// let fake = FakeRecorder::new(16);
/// let recorder = fake.recorder();
/// let door = ObjectReference::new("Door", "front");
/// let tries = 3;
/// let recorded = event!(recorder, &door, Warning, "Jammed", "after {tries} tries");
/// assert!(recorded.is_accepted());
/// event!(recorder, &door, Normal, "Opened", "by {} and {}", "Ada", "Grace");
/// assert_eq!(
///     fake.take_lines(),
///     ["Warning Jammed after 3 tries", "Normal Opened by Ada and Grace"]
/// );
/// ```
#[macro_export]
macro_rules! event {
    ($recorder:expr, $object:expr, $type:ident, $reason:expr, $($message:tt)+) => {
        $recorder.eventf(
            $object,
            $crate::EventType::$type,
            $reason,
            ::core::format_args!($($message)+),
        )
    };
}
