//! A round that combines all operations, and its checks.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use eventcast::stats::ShutdownReport;
use eventcast::{Broadcaster, BusOptions, Delivery, Watcher};
use test_support::Rng;

use super::check::Checked;
use super::end::{end, wait_for_progress};
use super::event::{Ident, Origin, Payload};
use super::plan::{FOREVER, Handled, Made, Published, Read, random_watcher};
use super::publish::{Round, hammer, publisher};
use super::read::{spawn_handler, spawn_reader};
use super::receive::receive;
use super::running::Running;
use super::tasks;

const MAX_PUBLISHERS: u64 = 3;

/// The watchers that exist from the beginning.
struct Watchers {
    readers: Vec<Running<Read>>,
    handlers: Vec<Handled>,
    /// A lossless watcher that is not read before the end.
    stuck: Option<(Watcher<Payload>, Made)>,
}

impl Watchers {
    fn random(bus: &Broadcaster<Payload>, rng: &mut Rng) -> Self {
        let mut readers = Vec::new();
        for i in 0..rng.below(4) {
            let lossless = i == 0;
            let (builder, made) = random_watcher(bus, rng, None, lossless);
            readers.push(spawn_reader(builder.watch().unwrap(), made, rng.fork(), lossless));
        }
        let handlers = (0..rng.below(3)).map(|_| spawn_handler(bus, rng)).collect();
        let stuck = rng.once_in(4).then(|| {
            let (builder, made) = random_watcher(bus, rng, None, true);
            (builder.watch().unwrap(), made)
        });
        Self { readers, handlers, stuck }
    }

    /// Reads all watchers to the end, including those that the publishers have registered.
    fn read_to_the_end(self, published: &mut [Published], rng: &mut Rng) -> (Vec<Read>, Vec<Handled>) {
        let Self { mut readers, handlers, stuck } = self;
        let mut read = Vec::new();
        if let Some((mut watcher, made)) = stuck {
            let mut log = Vec::new();
            while receive(&mut watcher, rng, &mut log) {}
            read.push(Read { made, log, kept: Some(watcher) });
        }
        readers.extend(published.iter_mut().flat_map(|told| told.readers.drain(..)));
        read.extend(readers.into_iter().map(Running::join));
        for handler in &handlers {
            assert!(handler.handle.join(FOREVER));
        }
        (read, handlers)
    }
}

fn random_bus(rng: &mut Rng, hammers: bool, is_inline: bool) -> Arc<Broadcaster<Payload>> {
    let incoming_capacity = if hammers { rng.pick(&[16, 512]) } else { rng.pick(&[1, 1, 2, 5, 16]) };
    let options =
        BusOptions::default().incoming_capacity(incoming_capacity).max_batch(rng.pick(&[1, 2, 3, 8, 64]));
    Arc::new(Broadcaster::with_options(options.inline(is_inline)).unwrap())
}

fn spawn_publisher(round: &Arc<Round>, number: u32, hammers: bool, rng: &mut Rng) -> Running<Published> {
    let (round, own) = (round.clone(), rng.fork());
    if !hammers && rng.once_in(2) {
        return Running::task(rng, tasks::publisher(round, number, own));
    }
    Running::thread(move || if hammers { hammer(&round, number) } else { publisher(&round, number, own) })
}

/// Publishes, and ends the bus. Either the publishers finish, which requires that no publisher
/// waits forever, or the bus ends while the publishers are still publishing.
fn publish_until_the_end(
    round: &Arc<Round>,
    handlers: &mut [Handled],
    hammers: bool,
    rng: &mut Rng,
) -> (Vec<Published>, ShutdownReport) {
    let publishers: Vec<_> = (1..=rng.below(MAX_PUBLISHERS + 1) as u32)
        .map(|number| spawn_publisher(round, number, hammers, rng))
        .collect();
    let until = rng.below(publishers.len() as u64 * if hammers { 500 } else { 20 } + 1);
    wait_for_progress(round, until, rng);
    if let Some(handler) = handlers.first_mut() {
        if rng.once_in(3) {
            handler.was_stopped = true;
            handler.handle.stop();
        }
    }
    wait_for_progress(round, until + 10, rng);
    let join = || publishers.into_iter().map(Running::join).collect();
    if !round.is_stuck && rng.once_in(3) {
        let published = join();
        (published, end(round, rng))
    } else {
        let report = end(round, rng);
        (join(), report)
    }
}

/// Reads all events in their common order.
fn read_witness(witness: &mut Watcher<Payload>) -> Vec<Ident> {
    let mut order = Vec::new();
    while let Ok(delivery) = witness.recv_ref() {
        match delivery {
            Delivery::Event(event) => order.push(event.ident),
            Delivery::Lagged(count) => panic!("the witness lost {count} events"),
        }
    }
    assert_eq!(witness.stats().delivered, order.len() as u64);
    order
}

/// Waits until the bus has freed all dropped watchers, after which nothing changes. Handlers that
/// ended with the bus stay listed. If their counts never balance, the round hangs.
fn wait_until_settled(bus: &Broadcaster<Payload>, read: &[Read], handlers: &[Handled]) {
    let kept = 1 + read.iter().filter(|read| read.kept.is_some()).count();
    let handled: HashSet<String> = handlers.iter().map(|handler| handler.handle.stats().name).collect();
    let settled = || {
        let (ended, other): (Vec<_>, Vec<_>) =
            bus.stats().watchers.into_iter().partition(|watcher| handled.contains(&watcher.name));
        other.len() <= kept && ended.iter().all(|w| w.offered == w.delivered + w.dropped.total())
    };
    while !settled() {
        thread::yield_now();
    }
}

/// Runs a round on a bus with a dispatcher, or on an inline bus.
pub(crate) fn run_round(seed: u64, is_inline: bool) {
    let mut rng = Rng(seed);
    let origin = Origin::new(rng.once_in(2));
    let hammers = rng.once_in(3);
    let bus = random_bus(&mut rng, hammers, is_inline);
    // This watcher never loses an event, because the number of published events does not exceed its
    // capacity.
    let mut witness = bus.watch_builder().name("witness").queue_capacity(4096).watch().unwrap();
    let mut watchers = Watchers::random(&bus, &mut rng);
    let round = Arc::new(Round {
        bus: bus.clone(),
        origin: origin.clone(),
        progress: AtomicU64::new(0),
        is_stuck: watchers.stuck.is_some(),
        poison: rng.once_in(3),
        positions: watchers.handlers.iter().map(|handler| handler.position.clone()).collect(),
    });
    let (mut published, report) = publish_until_the_end(&round, &mut watchers.handlers, hammers, &mut rng);
    assert!(bus.publisher().try_publish(origin.event(Ident { publisher: 9, number: 0 }, false)).is_err());
    assert!(bus.watch().is_err());

    let order = read_witness(&mut witness);
    let (read, handlers) = watchers.read_to_the_end(&mut published, &mut rng);
    wait_until_settled(&bus, &read, &handlers);
    let result = Checked { bus: &bus, report: &report, order: &order, published: &published };
    result.check_publishers();
    result.check_readers(&read);
    result.check_handlers(&handlers);
    result.check_departed(&read, &handlers);
    result.note_what_was_met(&read);

    drop((witness, read, handlers, round));
    drop(bus);
    assert_eq!(origin.alive.load(Ordering::SeqCst), 0, "events are left alive");
}
