//! Random multi-threaded programs on the real bus. The result is not deterministic, but not every
//! result is allowed. For each watcher, the twin decides whether there is a history that would make
//! the watcher see exactly the observed result.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use eventcast::OverflowPolicy;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::api::{Event, Filter, How, Item, Refused, Spec};
use super::mailbox::Mailbox;
use super::real::{Real, RealReader, figures};

/// The distance between the first events of two publishers.
const EACH: u64 = 1000;

#[derive(Clone, Debug)]
pub struct Crowd {
    incoming_capacity: usize,
    max_batch: usize,
    publishers: Vec<Vec<(How, usize)>>,
    readers: Vec<Script>,
}

/// The steps of a reader's thread.
#[derive(Clone, Debug)]
struct Script {
    queue_capacity: usize,
    policy: OverflowPolicy,
    filter: Filter,
    prefix: usize,
    /// Whether the reader registers while others publish.
    is_late: bool,
    /// The kinds of reads, which are repeated until the end. 0 receives an item, 1 borrows one, 2
    /// receives a batch, and 3 yields to other threads and then receives an item.
    reads: Vec<u8>,
    /// The number of reads after which the reader stops. A late reader does not stop, because the
    /// test could then not determine where the reader's part begins.
    stops_after: Option<usize>,
}

pub fn crowd() -> impl Strategy<Value = Crowd> {
    let how = prop::sample::select(vec![How::Try, How::Wait, How::Timeout, How::Batch, How::TryBatch]);
    let publisher = prop::collection::vec((how, 1..8_usize), 1..25);
    let policy = prop_oneof![
        3 => Just(OverflowPolicy::DropIncoming),
        3 => Just(OverflowPolicy::DropOldest),
        1 => Just(OverflowPolicy::Wait),
        1 => Just(OverflowPolicy::WaitFor(Duration::ZERO)),
        1 => Just(OverflowPolicy::WaitFor(Duration::from_micros(50))),
    ];
    let filter = prop_oneof![2 => Just(Filter::None), 1 => (2..5_u64).prop_map(Filter::Without)];
    let reads = prop::collection::vec(0..4_u8, 1..8);
    let stops = prop::option::weighted(0.3, 0..30_usize);
    let reader = (1..13_usize, policy, filter, 0..3_usize, any::<bool>(), reads, stops).prop_map(
        |(queue_capacity, policy, filter, prefix, is_late, reads, stops_after)| Script {
            queue_capacity,
            policy,
            filter,
            prefix,
            is_late,
            reads,
            stops_after,
        },
    );
    (1..5_usize, 1..9_usize, prop::collection::vec(publisher, 1..4), prop::collection::vec(reader, 1..5))
        .prop_map(|(incoming_capacity, max_batch, publishers, readers)| Crowd {
            incoming_capacity,
            max_batch,
            publishers,
            readers,
        })
}

/// The results of a reader.
struct Seen {
    spec: Spec,
    log: Vec<Item>,
    /// The reader, kept until everything is counted, because a stopped reader's last events are
    /// counted on the dispatcher's thread.
    reader: RealReader,
    is_late: bool,
    has_stopped: bool,
}

pub fn run(crowd: &Crowd) -> Result<(), TestCaseError> {
    let bus = Arc::new(Real::new(crowd.incoming_capacity, crowd.max_batch, false));
    let witness = Script {
        queue_capacity: 3,
        policy: OverflowPolicy::Wait,
        filter: Filter::None,
        prefix: 0,
        is_late: false,
        reads: vec![2],
        stops_after: None,
    };
    let start = Arc::new(Barrier::new(crowd.publishers.len() + crowd.readers.len() + 1));
    let (registered, registrations) = mpsc::channel::<()>();
    let reading: Vec<_> = [&witness]
        .into_iter()
        .chain(&crowd.readers)
        .map(|script| {
            let (bus, script, start) = (bus.clone(), script.clone(), start.clone());
            let early = (!script.is_late).then(|| register(&bus, &script));
            let registered = registered.clone();
            thread::spawn(move || {
                start.wait();
                let (reader, spec) = early.unwrap_or_else(|| register(&bus, &script));
                drop(registered);
                read(reader, spec, &script)
            })
        })
        .collect();
    let publishing = (0..).zip(&crowd.publishers).map(|(who, program)| {
        let (bus, program, start) = (bus.clone(), program.clone(), start.clone());
        thread::spawn(move || {
            start.wait();
            publish(&bus, who * EACH + 1, &program)
        })
    });
    let publishing: Vec<_> = publishing.collect();
    let accepted: Vec<_> = publishing.into_iter().map(|thread| thread.join().unwrap()).collect();
    // Late readers have also been registered before the bus is closed.
    drop(registered);
    prop_assert_eq!(registrations.recv(), Err(mpsc::RecvError));
    prop_assert!(bus.shutdown(false));
    let mut seen = reading.into_iter().map(|thread| thread.join().unwrap());
    let order = one_order(&seen.next().unwrap(), &accepted)?;
    seen.try_for_each(|seen| seen.explain(&order))
}

