//! Tasks: a suite that runs on plain threads, smol, and both flavours of tokio, and tests that poll
//! manually and check which task is woken, the number of wake-ups, and what remains after a future
//! is dropped.

use std::pin::Pin;

use eventcast::Delivery::{Event, Lagged};
use eventcast::{BusOptions, Delivery};
use futures::{Stream, StreamExt};

/// An executor that runs a test's tasks.
#[derive(Clone, Copy, Debug)]
enum Executor {
    /// A new thread for each task, with `futures::executor::block_on`.
    Threads,
    Smol,
    TokioCurrentThread,
    TokioMultiThread,
}

type Joined = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Executor {
    fn run<F: Future>(self, main: F) -> F::Output {
        match self {
            Self::Threads => futures::executor::block_on(main),
            Self::Smol => smol::block_on(main),
            Self::TokioCurrentThread => {
                tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(main)
            }
            Self::TokioMultiThread => {
                let builder = &mut tokio::runtime::Builder::new_multi_thread();
                builder.worker_threads(2).build().unwrap().block_on(main)
            }
        }
    }

    /// Starts a task. The returned future waits until the task has finished, and panics if the task
    /// panicked.
    fn spawn(self, task: impl Future<Output = ()> + Send + 'static) -> Joined {
        match self {
            Self::Threads => {
                let (tx, rx) = futures::channel::oneshot::channel();
                std::thread::spawn(move || {
                    futures::executor::block_on(task);
                    let _ = tx.send(());
                });
                Box::pin(async move { rx.await.expect("the task panicked") })
            }
            Self::Smol => Box::pin(smol::spawn(task)),
            Self::TokioCurrentThread | Self::TokioMultiThread => {
                let task = tokio::spawn(task);
                Box::pin(async move { task.await.unwrap() })
            }
        }
    }
}

/// Turns each function into a module with one test for each executor.
macro_rules! on_every_executor {
    ($($(#[doc = $doc:literal])* async fn $name:ident($executor:ident) $body:block)*) => {$(
        $(#[doc = $doc])*
        mod $name {
            use super::*;

            async fn run($executor: Executor) {
                let _ = $executor;
                $body
            }

            #[test]
            fn threads() {
                crate::support::watched(|| Executor::Threads.run(run(Executor::Threads)));
            }

            #[test]
            fn smol() {
                crate::support::watched(|| Executor::Smol.run(run(Executor::Smol)));
            }

            #[test]
            fn tokio_current_thread() {
                crate::support::watched(|| Executor::TokioCurrentThread.run(run(Executor::TokioCurrentThread)));
            }

            #[test]
            fn tokio_multi_thread() {
                crate::support::watched(|| Executor::TokioMultiThread.run(run(Executor::TokioMultiThread)));
            }
        }
    )*};
}

/// Lets all other tasks run, or the other threads on the plain-thread executor.
async fn rest() {
    let mut rested = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut rested, true) {
            return std::task::Poll::Ready(());
        }
        std::thread::yield_now();
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        rest().await;
    }
}

async fn collect(watcher: impl Stream<Item = Delivery<u64>>) -> (Vec<u64>, u64) {
    let (mut events, mut lost) = (Vec::new(), 0);
    let mut watcher = std::pin::pin!(watcher);
    while let Some(delivery) = watcher.next().await {
        match delivery {
            Event(event) => events.push(event),
            Lagged(count) => lost += count,
        }
    }
    (events, lost)
}

/// Returns the options of a bus with a dispatcher, and the options of an inline bus.
fn both_options() -> impl Iterator<Item = BusOptions> {
    [false, true]
        .map(|inline| BusOptions::default().inline(inline))
        .into_iter()
        .inspect(|options| println!("{options:?}"))
}

// The modules follow the macro because they use it.
mod ending;
mod futures_dropped;
mod timer;
mod waiting;
mod wakers;
