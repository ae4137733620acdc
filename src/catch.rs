//! Runs user code and catches its panics.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(feature = "recorder")]
use std::{future::poll_fn, pin::pin, task::Poll};

/// Runs user code and catches any panic. Returns `None` if the code panicked.
pub(crate) fn catch_panic<R>(run: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(run)).map_err(discard).ok()
}

/// Runs user code like [`catch_panic`]. Returns the panic message if the code panicked.
#[cfg(feature = "recorder")]
pub(crate) fn catch_panic_message<R>(run: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| {
        let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
            (Some(text), _) => (*text).to_owned(),
            (None, Some(text)) => text.clone(),
            (None, None) => "(no message)".to_owned(),
        };
        discard(payload);
        text
    })
}

/// Drops a panic's payload. The payload is user-supplied too, so its destructor may panic. If the
/// destructor panics, the payload of that second panic is leaked.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}

/// Runs a future to completion. Returns the panic message if the future panicked.
#[cfg(feature = "recorder")]
pub(crate) async fn catch_panic_in<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = pin!(future);
    poll_fn(|context| match catch_panic_message(|| future.as_mut().poll(context)) {
        Ok(progress) => progress.map(Ok),
        Err(text) => Poll::Ready(Err(text)),
    })
    .await
}
