//! Helpers that create keys with hooks, and topics with a limit.

use std::cell::{Cell, RefCell};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use eventcast::topics::{Topics, TopicsOptions};

/// Runs code that may panic. Returns `None` if the code has panicked.
pub(crate) fn quiet<R>(run: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(run)).ok()
}

type Hook = Box<dyn FnOnce()>;

thread_local! {
    /// The number of clones that succeed before a clone panics.
    pub(crate) static CLONE_PANICS: Cell<Option<u32>> = const { Cell::new(None) };
    /// A hook that is called when a key is hashed, after this number of other hash calls.
    pub(crate) static HASH_HOOK: RefCell<Option<(u32, Hook)>> = const { RefCell::new(None) };
    /// A hook that is called when the next key is dropped.
    pub(crate) static DROP_HOOK: RefCell<Option<Box<dyn Fn()>>> = const { RefCell::new(None) };
}

#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Key(pub(crate) &'static str);

impl Clone for Key {
    fn clone(&self) -> Self {
        match CLONE_PANICS.get() {
            Some(0) => {
                CLONE_PANICS.set(None);
                panic!("injected")
            }
            Some(left) => CLONE_PANICS.set(Some(left - 1)),
            None => {}
        }
        Self(self.0)
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let due = HASH_HOOK.with_borrow_mut(|hook| match hook {
            Some((0, _)) => hook.take().map(|(_, run)| run),
            Some((left, _)) => {
                *left -= 1;
                None
            }
            None => None,
        });
        if let Some(run) = due {
            run();
        }
        self.0.hash(state);
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        self.0
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        let _ = DROP_HOOK.try_with(|hook| {
            if let Ok(mut slot) = hook.try_borrow_mut() {
                if let Some(run) = slot.take() {
                    drop(slot);
                    run();
                }
            }
        });
    }
}

pub(crate) fn limited<K: Hash + Eq, T: Clone + Send + Sync + 'static>(most: usize) -> Topics<K, T> {
    Topics::with_options(TopicsOptions::default().max_topics(most)).unwrap()
}

/// A waker that sets a flag.
pub(crate) struct Flag(pub(crate) AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}
