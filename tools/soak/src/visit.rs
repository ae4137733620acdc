//! Short-lived watchers on the program's threads, each read in one of the possible ways.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::Select;
use eventcast::error::{FlushError, RecvTimeoutError, TryRecvError, WatchError};
use eventcast::stats::WatcherStats;
use eventcast::{Broadcaster, Delivery, Watcher};

use super::checker::Checker;
use super::dice::Dice;
use super::ledger::{Ledger, add};
use super::plan::{Leave, Plan};
use super::tick::{ON_PURPOSE, Tick};

/// A timeout that expires only if something is stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How a watcher is read.
#[derive(Clone, Copy, Debug)]
enum Form {
    Recv,
    Timeout,
    Try,
    Ref,
    Batch,
    Events,
    Select,
}

/// The result of one reading step.
pub(crate) enum Step {
    More,
    Empty,
    End,
}

pub(crate) struct Visitor {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) bus: Broadcaster<Tick>,
    pub(crate) dice: Dice,
    pub(crate) name: String,
}

impl Visitor {
    pub(crate) fn new(ledger: &Arc<Ledger>, bus: &Broadcaster<Tick>, seed: u64, number: u64) -> Self {
        let name = format!("visitor-{number}");
        Self { ledger: ledger.clone(), bus: bus.clone(), dice: Dice::new(seed, 2000 + number), name }
    }

    /// Performs visits in a loop until the bus has ended.
    pub(crate) fn run(mut self) {
        while self.visit() {
            add(&self.ledger.visits, 1);
            if self.dice.once_in(40) {
                self.ledger.work(&self.name, "flush".to_owned());
                self.flushed(self.bus.flush(PATIENCE));
            }
        }
    }

    pub(crate) fn flushed(&self, flushed: Result<(), FlushError>) {
        add(&self.ledger.flushes, 1);
        if let Err(error) = flushed {
            self.ledger.fault(format!("{}: {error}", self.name));
        }
    }

    /// Performs one visit. Returns `false` if the bus is closed.
    fn visit(&mut self) -> bool {
        let plan = Plan::new(&mut self.dice);
        match self.dice.roll(9) {
            0 => self.spawn(&plan),
            1 => self.run_handler(&plan),
            form => {
                let forms = [
                    Form::Recv,
                    Form::Timeout,
                    Form::Try,
                    Form::Ref,
                    Form::Batch,
                    Form::Events,
                    Form::Select,
                ];
                self.watch(&plan, forms[form as usize - 2])
            }
        }
    }

    fn watch(&mut self, plan: &Plan, form: Form) -> bool {
        self.ledger.work(&self.name, format!("{form:?}, {plan:?}"));
        let Some((builder, mut checker)) = plan.build(&self.bus, &self.ledger, &self.name) else {
            return true;
        };
        let mut watcher = match builder.watch() {
            Ok(watcher) => watcher,
            Err(error) => return self.is_open(&error),
        };
        let mut ended = false;
        while !ended && checker.seen() < plan.enough {
            ended = receive(form, &mut watcher, &mut checker);
            if let Some(nap) = plan.nap(&mut self.dice) {
                thread::sleep(nap);
            }
        }
        match plan.leave {
            Leave::Drop if !ended => drop(watcher),
            Leave::Panic if !ended => leave_in_panic(watcher),
            _ => {
                watcher.stop();
                while !ended {
                    ended = receive(form, &mut watcher, &mut checker);
                }
                finish(&mut checker, || Some(watcher.stats()));
                return true;
            }
        }
        finish(&mut checker, || None);
        true
    }

    /// Runs a handler on one of the bus's threads. Returns `false` if the bus is closed.
    fn spawn(&mut self, plan: &Plan) -> bool {
        self.ledger.work(&self.name, format!("spawn, {plan:?}"));
        let Some((builder, checker)) = plan.build(&self.bus, &self.ledger, &self.name) else { return true };
        let (checker, on_enough) = (Arc::new(Mutex::new(checker)), Arc::default());
        let handle = match builder.spawn(handler(plan, &checker, &on_enough)) {
            Ok(handle) => handle,
            Err(error) => return self.is_open(&error),
        };
        let _ = on_enough.set(handle.clone());
        // The handler stops its own watcher, unless the handler had seen enough events before its
        // handle was set.
        while !handle.join(Duration::from_millis(5)) {
            let Ok(seen) = checker.try_lock().map(|checker| checker.seen()) else { continue };
            if seen >= plan.enough {
                handle.stop();
                if !handle.join(PATIENCE) {
                    lock(&checker).fault(format_args!("a stopped watcher does not end"));
                }
                break;
            }
        }
        finish(&mut lock(&checker), || Some(handle.stats()));
        true
    }

    /// Runs a handler on the current thread. Returns `false` if the bus is closed.
    fn run_handler(&mut self, plan: &Plan) -> bool {
        self.ledger.work(&self.name, format!("runner, {plan:?}"));
        let Some((builder, checker)) = plan.build(&self.bus, &self.ledger, &self.name) else { return true };
        let (checker, on_enough) = (Arc::new(Mutex::new(checker)), Arc::default());
        let runner = match builder.runner(handler(plan, &checker, &on_enough)) {
            Ok(runner) => runner,
            Err(error) => return self.is_open(&error),
        };
        let handle = runner.handle();
        let _ = on_enough.set(handle.clone());
        runner.run();
        finish(&mut lock(&checker), || Some(handle.stats()));
        true
    }

