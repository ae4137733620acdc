//! The iterators of a watcher: over its deliveries, and over its events alone.

use super::delivery::Delivery;
use super::watcher::Watcher;

impl<T: Clone + Send + Sync + 'static> Watcher<T> {
    /// Returns an iterator over events alone, which waits and ends as [`recv`](Self::recv) does.
    /// The iterator passes over losses, which stay counted in [`stats`](Self::stats).
    pub fn events(&mut self) -> Events<'_, T> {
        Events { watcher: self }
    }
}

/// An iterator over the events of a watcher, without its losses. See [`Watcher::events`].
#[derive(Debug)]
pub struct Events<'w, T> {
    watcher: &'w mut Watcher<T>,
}

impl<T: Clone + Send + Sync + 'static> Iterator for Events<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            if let Delivery::Event(event) = self.watcher.recv().ok()? {
                return Some(event);
            }
        }
    }
}

/// An iterator over the deliveries of a watcher that it owns. It waits and ends as
/// [`Watcher::recv`] does.
#[derive(Debug)]
pub struct IntoIter<T> {
    watcher: Watcher<T>,
}

impl<T: Clone + Send + Sync + 'static> Iterator for IntoIter<T> {
    type Item = Delivery<T>;

    fn next(&mut self) -> Option<Delivery<T>> {
        self.watcher.recv().ok()
    }
}

impl<T: Clone + Send + Sync + 'static> IntoIterator for Watcher<T> {
    type Item = Delivery<T>;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { watcher: self }
    }
}

/// An iterator over the deliveries of a watcher that the caller keeps. It waits and ends as
/// [`Watcher::recv`] does.
#[derive(Debug)]
pub struct Iter<'w, T> {
    watcher: &'w mut Watcher<T>,
}

impl<T: Clone + Send + Sync + 'static> Iterator for Iter<'_, T> {
    type Item = Delivery<T>;

    fn next(&mut self) -> Option<Delivery<T>> {
        self.watcher.recv().ok()
    }
}

#[allow(clippy::into_iter_without_iter, reason = "`iter_mut` would say nothing that `&mut watcher` does not")]
impl<'w, T: Clone + Send + Sync + 'static> IntoIterator for &'w mut Watcher<T> {
    type Item = Delivery<T>;
    type IntoIter = Iter<'w, T>;

    fn into_iter(self) -> Iter<'w, T> {
        Iter { watcher: self }
    }
}
