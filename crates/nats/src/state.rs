//! The state of a bridge, and the function that hears of its changes.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use eventcast::escape::escape;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// The state of one side of a bridge.
///
/// # Examples
///
/// ```
/// use eventcast_nats::BridgeState;
///
/// assert_eq!(BridgeState::NoStream.to_string(), "no stream has the subject");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BridgeState {
    /// There was no connection yet.
    #[default]
    Connecting,
    /// The server answers.
    Connected,
    /// The connection was lost.
    Disconnected,
    /// The server has no stream for the subject, or none of the name.
    NoStream,
    /// The server refuses what the bridge does, with this text.
    Denied(String),
    /// The stream is full and refuses new messages.
    Full,
    /// The bridge has ended.
    Ended,
}

impl fmt::Display for BridgeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting => f.write_str("connecting"),
            Self::Connected => f.write_str("connected"),
            Self::Disconnected => f.write_str("disconnected"),
            Self::NoStream => f.write_str("no stream has the subject"),
            Self::Denied(text) => write!(f, "denied: {}", escape(text)),
            Self::Full => f.write_str("the stream is full"),
            Self::Ended => f.write_str("ended"),
        }
    }
}

/// A function of the program that hears of each new state.
pub(crate) type OnState = Box<dyn Fn(&BridgeState) + Send + Sync>;

/// The state that a task of the bridge sets, and that the program reads.
#[derive(Clone)]
pub(crate) struct StateCell(Arc<Inner>);

struct Inner {
    now: Mutex<BridgeState>,
    on_state: Option<OnState>,
}

impl StateCell {
    pub(crate) fn new(on_state: Option<OnState>) -> Self {
        Self(Arc::new(Inner { now: Mutex::default(), on_state }))
    }

    pub(crate) fn get(&self) -> BridgeState {
        self.0.now.lock().clone()
    }

    /// Sets the state. If it is a new one, tells the program, outside of the lock. The end stays.
    #[allow(clippy::needless_pass_by_value, reason = "the callers make the state for this")]
    pub(crate) fn set(&self, state: BridgeState) {
        {
            let mut now = self.0.now.lock();
            if *now == state || *now == BridgeState::Ended {
                return;
            }
            now.clone_from(&state);
        }
        if let Some(on_state) = &self.0.on_state {
            // The panic of a hook ends here.
            let _ = catch_unwind(AssertUnwindSafe(|| on_state(&state)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_told_once() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let hears = told.clone();
        let cell = StateCell::new(Some(Box::new(move |state| {
            hears.lock().push(state.clone());
            panic!("of a hook");
        })));
        for state in [BridgeState::Connected, BridgeState::Connected, BridgeState::Ended, BridgeState::Full] {
            cell.set(state);
        }
        assert_eq!(*told.lock(), [BridgeState::Connected, BridgeState::Ended]);
        assert_eq!(cell.get(), BridgeState::Ended);
    }
}