    /// Returns `false`, which ends the visits. The only valid reason for a failed registration is
    /// that the bus has ended. Any other reason is recorded as a fault.
    pub(crate) fn is_open(&self, error: &WatchError) -> bool {
        if !matches!(error, WatchError::Closed) || !self.ledger.is_over() {
            self.ledger.fault(format!("{}: {error}", self.name));
        }
        false
    }
}

/// Returns a handler that stops its own watcher when the handler has seen enough events.
pub(crate) fn handler(
    plan: &Plan,
    checker: &Arc<Mutex<Checker>>,
    on_enough: &Arc<OnceLock<eventcast::WatchHandle>>,
) -> impl FnMut(Delivery<&Tick>) + Send + use<> {
    let (plan, checker, on_enough) = (plan.clone(), checker.clone(), on_enough.clone());
    let mut calls = 0;
    move |delivery| {
        calls += 1;
        let panics = plan.handler_panics == Some(calls);
        let seen = {
            let mut checker = lock(&checker);
            take(delivery, &mut checker);
            checker.gave_up |= panics && plan.stop_on_panic;
            checker.seen()
        };
        if seen >= plan.enough {
            if let Some(handle) = on_enough.get() {
                handle.stop();
            }
        }
        assert!(!panics, "{ON_PURPOSE}: handler");
    }
}

/// Receives once. Returns whether the watcher has ended.
fn receive(form: Form, watcher: &mut Watcher<Tick>, checker: &mut Checker) -> bool {
    let copies = !matches!(form, Form::Ref | Form::Batch);
    match catch_unwind(AssertUnwindSafe(|| step(form, watcher, checker))) {
        Ok(Step::More) => false,
        Ok(Step::Empty) => {
            thread::sleep(Duration::from_micros(200));
            false
        }
        Ok(Step::End) => true,
        Err(_) => {
            panicked(copies, checker);
            false
        }
    }
}

fn step(form: Form, watcher: &mut Watcher<Tick>, checker: &mut Checker) -> Step {
    let delivery = match form {
        Form::Recv => watcher.recv().map_err(|_| Step::End),
        Form::Timeout => watcher.recv_timeout(Duration::from_millis(1)).map_err(|error| match error {
            RecvTimeoutError::Timeout => Step::More,
            RecvTimeoutError::Ended => Step::End,
        }),
        Form::Select => {
            let mut select = Select::new();
            watcher.add_to(&mut select);
            select.ready();
            drop(select);
            watcher.try_recv().map_err(|error| match error {
                TryRecvError::Empty => Step::More,
                TryRecvError::Ended => Step::End,
            })
        }
        Form::Try => watcher.try_recv().map_err(|error| match error {
            TryRecvError::Empty => Step::Empty,
            TryRecvError::Ended => Step::End,
        }),
        Form::Events => watcher.into_iter().next().ok_or(Step::End),
        Form::Ref => {
            let Ok(delivery) = watcher.recv_ref() else { return Step::End };
            take(delivery, checker);
            return Step::More;
        }
        Form::Batch => {
            let Ok(batch) = watcher.recv_batch() else { return Step::End };
            if batch.lagged > 0 {
                checker.gap(batch.lagged);
            }
            batch.iter().for_each(|tick| checker.event(tick));
            return Step::More;
        }
    };
    match delivery {
        Ok(delivery) => {
            take(delivery.as_ref(), checker);
            Step::More
        }
        Err(step) => step,
    }
}

/// Waits until the accounting is correct, or records a fault if the wait takes too long.
fn finish(checker: &mut Checker, stats: impl Fn() -> Option<WatcherStats>) {
    let start = Instant::now();
    while !checker.finish(stats().as_ref()) {
        if start.elapsed() > PATIENCE {
            return checker.stuck(stats().as_ref());
        }
        thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn take(delivery: Delivery<&Tick>, checker: &mut Checker) {
    match delivery {
        Delivery::Event(tick) => checker.event(tick),
        Delivery::Lagged(count) => checker.gap(count),
    }
}

/// Records a panic during a receive call. Only an event's `Clone` may panic during such a call.
pub(crate) fn panicked(copies: bool, checker: &mut Checker) {
    if copies {
        checker.unclonable();
    } else {
        checker.fault(format_args!("a panic came out of a receive that copies nothing"));
    }
}

pub(crate) fn leave_in_panic(watcher: Watcher<Tick>) {
    let left = catch_unwind(AssertUnwindSafe(move || {
        let _watcher = watcher;
        panic_any(format!("{ON_PURPOSE}: reader"));
    }));
    debug_assert!(left.is_err());
}

pub(crate) fn lock(checker: &Mutex<Checker>) -> std::sync::MutexGuard<'_, Checker> {
    checker.lock().unwrap_or_else(PoisonError::into_inner)
}
