//! Stops a task at a deadline that the program's handle sets.

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The shutdown deadline, or `None` while no shutdown is requested.
pub(crate) type Stop = watch::Receiver<Option<Instant>>;

/// Waits until a deadline is set and has passed.
pub(crate) async fn passed(mut stop: Stop) {
    loop {
        let deadline = *stop.borrow_and_update();
        let changed = async {
            if stop.changed().await.is_err() {
                // The sender was dropped, so a deadline can no longer be set.
                std::future::pending::<()>().await;
            }
        };
        match deadline {
            None => changed.await,
            Some(deadline) => tokio::select! {
                () = sleep_until(deadline) => return,
                () = changed => {}
            },
        }
    }
}

/// Waits until a shutdown is requested.
pub(crate) async fn asked(mut stop: Stop) {
    if stop.wait_for(Option::is_some).await.is_err() {
        std::future::pending::<()>().await;
    }
}
