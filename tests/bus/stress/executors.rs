//! The executors of tokio, smol and futures, and futures that are dropped before they are ready.

use std::pin::pin;
use std::sync::OnceLock;
use std::task::Poll;

use test_support::Rng;
use tokio::runtime::{Builder, Runtime};

use super::met::{self, Met};

fn tokio() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Builder::new_multi_thread().worker_threads(2).build().unwrap())
}

/// Starts a task on one of the two runtimes.
pub(crate) fn spawn(rng: &mut Rng, task: impl Future<Output = ()> + Send + 'static) {
    if rng.once_in(2) {
        met::add(Met::TokioTasks, 1);
        drop(tokio().spawn(task));
    } else {
        met::add(Met::SmolTasks, 1);
        smol::spawn(task).detach();
    }
}

/// Blocks this thread on a future, with one of the three executors.
pub(crate) fn block_on<F: Future>(rng: &mut Rng, future: F) -> F::Output {
    match rng.below(3) {
        0 => futures::executor::block_on(future),
        1 => smol::block_on(future),
        _ => tokio().block_on(future),
    }
}

/// Lets other tasks run.
pub(crate) async fn rest() {
    let mut rested = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut rested, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Polls a future up to `polls` times and then drops it. Returns `None` if the future did not
/// become ready.
pub(crate) async fn cancelled<F: Future>(future: F, polls: u64) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..polls {
        if let Poll::Ready(output) = futures::poll!(future.as_mut()) {
            return Some(output);
        }
        rest().await;
    }
    None
}