fn register(bus: &Real, script: &Script) -> (RealReader, Spec) {
    let spec = Spec {
        queue_capacity: script.queue_capacity,
        policy: script.policy,
        prefix: (0..script.prefix as u64).map(|n| Event::MAX - n).collect(),
        filter: script.filter,
        speaker: None,
    };
    (bus.watch(&spec, 0).expect("nobody has closed it"), spec)
}

/// Performs the program's publish calls, and returns the accepted events in order.
fn publish(bus: &Real, first: Event, program: &[(How, usize)]) -> Vec<Event> {
    let mut next = first;
    let mut accepted = Vec::new();
    for (how, count) in program {
        let count = if matches!(how, How::Batch | How::TryBatch) { *count as u64 } else { 1 };
        let events: Vec<_> = (next..next + count).collect();
        next += count;
        let back = match bus.publish(events.clone(), *how) {
            Ok(()) => 0,
            Err(Refused::Full(back) | Refused::Stopped(back)) => {
                assert!(events.ends_with(&back), "{back:?} returned from {events:?}");
                back.len()
            }
            Err(Refused::Waiting) => 1,
        };
        accepted.extend(&events[..events.len() - back]);
    }
    accepted
}

fn read(mut reader: RealReader, spec: Spec, script: &Script) -> Seen {
    let stop = reader.watcher.handle();
    let stops_after = script.stops_after.filter(|_| !script.is_late);
    let mut log = Vec::new();
    for (count, how) in script.reads.iter().cycle().enumerate() {
        if stops_after == Some(count) {
            stop.stop();
        }
        let more = match how {
            0 => reader.watcher.recv().map(|delivery| log.push(delivery.into())),
            1 => reader.watcher.recv_ref().map(|delivery| log.push(delivery.into())),
            2 => reader.watcher.recv_batch().map(|batch| {
                if batch.lagged > 0 {
                    log.push(Item::Lagged(batch.lagged));
                }
                log.extend(batch.iter().copied().map(Item::Event));
            }),
            _ => {
                thread::yield_now();
                // A script that only yields would never finish.
                reader.watcher.recv().map(|delivery| log.push(delivery.into()))
            }
        };
        if more.is_err() {
            break;
        }
    }
    Seen { spec, log, reader, is_late: script.is_late, has_stopped: stops_after.is_some() }
}

/// Returns the order in which a reader without losses saw the events. Each event must occur once,
/// and each publisher's events must be in the order in which they were published.
fn one_order(witness: &Seen, accepted: &[Vec<Event>]) -> Result<Vec<Event>, TestCaseError> {
    let mut order = Vec::new();
    let mut by_publisher: HashMap<u64, Vec<Event>> = HashMap::new();
    for item in &witness.log {
        let Item::Event(event) = *item else {
            return Err(TestCaseError::fail(format!("{item:?} for one who waits for all")));
        };
        by_publisher.entry(event / EACH).or_default().push(event);
        order.push(event);
    }
    for (who, accepted) in (0..).zip(accepted) {
        prop_assert_eq!(&by_publisher.remove(&who).unwrap_or_default(), accepted);
    }
    prop_assert!(by_publisher.is_empty());
    Ok(order)
}

