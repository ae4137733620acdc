//! Tracks the status of a bridge, and reports changes of the status to the program's hook and to
//! the log.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::SystemTime;

use crate::remote_status::RemoteStatus;
use eventcast::stats::RemoteState;
use parking_lot::Mutex;

use crate::client::Link;

/// The failure that is reported if a bridge's client has ended.
pub(crate) const CLIENT_ENDED: &str = "the NATS client has stopped because of an internal error";
/// The failure that is reported if a bridge's task has ended prematurely.
const TASK_ENDED: &str = "the task of the bridge has panicked, or its runtime has ended";

/// A user-supplied function that is called on each change of the status.
pub(crate) type OnStatus = Box<dyn Fn(&RemoteStatus) + Send + Sync>;

/// The status of one side of a bridge, which is set by a task of the bridge and read by the
/// program.
#[derive(Clone)]
pub(crate) struct StatusCell(Arc<Inner>);

struct Inner {
    now: Mutex<Now>,
    on_status: Option<OnStatus>,
    #[cfg(feature = "tracing")]
    log: log::Log,
}

struct Now {
    status: RemoteStatus,
    /// Whether the last failure was a connection failure, which the next connection resolves.
    is_of_link: bool,
}

/// Marks the status as ended when dropped, including during a panic.
pub(crate) struct EndGuard(StatusCell);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.end(Some(TASK_ENDED));
    }
}

impl StatusCell {
    /// Creates the status of one side of a bridge. `name` identifies this side in the log.
    #[cfg_attr(not(feature = "tracing"), allow(unused_variables, reason = "only the log shows the name"))]
    pub(crate) fn new(name: &str, on_status: Option<OnStatus>) -> Self {
        let status = RemoteStatus::new(RemoteState::Connecting, SystemTime::now().into());
        Self(Arc::new(Inner {
            now: Mutex::new(Now { status, is_of_link: false }),
            on_status,
            #[cfg(feature = "tracing")]
            log: log::Log::new(name.to_owned()),
        }))
    }

    pub(crate) fn get(&self) -> RemoteStatus {
        self.0.now.lock().status.clone()
    }

    /// Returns a guard that marks the status as ended when dropped, if it has not ended before.
    pub(crate) fn guard(&self) -> EndGuard {
        EndGuard(self.clone())
    }

    pub(crate) fn set_waiting(&self, events: u64) {
        self.0.now.lock().status.waiting = events;
    }

    /// Records that the server has fulfilled a request.
    pub(crate) fn ready(&self) {
        self.update(|now| {
            now.status.state = RemoteState::Ready;
            now.status.attempts = 0;
        });
    }

    /// Records that a server responded with a refusal.
    pub(crate) fn refused(&self, text: String) {
        self.fail(RemoteState::Refused, text);
    }

    /// Records that a connected server did not respond.
    pub(crate) fn unavailable(&self, text: String) {
        self.fail(RemoteState::Unavailable, text);
    }

    fn fail(&self, state: RemoteState, text: String) {
        self.update(|now| {
            now.status.state = state;
            now.status.attempts += 1;
            now.status.last_failure = Some(text);
            now.is_of_link = false;
        });
    }

    /// Updates the status from the state of the connection.
    pub(crate) fn link(&self, link: &Link) {
        self.update(|now| match &link.failure {
            None if link.is_connected && now.is_of_link => {
                now.status.state = RemoteState::Ready;
                now.status.attempts = 0;
            }
            None => {}
            Some(failure) => {
                now.status.state = match (failure.is_refusal, link.epoch) {
                    (true, _) => RemoteState::Refused,
                    (false, 0) => RemoteState::Connecting,
                    (false, _) => RemoteState::Unavailable,
                };
                now.status.attempts = link.attempts;
                now.status.last_failure = Some(failure.text.clone());
                now.is_of_link = true;
            }
        });
    }

    /// Marks the status as ended, with a reason if the program did not request the end. After that,
    /// the state and the failure no longer change.
    pub(crate) fn end(&self, reason: Option<&str>) {
        self.update(|now| {
            now.status.state = RemoteState::Ended;
            if let Some(reason) = reason {
                now.status.attempts += 1;
                now.status.last_failure = Some(reason.to_owned());
            }
        });
    }

    /// Changes the status. If the change affects the state or the failure, notifies the hook and
    /// the log after releasing the lock.
    fn update(&self, change: impl FnOnce(&mut Now)) {
        let status = {
            let mut now = self.0.now.lock();
            if now.status.state == RemoteState::Ended {
                return;
            }
            let (state, failure) = (now.status.state, now.status.failure().map(str::to_owned));
            change(&mut now);
            if now.status.state != state {
                now.status.since = SystemTime::now().into();
            } else if now.status.failure() == failure.as_deref() {
                return;
            }
            now.status.clone()
        };
        #[cfg(feature = "tracing")]
        self.0.log.tell(&status);
        if let Some(on_status) = &self.0.on_status {
            // Panics in the hook are not propagated.
            let _ = catch_unwind(AssertUnwindSafe(|| on_status(&status)));
        }
    }
}

/// Writes status changes to the log. The first failure is logged immediately, and later failures
/// are logged at most once every ten seconds. A recovery is logged if the failure before the
/// recovery was logged.
#[cfg(feature = "tracing")]
mod log {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::{Duration, Instant};

    use crate::remote_status::RemoteStatus;
    use eventcast::escape::escape;
    use parking_lot::Mutex;

    const PAUSE: Duration = Duration::from_secs(10);

    pub(super) struct Log {
        name: String,
        last: Mutex<Last>,
    }

