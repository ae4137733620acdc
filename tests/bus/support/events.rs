//! Events that count their copies, run code or panic.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use eventcast::{Broadcaster, Watcher};

/// An event that counts how many of its copies are alive.
#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) number: u64,
    live: Live,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Live(Arc<AtomicI64>);

impl Live {
    pub(crate) fn event(&self, number: u64) -> Tracked {
        self.0.fetch_add(1, Ordering::SeqCst);
        Tracked { number, live: self.clone() }
    }

    /// Returns events numbered from zero.
    pub(crate) fn batch(&self, count: u64) -> impl Iterator<Item = Tracked> {
        (0..count).map(|number| self.event(number))
    }

    pub(crate) fn count(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    #[track_caller]
    pub(crate) fn assert_at_most(&self, bound: u64) {
        let count = self.count();
        assert!(count <= bound.try_into().unwrap(), "{count} events are alive, but the bound is {bound}");
    }
}

impl Clone for Tracked {
    fn clone(&self) -> Self {
        self.live.event(self.number)
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.live.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The place in which a [`Caller`] makes its call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum At {
    Filter,
    Hook,
    Clone,
    Drop,
}

type Call = Box<dyn FnOnce() + Send>;

/// An event that makes a call in one place. The event's copies share the call, which is made only
/// once.
pub(crate) struct Caller {
    pub(crate) number: u64,
    at: At,
    call: Arc<Mutex<Option<Call>>>,
}

impl Caller {
    pub(crate) fn silent(number: u64) -> Self {
        Self { number, at: At::Drop, call: Arc::default() }
    }

    /// Returns three events, numbered from zero, that share a call.
    pub(crate) fn three(at: At, call: impl FnOnce() + Send + 'static) -> [Self; 3] {
        let call = Arc::new(Mutex::new(Some(Box::new(call) as Call)));
        [0, 1, 2].map(|number| Self { number, at, call: call.clone() })
    }

    /// Registers a watcher for event numbers below ten, with a queue of one event. Of three events,
    /// one fits and may be copied, and the other two are lost.
    pub(crate) fn watch(bus: &Broadcaster<Self>) -> Watcher<Self> {
        let builder = bus.watch_builder().queue_capacity(1).filter(|event: &Self| {
            event.reach(At::Filter);
            event.number < 10
        });
        builder.on_drop(|_, lost| lost.iter().for_each(|event| event.reach(At::Hook))).watch().unwrap()
    }

    fn reach(&self, at: At) {
        if at == self.at {
            let call = self.call.lock().unwrap().take();
            if let Some(call) = call {
                call();
            }
        }
    }
}

impl Clone for Caller {
    fn clone(&self) -> Self {
        self.reach(At::Clone);
        Self { number: self.number, at: self.at, call: self.call.clone() }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.reach(At::Drop);
    }
}

/// Calls a function when it is dropped.
pub(crate) struct AtDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for AtDrop<F> {
    fn drop(&mut self) {
        self.0();
    }
}

type Run = Box<dyn FnMut() + Send>;

/// An event that may run a function when its last copy is dropped.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) number: u64,
    _at_drop: Option<Arc<Mutex<AtDrop<Run>>>>,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.number.fmt(f)
    }
}

impl Loaded {
    pub(crate) fn plain(number: u64) -> Self {
        Self { number, _at_drop: None }
    }

    pub(crate) fn with(number: u64, run: impl FnMut() + Send + 'static) -> Self {
        Self { number, _at_drop: Some(Arc::new(Mutex::new(AtDrop(Box::new(run))))) }
    }
}

/// The place in which a [`Bomb`] panics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Panics {
    Never,
    InClone,
    InDrop,
    Always,
}

/// An event whose `Clone` or `Drop` panics.
#[derive(Debug)]
pub(crate) struct Bomb {
    pub(crate) number: u64,
    panics: Panics,
    bombs: Bombs,
}

/// Creates the bombs of a test, and counts those that have been dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bombs(Arc<AtomicU64>);

impl Bombs {
    pub(crate) fn event(&self, number: u64, panics: Panics) -> Bomb {
        Bomb { number, panics, bombs: self.clone() }
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Clone for Bomb {
    fn clone(&self) -> Self {
        assert!(matches!(self.panics, Panics::Never | Panics::InDrop), "clone of {}", self.number);
        self.bombs.event(self.number, self.panics)
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.bombs.0.fetch_add(1, Ordering::SeqCst);
        // A second panic during unwinding would abort the process.
        let panics = matches!(self.panics, Panics::InDrop | Panics::Always) && !thread::panicking();
        assert!(!panics, "drop of {}", self.number);
    }
}
