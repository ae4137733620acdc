//! The counts that a reader makes itself of each source.

use eventcast::Delivery;

/// An event on the bus: the source's number, and the source's own count of what it has published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reading {
    pub(crate) source: usize,
    pub(crate) number: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    /// The number that must come next, for each source. It is also the number of events that came.
    pub(crate) next: Vec<u64>,
    /// The number of events that came when another one was due.
    pub(crate) misplaced: u64,
    /// The number of events that did not come.
    pub(crate) lost: u64,
}

impl Tally {
    pub(crate) fn of(sources: usize) -> Self {
        Self { next: vec![0; sources], ..Self::default() }
    }

    pub(crate) fn take(&mut self, delivery: Delivery<&Reading>) {
        match delivery {
            Delivery::Event(reading) => self.add(*reading),
            Delivery::Lagged(lost) => self.lost += lost,
        }
    }

    pub(crate) fn add(&mut self, Reading { source, number }: Reading) {
        self.misplaced += u64::from(self.next[source] != number);
        self.next[source] = number + 1;
    }

    /// Returns what is wrong if the sources published these numbers of events.
    pub(crate) fn faults(&self, published: &[u64]) -> Vec<String> {
        let mut faults = Vec::new();
        if self.lost > 0 {
            faults.push(format!("{} lost", self.lost));
        }
        if self.misplaced > 0 {
            faults.push(format!("{} out of order", self.misplaced));
        }
        if self.next != published {
            faults.push(format!("received {:?} of {published:?} published", self.next));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::{Reading, Tally};
    use eventcast::Delivery;

    fn tally(readings: &[(usize, u64)]) -> Tally {
        let mut tally = Tally::of(2);
        for (source, number) in readings {
            tally.take(Delivery::Event(&Reading { source: *source, number: *number }));
        }
        tally
    }

    #[test]
    fn each_source_has_its_own_order() {
        assert_eq!(tally(&[(0, 0), (1, 0), (1, 1), (0, 1)]).faults(&[2, 2]), Vec::<String>::new());
    }

    #[test]
    fn what_is_missing_shows() {
        assert_eq!(tally(&[(0, 1)]).faults(&[2, 0]), ["1 out of order"]);
        assert_eq!(tally(&[(0, 0)]).faults(&[2, 0]), ["received [1, 0] of [2, 0] published"]);
        let mut tally = tally(&[(0, 0)]);
        tally.take(Delivery::Lagged(1));
        assert_eq!(tally.faults(&[2, 0]), ["1 lost", "received [1, 0] of [2, 0] published"]);
    }
}
