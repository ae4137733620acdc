//! Running code of the user so that its panic ends there.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code of the user, and catches its panic. `None`: it panicked.
pub(crate) fn catch_panic<R>(run: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(run)).map_err(discard).ok()
}

/// As [`catch_panic`], with what the panic said.
#[cfg(feature = "recorder")]
pub(crate) fn catch_panic_message<R>(run: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| {
        let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
            (Some(text), _) => (*text).to_owned(),
            (None, Some(text)) => text.clone(),
            (None, None) => "(without a text)".to_owned(),
        };
        discard(payload);
        text
    })
}

/// The payload is the user's too, and may panic when it goes.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}
