//! Short-lived watchers in tasks. The watchers are read with `recv_async`, read as streams,
//! cancelled in the middle of a wait, or awaited as runners.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use eventcast::Watcher;
use eventcast::stats::WatcherStats;
use futures::{FutureExt, StreamExt};
use tokio::time::{sleep, timeout};

use super::checker::Checker;
use super::ledger::add;
use super::plan::{Leave, Plan};
use super::tick::Tick;
use super::visit::{PATIENCE, Visitor, handler, leave_in_panic, lock, panicked, take};

#[derive(Clone, Copy, Debug)]
enum Form {
    Recv,
    Stream,
    /// A receive call that is cancelled after a while and started again.
    Cancelled,
}

impl Visitor {
    /// Performs visits in a loop like [`run`](Visitor::run), but in a task.
    pub(crate) async fn run_async(mut self) {
        while self.visit_async().await {
            add(&self.ledger.visits, 1);
            if self.dice.once_in(40) {
                self.ledger.work(&self.name, "flush".to_owned());
                self.flushed(self.bus.flush_async(PATIENCE).await);
            }
        }
    }

    async fn visit_async(&mut self) -> bool {
        let plan = Plan::new(&mut self.dice);
        match self.dice.roll(4) {
            0 => self.await_runner(&plan).await,
            form => {
                self.watch_async(&plan, [Form::Recv, Form::Stream, Form::Cancelled][form as usize - 1]).await
            }
        }
    }

    async fn watch_async(&mut self, plan: &Plan, form: Form) -> bool {
        self.ledger.work(&self.name, format!("{form:?} as a task, {plan:?}"));
        let Some((builder, mut checker)) = plan.build(&self.bus, &self.ledger, &self.name) else {
            return true;
        };
        let mut watcher = match builder.watch() {
            Ok(watcher) => watcher,
            Err(error) => return self.is_open(&error),
        };
        let mut ended = false;
        while !ended && checker.seen() < plan.enough {
            ended = step(form, &mut watcher, &mut checker).await;
            if let Some(nap) = plan.nap(&mut self.dice) {
                sleep(nap).await;
            }
        }
        match plan.leave {
            Leave::Drop if !ended => drop(watcher),
            Leave::Panic if !ended => leave_in_panic(watcher),
            _ => {
                watcher.stop();
                while !ended {
                    ended = step(form, &mut watcher, &mut checker).await;
                }
                // A lock protects the watcher, because only one thread at a time may use it.
                let watcher = Mutex::new(watcher);
                let stats = || Some(watcher.lock().unwrap_or_else(PoisonError::into_inner).stats());
                finish(&Mutex::new(checker), stats).await;
                return true;
            }
        }
        finish(&Mutex::new(checker), || None).await;
        true
    }

    async fn await_runner(&mut self, plan: &Plan) -> bool {
        self.ledger.work(&self.name, format!("awaited runner, {plan:?}"));
        let Some((builder, checker)) = plan.build(&self.bus, &self.ledger, &self.name) else { return true };
        let (checker, on_enough) = (Arc::new(Mutex::new(checker)), Arc::default());
        let handler = handler(plan, &checker, &on_enough);
        let runner = match builder.runner(handler) {
            Ok(runner) => runner,
            Err(error) => return self.is_open(&error),
        };
        let handle = runner.handle();
        let _ = on_enough.set(handle.clone());
        runner.await;
        finish(&checker, || Some(handle.stats())).await;
        true
    }
}

/// Receives once. Returns whether the watcher has ended.
async fn step(form: Form, watcher: &mut Watcher<Tick>, checker: &mut Checker) -> bool {
    let received = match form {
        Form::Recv => AssertUnwindSafe(watcher.recv_async()).catch_unwind().await.map(Result::ok),
        Form::Stream => AssertUnwindSafe(watcher.next()).catch_unwind().await,
        Form::Cancelled => {
            let receiving = AssertUnwindSafe(watcher.recv_async()).catch_unwind();
            match timeout(Duration::from_millis(1), receiving).await {
                Ok(received) => received.map(Result::ok),
                Err(_) => return false,
            }
        }
    };
    // Without this call, a task that always finds an event would starve the other tasks.
    tokio::task::consume_budget().await;
    match received {
        Ok(Some(delivery)) => take(delivery.as_ref(), checker),
        Ok(None) => return true,
        Err(_) => panicked(true, checker),
    }
    false
}

/// Waits until the accounting is correct, or records a fault if the wait takes too long.
async fn finish(checker: &Mutex<Checker>, stats: impl Fn() -> Option<WatcherStats>) {
    let start = Instant::now();
    while !lock(checker).finish(stats().as_ref()) {
        if start.elapsed() > PATIENCE {
            return lock(checker).stuck(stats().as_ref());
        }
        sleep(Duration::from_millis(1)).await;
    }
}
