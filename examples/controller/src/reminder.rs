//! The custom resource, and what the operator records about one: when it is due, and that it is
//! due.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use eventcast::EventType::{Normal, Warning};
use eventcast::{Clock, Recorder, Timestamp};
use kube::CustomResource;
use kube::runtime::controller::Action;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Text that is to be remembered at a certain time.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "eventcast.example.com", version = "v1", kind = "Reminder", namespaced)]
pub(crate) struct ReminderSpec {
    /// When, as in `2026-11-21T12:00:00Z`.
    pub(crate) at: String,
    /// Of what.
    pub(crate) message: String,
}

pub(crate) struct Ctx {
    pub(crate) recorder: Recorder,
    pub(crate) clock: Clock,
}

/// Records events about a reminder, and writes nothing else, because events are the purpose of this
/// operator.
pub(crate) async fn reconcile(reminder: Arc<Reminder>, ctx: Arc<Ctx>) -> Result<Action, Infallible> {
    let at: Timestamp = match reminder.spec.at.parse() {
        Ok(at) => at,
        Err(error) => {
            ctx.recorder.eventf(&*reminder, Warning, "Invalid", format_args!("at: {error}"));
            // Nothing can be done until somebody corrects it.
            return Ok(Action::await_change());
        }
    };
    let left = at.duration_since(ctx.clock.now().into());
    if left == Duration::ZERO {
        ctx.recorder.event(&*reminder, Normal, "Due", reminder.spec.message.clone());
        return Ok(Action::await_change());
    }
    ctx.recorder.eventf(&*reminder, Normal, "Scheduled", format_args!("due at {at:.0}"));
    Ok(Action::requeue(left))
}
