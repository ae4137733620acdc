//! The custom resource, and the events that the operator records about a reminder. One event
//! reports when the reminder will be due, another event reports that the reminder is due, and a
//! warning reports an invalid time. The test shows that a reconciler can be tested without a
//! cluster.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use eventcast::EventType::{Normal, Warning};
use eventcast::{Clock, Recorder, Timestamp};
use eventcast_kube::EventRef;
use kube::CustomResource;
use kube::runtime::controller::Action;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A message that is due at a certain time.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "eventcast.example.com", version = "v1", kind = "Reminder", namespaced)]
pub(crate) struct ReminderSpec {
    /// The time at which the message is due, such as `2026-11-21T12:00:00Z`.
    pub(crate) at: String,
    /// The text of the message.
    pub(crate) message: String,
}

pub(crate) struct Ctx {
    pub(crate) recorder: Recorder,
    pub(crate) clock: Clock,
}

/// Records events about a reminder. The reconciler does not write anything else, because recording
/// events is the purpose of this operator.
#[allow(clippy::unused_async, reason = "kube awaits a reconciler, and most of them await something")]
pub(crate) async fn reconcile(reminder: Arc<Reminder>, ctx: Arc<Ctx>) -> Result<Action, Infallible> {
    let at: Timestamp = match reminder.spec.at.parse() {
        Ok(at) => at,
        Err(error) => {
            ctx.recorder.event(reminder.event_ref(), Warning, "Invalid", format_args!("at: {error}"));
            // Nothing can be done until the user corrects the time.
            return Ok(Action::await_change());
        }
    };
    let left = at.duration_since(ctx.clock.now().into());
    if left == Duration::ZERO {
        ctx.recorder.event(reminder.event_ref(), Normal, "Due", reminder.spec.message.clone());
        return Ok(Action::await_change());
    }
    ctx.recorder.event(reminder.event_ref(), Normal, "Scheduled", format_args!("due at {at:.0}"));
    Ok(Action::requeue(left))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use eventcast::testing::{FakeClock, FakeRecorder};

    use super::*;

    fn reminder(at: &str) -> Arc<Reminder> {
        let spec = ReminderSpec { at: at.to_owned(), message: "drink it".to_owned() };
        let mut reminder = Reminder::new("tea", spec);
        reminder.metadata.namespace = Some("default".to_owned());
        Arc::new(reminder)
    }

    #[test]
    fn a_reminder_is_scheduled_and_then_due() {
        let fake = FakeRecorder::new(16);
        // 2026-11-21T12:00:00Z
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_262_400));
        let ctx = Arc::new(Ctx { recorder: fake.recorder("tester"), clock: clock.clock() });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let reconciled = |at: &str| runtime.block_on(reconcile(reminder(at), ctx.clone())).unwrap();

        let minute = Duration::from_secs(60);
        assert_eq!(reconciled("2026-11-21T12:01:00Z"), Action::requeue(minute));
        assert_eq!(fake.take_lines(), ["Normal Scheduled due at 2026-11-21T12:01:00Z"]);
        clock.advance(minute);
        assert_eq!(reconciled("2026-11-21T12:01:00Z"), Action::await_change());
        let events = fake.take();
        assert_eq!(events[0].involved_object.to_string(), "Reminder/default/tea");
        assert_eq!(events[0].involved_object.api_version, "eventcast.example.com/v1");
        assert_eq!((events[0].reason.as_str(), events[0].message.as_str()), ("Due", "drink it"));
        assert_eq!(reconciled("at noon\u{1b}[2J"), Action::await_change());
        let lines = fake.take_lines();
        assert!(lines[0].starts_with("Warning Invalid at: ") && !lines[0].contains('\u{1b}'), "{lines:?}");
    }
}
