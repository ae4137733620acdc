//! Running code of the user so that its panic ends there.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code of the user, and catches its panic. `None`: it panicked.
pub(crate) fn guarded<R>(run: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => Some(result),
        Err(payload) => {
            // The payload is the user's too, and may panic when it goes.
            if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                std::mem::forget(second);
            }
            None
        }
    }
}