/// Merges consecutive gaps into one.
fn merged(items: impl IntoIterator<Item = Item>) -> Vec<Item> {
    let mut merged = Vec::new();
    for item in items {
        match (merged.last_mut(), item) {
            (Some(Item::Lagged(sum)), Item::Lagged(count)) => *sum += count,
            _ => merged.push(item),
        }
    }
    merged
}

impl Seen {
    /// Checks that the twin can be made to show the same items.
    fn explain(&self, order: &[Event]) -> Result<(), TestCaseError> {
        let stats = self.reader.watcher.stats();
        let counts = figures(&stats);
        let dropped: u64 = counts.dropped.iter().sum();
        prop_assert_eq!(counts.offered, counts.delivered + dropped, "{:?}", stats);
        let (prefix, log) = self.log.split_at(self.spec.prefix.len().min(self.log.len()));
        let wanted: Vec<_> = self.spec.prefix.iter().copied().map(Item::Event).collect();
        prop_assert_eq!(prefix, &wanted[..]);

        // The reader's part of the order extends to the end. The part starts at the beginning or,
        // for a late reader, at the position given by the counts.
        let part = if self.is_late {
            let length = (counts.offered + counts.filtered) as usize;
            prop_assert!(length <= order.len(), "{:?} of {}", stats, order.len());
            &order[order.len() - length..]
        } else {
            order
        };
        let offered: Vec<_> =
            part.iter().copied().filter(|event| self.spec.filter.keeps(*event) == Some(true)).collect();
        if !self.has_stopped {
            prop_assert_eq!(counts.offered, offered.len() as u64);
            prop_assert_eq!(counts.filtered, (part.len() - offered.len()) as u64);
        }

        // Each gap must be at the position where its number of events is missing.
        let mut at = 0;
        let mut delivered = HashSet::new();
        for item in log {
            match item {
                Item::Event(event) => {
                    prop_assert_eq!(offered.get(at), Some(event), "{:?} of {:?}", log, offered);
                    delivered.insert(*event);
                    at += 1;
                }
                Item::Lagged(count) => at += *count as usize,
            }
        }
        prop_assert_eq!(counts.delivered, delivered.len() as u64);
        prop_assert!(at as u64 <= counts.offered, "{:?} of {}", log, counts.offered);
        if self.has_stopped {
            return Ok(());
        }
        prop_assert_eq!(at, offered.len(), "{:?} of {:?}", log, offered);
        let lost: HashSet<_> = offered.iter().copied().filter(|event| !delivered.contains(event)).collect();
        let told: HashSet<_> = self.reader.told().into_iter().map(|(_, event)| event).collect();
        prop_assert_eq!(&told, &lost, "the losses reported to the hook");
        prop_assert_eq!(dropped, lost.len() as u64);
        let expected = self.replay(&offered, &delivered);
        prop_assert_eq!(merged(log.iter().copied()), merged(expected), "{:?}", self.spec);
        Ok(())
    }

    /// Returns the items that the twin shows to a reader that reads as late as possible while still
    /// receiving these events. The queue is then as full as possible, so an event that is not lost
    /// even then cannot be lost.
    fn replay(&self, offered: &[Event], delivered: &HashSet<Event>) -> Vec<Item> {
        let mut mailbox =
            Mailbox::new(Spec { prefix: Vec::new(), filter: Filter::None, ..self.spec.clone() });
        let mut shown = Vec::new();
        for event in offered {
            let is_due = match self.spec.policy {
                // The queue would lose its oldest event.
                OverflowPolicy::DropOldest => {
                    mailbox.oldest().is_some_and(|oldest| delivered.contains(&oldest))
                }
                _ => delivered.contains(event),
            };
            if mailbox.is_full() && is_due {
                // If there is a gap before the event that frees capacity, the gap is received
                // first.
                while let Ok(item) = mailbox.receive() {
                    shown.push(item);
                    if matches!(item, Item::Event(_)) {
                        break;
                    }
                }
            }
            mailbox.offer(&[*event], Duration::ZERO);
            mailbox.settle(Duration::MAX, false);
        }
        shown.extend(std::iter::from_fn(|| mailbox.receive().ok()));
        shown
    }
}