    #[derive(Default)]
    struct Last {
        at: Option<Instant>,
        /// The number of failures that have not been logged since the last log entry.
        unmentioned: u64,
        is_failure: bool,
    }

    impl Log {
        pub(super) fn new(name: String) -> Self {
            Self { name, last: Mutex::default() }
        }

        pub(super) fn tell(&self, status: &RemoteStatus) {
            let is_failure = status.failure().is_some();
            let unmentioned = {
                let mut last = self.last.lock();
                let is_early = last.at.is_some_and(|at| at.elapsed() < PAUSE);
                if is_failure && is_early || !is_failure && !last.is_failure {
                    last.unmentioned += u64::from(is_failure);
                    return;
                }
                last.at = if is_failure { Some(Instant::now()) } else { last.at };
                last.is_failure = is_failure;
                std::mem::take(&mut last.unmentioned)
            };
            let name = escape(&self.name);
            // The log subscriber is the program's code, and may panic.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                if is_failure {
                    tracing::warn!(unmentioned, "{name}: {status}");
                } else {
                    tracing::info!(unmentioned, "{name}: {status}");
                }
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    fn cell() -> (StatusCell, Arc<Mutex<Vec<String>>>) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let hears = told.clone();
        let hook: OnStatus = Box::new(move |status| {
            hears.lock().push(status.to_string());
            panic!("of a hook");
        });
        (StatusCell::new("test", Some(hook)), told)
    }

    fn link(epoch: u64, attempts: u64, failure: Option<Failure>) -> Link {
        Link { is_connected: failure.is_none(), epoch, attempts, failure, ..Link::default() }
    }

    #[test]
    fn each_change_is_reported_once() {
        let (cell, told) = cell();
        cell.ready();
        cell.ready();
        cell.refused("full".to_owned());
        cell.refused("full".to_owned());
        assert_eq!((cell.get().attempts, cell.get().failure()), (2, Some("full")));
        cell.refused("no stream".to_owned());
        cell.ready();
        assert_eq!((cell.get().failure(), cell.get().last_failure.as_deref()), (None, Some("no stream")));
        cell.end(None);
        cell.ready();
        let expected = [
            "ready",
            "refused: full (failed attempts: 1, waiting: 0)",
            "refused: no stream (failed attempts: 3, waiting: 0)",
            "ready",
            "ended",
        ];
        assert_eq!(*told.lock(), expected);
    }

    #[test]
    fn a_connection_ends_only_the_failures_of_connections() {
        let (cell, _) = cell();
        let state = || cell.get().state;
        cell.link(&link(0, 1, Some(Failure::new("connection refused"))));
        assert_eq!(cell.get().to_string(), "connecting: connection refused (failed attempts: 1, waiting: 0)");
        let refusal = Failure { is_refusal: true, ..Failure::new("authorization violation") };
        cell.link(&link(0, 2, Some(refusal)));
        assert_eq!(state(), RemoteState::Refused);
        cell.link(&link(1, 0, None));
        assert_eq!(state(), RemoteState::Ready);
        cell.link(&link(1, 1, Some(Failure::new("the connection was lost"))));
        assert_eq!(state(), RemoteState::Unavailable);
        cell.refused("no stream".to_owned());
        cell.link(&link(2, 0, None));
        assert_eq!(state(), RemoteState::Refused);
    }

    #[test]
    fn a_task_that_ends_before_its_time_ends_the_status_with_the_reason() {
        let (cell, told) = cell();
        let guard = cell.guard();
        drop(guard);
        assert_eq!(told.lock().len(), 1);
        assert_eq!((cell.get().state, cell.get().failure()), (RemoteState::Ended, Some(TASK_ENDED)));
        drop(cell.guard());
        assert_eq!(told.lock().len(), 1);
    }

    /// The level and the text of each line in a log.
    #[cfg(feature = "tracing")]
    struct Lines(Arc<Mutex<Vec<String>>>);

    #[cfg(feature = "tracing")]
    impl tracing::Subscriber for Lines {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
            tracing::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}

        fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}

        fn event(&self, event: &tracing::Event<'_>) {
            use std::fmt::Write;
            let mut line = event.metadata().level().to_string();
            event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
                let _ = write!(line, " {field}={value:?}");
            });
            self.0.lock().push(line);
        }

        fn enter(&self, _: &tracing::Id) {}

        fn exit(&self, _: &tracing::Id) {}
    }

    /// This test runs in its own process. tracing caches for all threads whether a subscriber wants
    /// a line, and the threads of the other tests have no subscriber.
    #[cfg(feature = "tracing")]
    #[test]
    fn the_log_has_the_first_failure_and_the_recovery() {
        test_support::in_own_process!();
        let lines = Arc::new(Mutex::new(Vec::new()));
        tracing::subscriber::with_default(Lines(lines.clone()), || {
            let cell = StatusCell::new("publisher to h", None);
            cell.ready();
            for text in ["full", "no stream", "full"] {
                cell.refused(text.to_owned());
            }
            cell.ready();
        });
        let expected = [
            "WARN unmentioned=0 message=publisher to h: refused: full (failed attempts: 1, waiting: 0)",
            "INFO unmentioned=2 message=publisher to h: ready",
        ];
        let lines = lines.lock().clone();
        assert_eq!(lines.len(), 2, "{lines:?}");
        for (line, expected) in lines.iter().zip(expected) {
            let words = |text: &str| {
                let mut words: Vec<_> = text.split(' ').map(str::to_owned).collect();
                words.sort();
                words
            };
            assert_eq!(words(line), words(expected));
        }
    }
}
