//! The events of one or more messages, with the gaps between them.

/// A gap, and the events that follow the gap.
pub(crate) struct Run<T> {
    /// The number of events that are missing before the first event.
    pub(crate) missing: u64,
    pub(crate) events: Vec<T>,
}

/// Events and gaps in order. Consecutive events share one vector, which can be published as it is.
pub(crate) struct Items<T> {
    runs: Vec<Run<T>>,
}

impl<T> Items<T> {
    pub(crate) const fn new() -> Self {
        Self { runs: Vec::new() }
    }

    /// Appends a gap. A hostile message may specify the size of a gap, so the addition saturates.
    pub(crate) fn lose(&mut self, events: u64) {
        match self.runs.last_mut() {
            _ if events == 0 => {}
            Some(run) if run.events.is_empty() => run.missing = run.missing.saturating_add(events),
            _ => self.runs.push(Run { missing: events, events: Vec::new() }),
        }
    }

    pub(crate) fn push(&mut self, event: T) {
        self.events().push(event);
    }

    /// Reserves capacity for events to push.
    pub(crate) fn reserve(&mut self, events: usize) {
        self.events().reserve(events);
    }

    fn events(&mut self) -> &mut Vec<T> {
        if self.runs.is_empty() {
            self.runs.push(Run { missing: 0, events: Vec::new() });
        }
        let last = self.runs.len() - 1;
        &mut self.runs[last].events
    }

    /// Returns the number of events, without the gaps.
    pub(crate) fn len(&self) -> usize {
        self.runs.iter().map(|run| run.events.len()).sum()
    }

    /// Removes and returns everything.
    pub(crate) fn take(&mut self) -> Vec<Run<T>> {
        std::mem::take(&mut self.runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_stay_between_their_events() {
        let mut items = Items::new();
        items.reserve(3);
        items.lose(0);
        items.push('a');
        items.lose(2);
        items.lose(u64::MAX);
        items.push('b');
        items.push('c');
        items.lose(1);
        assert_eq!(items.len(), 3);
        let runs: Vec<_> = items.take().into_iter().map(|run| (run.missing, run.events)).collect();
        assert_eq!(runs, [(0, vec!['a']), (u64::MAX, vec!['b', 'c']), (1, vec![])]);
        assert_eq!(items.len(), 0);
    }
}
