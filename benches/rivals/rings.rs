//! The rivals whose readers poll a ring buffer. They spin, yield or sleep for a fixed time, because
//! nothing wakes them.

use std::thread;

use codas_flow::stage::{Proc, Stage};
use codas_flow::{Flow, FlowSubscriber};
use disruptor::Producer;
use disruptor::wait_strategies::WaitStrategy;

use crate::load::{Arrived, Load, Payload, QUEUE, QUEUE_POWER, See, run};
use crate::ours::until_all_came;

/// Runs a round with an `rtrb` ring buffer for each watcher. The ring buffers do not provide a way
/// to wait, so both sides yield.
pub fn rtrb<L: Load>(load: &L) -> Arrived<L::Seen> {
    let (mut senders, readers): (Vec<_>, Vec<_>) = (0..load.watchers())
        .map(|_| {
            let (tx, mut rx) = rtrb::RingBuffer::<Payload>::new(QUEUE);
            let reader = move |mut seen: L::Seen| {
                loop {
                    // Check `is_abandoned` before calling `pop`, because the last event may arrive
                    // between the two calls.
                    let is_over = rx.is_abandoned();
                    match rx.pop() {
                        Ok(payload) => seen.see(&payload),
                        Err(_) if is_over => return seen,
                        Err(_) => thread::yield_now(),
                    }
                }
            };
            (tx, reader)
        })
        .unzip();
    let publisher = move |id: usize| {
        load.publish(id, |payload| {
            for sender in &mut senders {
                while sender.push(payload).is_err() {
                    thread::yield_now();
                }
            }
        });
    };
    run(load, vec![publisher], readers, || ())
}

/// Runs a round with the `disruptor` crate and the given wait strategy. The crate's consumers have
/// their own threads, so the readers here only wait for the consumers' results.
pub fn disruptor<L: Load, W: WaitStrategy + 'static>(load: &L, wait: W) -> Arrived<L::Seen> {
    let (handlers, readers): (Vec<_>, Vec<_>) = (0..load.watchers())
        .map(|_| {
            let (mut see, seen) = until_all_came(load);
            let handler = move |payload: &Payload, _: disruptor::Sequence, _: bool| see(payload);
            (handler, move |_: L::Seen| seen.recv().expect("every event was handled"))
        })
        .unzip();
    let mut handlers = handlers.into_iter();
    let mut next = || handlers.next().expect("one for each watcher");
    /// This is a macro because the builder's type changes with the first and with the second
    /// handler.
    macro_rules! with_handlers {
        ($builder:expr, $use_producer:expr) => {{
            let builder = $builder.handle_events_with(next());
            if load.watchers() == 1 {
                $use_producer(Box::new(builder.build()))
            } else {
                let mut builder = builder.handle_events_with(next());
                for _ in 2..load.watchers() {
                    builder = builder.handle_events_with(next());
                }
                $use_producer(Box::new(builder.build()))
            }
        }};
    }
    if load.publishers() == 1 {
        let builder = disruptor::build_single_producer(QUEUE_POWER, || [0; 8], wait);
        return with_handlers!(builder, |producer| one_producer(load, producer, readers));
    }
    let builder = disruptor::build_multi_producer(QUEUE_POWER, || [0; 8], wait);
    with_handlers!(builder, |producer| many_producers(load, producer, readers))
}

fn one_producer<L: Load, R: FnOnce(L::Seen) -> L::Seen + Send>(
    load: &L,
    mut producer: Box<impl Producer<Payload> + Send>,
    readers: Vec<R>,
) -> Arrived<L::Seen> {
    let publisher = move |id: usize| load.publish(id, |payload| producer.publish(|slot| *slot = payload));
    run(load, vec![publisher], readers, || ())
}

fn many_producers<L, P, R>(load: &L, producer: Box<P>, readers: Vec<R>) -> Arrived<L::Seen>
where
    L: Load,
    P: Producer<Payload> + Clone + Send,
    R: FnOnce(L::Seen) -> L::Seen + Send,
{
    let publishers = (0..load.publishers())
        .map(|_| {
            let mut producer = producer.clone();
            move |id: usize| load.publish(id, |payload| producer.publish(|slot| *slot = payload))
        })
        .collect();
    run(load, publishers, readers, || drop(producer))
}

/// Reads the total number of events, for rings whose readers never end on their own. `next` passes
/// the next event to the reader's state, and returns `false` if there is none, in which case this
/// function yields.
fn read_all<S>(mut left: u64, mut seen: S, mut next: impl FnMut(&mut S) -> bool) -> S {
    while left > 0 {
        if next(&mut seen) {
            left -= 1;
        } else {
            thread::yield_now();
        }
    }
    seen
}

