//! Publishers on threads and in tasks, with varying rates.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use eventcast::Publisher;
use eventcast::error::PublishError;

use super::dice::Dice;
use super::ledger::{Ledger, add};
use super::tick::{CLASSES, Mood, Tick};

/// The maximum length of a published batch, in events.
pub(crate) const BATCH: u64 = 48;

/// The longest phase at one rate, in microseconds.
const PHASE: u64 = 300_000;

pub(crate) struct Source {
    ledger: Arc<Ledger>,
    publisher: Publisher<Tick>,
    dice: Dice,
    number: usize,
    next: u64,
    /// The pause between two publish calls, and the time at which the pause changes.
    pause: Duration,
    until: Instant,
}

impl Source {
    pub(crate) fn new(ledger: &Arc<Ledger>, publisher: Publisher<Tick>, seed: u64, number: usize) -> Self {
        let dice = Dice::new(seed, 1000 + number as u64);
        let (pause, until) = (Duration::ZERO, Instant::now());
        Self { ledger: ledger.clone(), publisher, dice, number, next: 0, pause, until }
    }

    fn tick(&mut self) -> Tick {
        self.next += 1;
        let mood = match self.dice.roll(20_000) {
            0 => Mood::Unclonable,
            1 => Mood::Explosive,
            _ => Mood::Calm,
        };
        Tick::new(Some(self.number), self.next, self.dice.roll(CLASSES as u64) as usize, mood)
    }

    fn batch(&mut self) -> Vec<Tick> {
        (0..self.dice.roll(BATCH)).map(|_| self.tick()).collect()
    }

    fn count(&self, published: Result<(), PublishError<Tick>>) {
        self.count_batch(
            1,
            published.map_err(|error| match error {
                PublishError::Full(tick) => PublishError::Full(vec![tick]),
                error => PublishError::Closed(vec![error.into_inner()]),
            }),
        );
    }

    fn count_batch(&self, events: usize, published: Result<(), PublishError<Vec<Tick>>>) {
        let (counter, mut refused) = match published {
            Ok(()) => (&self.ledger.full, Vec::new()),
            Err(PublishError::Full(refused)) => (&self.ledger.full, refused),
            Err(error) => (&self.ledger.stopped, error.into_inner()),
        };
        add(counter, refused.len() as u64);
        add(&self.ledger.accepted, (events - refused.len()) as u64);
        // The refused events are dropped here. Unless their mood is changed, some of the events
        // would panic when they are dropped.
        for tick in &mut refused {
            tick.mood = Mood::Calm;
        }
    }

    /// Returns how long to pause now, or `None` once the bus has been closed.
    fn pace(&mut self) -> Option<Duration> {
        if self.ledger.is_over() && self.publisher.is_closed() {
            return None;
        }
        if Instant::now() >= self.until {
            self.until = Instant::now() + self.dice.micros(PHASE);
            self.pause = match self.dice.roll(4) {
                0 => Duration::ZERO,
                1 => Duration::from_micros(20),
                2 => Duration::from_micros(200),
                _ => Duration::from_millis(3),
            };
        }
        Some(self.pause)
    }

    fn wants_rest(&self) -> bool {
        self.ledger.lull.load(Ordering::SeqCst)
    }

    pub(crate) fn run(mut self) {
        let mut rests = false;
        while let Some(pause) = self.pace() {
            self.rest(&mut rests);
            if rests {
                thread::sleep(Duration::from_millis(1));
                continue;
            }
            match self.dice.roll(8) {
                0..4 => {
                    let tick = self.tick();
                    self.count(self.publisher.try_publish(tick));
                }
                4 => {
                    let tick = self.tick();
                    self.count(self.publisher.publish(tick));
                }
                5 => {
                    let (tick, limit) = (self.tick(), self.dice.micros(500));
                    self.count(self.publisher.publish_timeout(tick, limit));
                }
                6 => {
                    let batch = self.batch();
                    self.count_batch(batch.len(), self.publisher.publish_batch(batch));
                }
                _ => {
                    let batch = self.batch();
                    self.count_batch(batch.len(), self.publisher.try_publish_batch(batch));
                }
            }
            if !pause.is_zero() {
                thread::sleep(pause);
            }
        }
    }

    pub(crate) async fn run_async(mut self) {
        let mut rests = false;
        while let Some(pause) = self.pace() {
            self.rest(&mut rests);
            if rests {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
            let tick = self.tick();
            if self.dice.once_in(2) {
                self.count(self.publisher.publish_async(tick).await);
            } else if self.publisher.ready().await.is_ok() {
                self.count(self.publisher.try_publish(tick));
            } else {
                self.count(Err(self.publisher.try_publish(tick).expect_err("it is closed")));
            }
            if pause.is_zero() {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Updates the number of pausing publishers when a pause begins or ends.
    fn rest(&self, rests: &mut bool) {
        if *rests != self.wants_rest() {
            *rests = !*rests;
            let resting = &self.ledger.resting;
            if *rests {
                resting.fetch_add(1, Ordering::SeqCst)
            } else {
                resting.fetch_sub(1, Ordering::SeqCst)
            };
        }
    }
}