/// Runs a round with photon-ring's bounded channel. The channel's readers never end on their own,
/// so each reader stops after the total number of events. The readers yield when there is no event,
/// because photon-ring's own wait functions spin, which starves all threads if there are fewer
/// cores than threads.
pub fn photon_bounded<L: Load>(load: &L) -> Arrived<L::Seen> {
    let (mut publisher, subscribable) = photon_ring::channel_bounded::<Payload>(QUEUE_POWER, 0);
    let readers = (0..load.watchers())
        .map(|_| {
            let mut subscriber = subscribable.subscribe();
            move |seen: L::Seen| {
                read_all(load.total(), seen, |seen| {
                    subscriber.try_recv().map(|payload| seen.see(&payload)).is_ok()
                })
            }
        })
        .collect();
    let publish = move |id: usize| {
        load.publish(id, |payload| {
            while publisher.try_publish(payload).is_err() {
                thread::yield_now();
            }
        });
    };
    run(load, vec![publish], readers, || ())
}

/// Runs a round with photon-ring's event channel, whose readers yield in the same way as in
/// [`photon_bounded`].
pub fn photon_events<L: Load>(load: &L) -> Arrived<L::Seen> {
    let (mut publisher, subscribable) = photon_ring::event_channel::<Payload>(QUEUE_POWER, || [0; 8]);
    let readers = (0..load.watchers())
        .map(|_| {
            let mut subscriber = subscribable.subscribe();
            move |seen: L::Seen| {
                read_all(load.total(), seen, |seen| subscriber.process(|payload| seen.see(payload)).is_some())
            }
        })
        .collect();
    let publish = move |id: usize| {
        load.publish(id, |payload| {
            while !publisher.try_publish(|slot| *slot = payload) {
                thread::yield_now();
            }
        });
    };
    run(load, vec![publish], readers, || ())
}

/// The numbers of watchers for which this program creates flows. codas-flow takes the number of a
/// flow's subscribers as a constant.
pub(super) const FLOWS: [usize; 3] = [1, 4, 16];

fn flow(watchers: usize) -> (Flow<Payload>, Vec<FlowSubscriber<Payload>>) {
    fn of<const N: usize>() -> (Flow<Payload>, Vec<FlowSubscriber<Payload>>) {
        let (flow, subscribers) = Flow::new::<N>(QUEUE_POWER);
        (flow, subscribers.into())
    }
    match watchers {
        1 => of::<1>(),
        4 => of::<4>(),
        16 => of::<16>(),
        _ => panic!("{watchers} watchers are not in {FLOWS:?}"),
    }
}

/// Runs a round with the `codas-flow` crate. It has no waiting calls for threads. Its futures wake
/// their own task whenever they are pending, so they would keep a core busy too. Both sides
/// therefore call `try_next`, and yield in the same way as in [`photon_bounded`]. A publisher that
/// has claimed a position spins inside the crate until all earlier positions are published.
pub fn codas_flow<L: Load>(load: &L) -> Arrived<L::Seen> {
    let (flow, subscribers) = flow(load.watchers());
    let reader = |mut subscriber: FlowSubscriber<Payload>| {
        move |seen: L::Seen| {
            read_all(load.total(), seen, |seen| {
                subscriber.try_next().map(|payload| seen.see(&payload)).is_ok()
            })
        }
    };
    publish_to_flow(load, &flow, subscribers.into_iter().map(reader).collect())
}

/// Runs a round in which each reader of [`codas_flow`] is a stage, which handles all events that
/// are available before it frees their positions.
pub fn codas_stage<L: Load>(load: &L) -> Arrived<L::Seen> {
    let (flow, subscribers) = flow(load.watchers());
    let reader = |subscriber| {
        let (mut see, seen) = until_all_came(load);
        let mut stage = Stage::from(subscriber);
        stage.add_proc(move |_: &mut Proc, payload: &Payload| see(payload));
        move |_: L::Seen| {
            loop {
                if stage.proc().is_ok() {
                    continue;
                }
                if let Ok(seen) = seen.try_recv() {
                    return seen;
                }
                thread::yield_now();
            }
        }
    };
    publish_to_flow(load, &flow, subscribers.into_iter().map(reader).collect())
}

fn publish_to_flow<L, R>(load: &L, flow: &Flow<Payload>, readers: Vec<R>) -> Arrived<L::Seen>
where
    L: Load,
    R: FnOnce(L::Seen) -> L::Seen + Send,
{
    let publishers = (0..load.publishers())
        .map(|_| {
            let mut flow = flow.clone();
            move |id: usize| {
                load.publish(id, |payload| {
                    loop {
                        match flow.try_next() {
                            Ok(position) => return position.publish(payload),
                            Err(_) => thread::yield_now(),
                        }
                    }
                });
            }
        })
        .collect();
    run(load, publishers, readers, || ())
}
