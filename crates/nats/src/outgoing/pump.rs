//! The outgoing side's task, which takes events from the bus, assembles them into messages, and
//! sends the messages to the server one by one.
//!
//! One message is in flight at a time. A message is sent with the same bytes and the same identity
//! until the server acknowledges it or its events count as lost, and only then is the next message
//! sent. A message that is too large for the server is split. The messages in the stream are
//! therefore in order, regardless of the state of the connection.

use std::pin::Pin;
use std::sync::{Arc, mpsc as blocking};
use std::time::Duration;

use eventcast::Watcher;
use eventcast::error::TryRecvError;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::client::Connection;
use crate::options::{OnFull, PublisherOptions};
use crate::retry::Backoff;
use crate::status::{CLIENT_ENDED, StatusCell};
use crate::stop::{Stop, passed};

use super::assembler::{Assembler, Message};
use super::send::{Answer, Sender};
use super::stats::NatsPublisherStats;

/// The interval between updates of the queue's statistics while a message is in flight.
const LOOK: Duration = Duration::from_millis(100);
/// A duration that is effectively unlimited.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// A request to report when all events that the bus has offered so far are settled.
pub(crate) type Flush = blocking::Sender<()>;

/// The state that the program's handle shares with the task.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) stats: Arc<Mutex<NatsPublisherStats>>,
    pub(crate) status: StatusCell,
}

/// The state of the outgoing side's task.
pub(crate) struct Pump<T> {
    watcher: Watcher<T>,
    intake: Intake<T>,
    sender: Sender,
    connection: Connection,
    options: PublisherOptions,
    shared: Shared,
    stop: Stop,
    requests: mpsc::UnboundedReceiver<Flush>,
    /// The pending flush requests, each with the number of received events that must be settled
    /// first.
    flushes: Vec<(u64, Flush)>,
    /// The subject of the last message that the server accepted. Messages without events use this
    /// subject, because a stream has already accepted it.
    subject: Option<Arc<str>>,
    /// The timer for the next update of the statistics while a message is in flight. The timer is
    /// kept between messages, because starting a timer may cost a system call.
    update: Pin<Box<Sleep>>,
    has_ended: bool,
}

/// The events on their way from the bus to the server.
struct Intake<T> {
    assembler: Assembler<T>,
    /// The number of events that were taken from the bus.
    received: u64,
    /// The number of events in the message in flight.
    on_its_way: u64,
    /// The time of the last message, or of the first loss after the last message.
    quiet_since: Instant,
}

impl<T: 'static> Intake<T> {
    /// Takes events from the bus, and records the loss before these events.
    fn take(&mut self, lagged: u64, events: &[T]) {
        if lagged > 0 && self.assembler.unreported() == 0 {
            self.quiet_since = Instant::now();
        }
        self.received += events.len() as u64;
        self.assembler.lose(lagged);
        for event in events {
            self.assembler.push(event);
        }
    }

    /// Returns the number of events in messages that are not acknowledged.
    fn in_flight(&self) -> u64 {
        self.on_its_way + self.assembler.events()
    }
}

impl<T: Clone + Send + Sync + 'static> Pump<T> {
    pub(crate) fn new(
        watcher: Watcher<T>,
        assembler: Assembler<T>,
        sender: Sender,
        options: PublisherOptions,
        shared: Shared,
        (stop, requests): (Stop, mpsc::UnboundedReceiver<Flush>),
    ) -> Self {
        let connection = sender.connection.clone();
        Self {
            watcher,
            intake: Intake { assembler, received: 0, on_its_way: 0, quiet_since: Instant::now() },
            sender,
            connection,
            options,
            shared,
            stop,
            requests,
            flushes: Vec::new(),
            subject: None,
            update: Box::pin(sleep(LOOK)),
            has_ended: false,
        }
    }

    /// Runs until the bus or the bridge has ended and all events have been sent, until the shutdown
    /// deadline has passed, or until the client has ended.
    pub(crate) async fn run(mut self) {
        let (mut connection, deadline) = (self.connection.clone(), passed(self.stop.clone()));
        let reason = tokio::select! {
            biased;
            () = self.work() => None,
            () = deadline => None,
            () = connection.ended() => Some(CLIENT_ENDED),
        };
        self.tell_link();
        self.abandon();
        self.shared.status.end(reason);
    }

    /// Runs until all events have been sent. If the future is dropped before it is ready, the
    /// events in the message in flight are still counted.
    async fn work(&mut self) {
        self.prepare().await;
        loop {
            self.fill().await;
            self.look();
            match self.next_message() {
                Some(message) => self.bring(message).await,
                None if self.has_ended => break,
                None => {}
            }
            self.answer_flushes();
        }
        self.say_goodbye().await;
    }

    /// Waits for the first connection, and creates the stream.
    async fn prepare(&mut self) {
        let mut connection = self.connection.clone();
        loop {
            tokio::select! {
                _ = connection.connected() => break,
                () = sleep(LOOK) => {
                    self.tell_link();
                    self.look();
                }
            }
        }
        match self.sender.ensure().await {
            Ok(()) => self.shared.status.ready(),
            Err(text) => self.shared.status.refused(text),
        }
    }

    /// Takes events until there is a message to send or other work to do.
    async fn fill(&mut self) {
        self.collect();
        let mut until = self.quiet_until();
        while !self.is_ready() {
            let had_open = self.intake.assembler.has_open();
            if had_open {
                until = until.min(Instant::now() + self.options.linger);
            }
            let mut stop = self.stop.clone();
            tokio::select! {
                biased;
                batch = self.watcher.recv_batch_async() => match batch {
                    Ok(batch) => self.intake.take(batch.lagged, &batch),
                    Err(_) => self.has_ended = true,
                },
                Some(flush) = self.requests.recv() => {
                    self.note(flush);
                    return;
                }
                Ok(()) = stop.changed() => {
                    self.stop = stop;
                    return;
                }
                Ok(()) = self.connection.link.changed() => self.tell_link(),
                () = sleep_until(until) => return,
            }
            self.collect();
            if !had_open {
                until = self.quiet_until();
            }
        }
    }

    /// Returns whether a message should be sent now.
    fn is_ready(&self) -> bool {
        let waits = !self.options.linger.is_zero() && self.flushes.is_empty();
        self.has_ended || self.intake.assembler.has_complete() || self.intake.assembler.has_open() && !waits
    }

    /// Takes the available events until a message is complete.
    fn collect(&mut self) {
        while !self.intake.assembler.has_complete() && !self.has_ended {
            match self.watcher.try_recv_batch() {
                Ok(batch) => self.intake.take(batch.lagged, &batch),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Ended) => self.has_ended = true,
            }
        }
    }

    /// Returns the time at which a message without events is due.
    fn quiet_until(&self) -> Instant {
        let has_loss = self.intake.assembler.unreported() > 0 && self.subject.is_some();
        let after = if has_loss { Some(self.options.gap_after) } else { self.options.heartbeat };
        self.intake.quiet_since + after.filter(|_| self.subject.is_some()).unwrap_or(NEVER)
    }

    /// Returns the message that should be sent now, or `None` if no message should be sent.
    fn next_message(&mut self) -> Option<Message> {
        let bytes = self.options.max_bytes.min(self.sender.max_payload());
        self.intake.assembler.set_max_bytes(bytes);
        let message = self.intake.assembler.take();
        message.or_else(|| {
            let has_loss = self.intake.assembler.unreported() > 0;
            let is_due = Instant::now() >= self.quiet_until();
            let is_asked = has_loss && (!self.flushes.is_empty() || self.has_ended);
            let subject = self.subject.clone().filter(|_| is_due || is_asked)?;
            Some(self.intake.assembler.control(subject, false))
        })
    }

    /// Sends a message repeatedly until the server accepts it or the message's events count as
    /// lost.
    async fn bring(&mut self, mut message: Message) {
        let mut backoff = Backoff::new(&self.options.retry);
        self.intake.on_its_way = message.head.count;
        loop {
            let refusals = self.connection.link().refusals;
            match self.attempt(&message).await {
                Answer::Acknowledged { is_duplicate } => {
                    return self.acknowledge(&message, is_duplicate);
                }
                Answer::TooLarge => {
                    if let Some(second) = message.split_off_half() {
                        self.intake.assembler.put_back(second);
                        self.intake.on_its_way = message.head.count;
                        continue;
                    }
                    self.intake.assembler.unsent.too_large += message.head.count;
                    return self.give_up(&message);
                }
                Answer::Full(text) if self.options.on_full == OnFull::Drop => {
                    self.shared.status.refused(text);
                    self.shared.stats.lock().refused += message.head.count;
                    self.give_up(&message);
                    if self.has_ended && message.head.count == 0 {
                        // No later message can report the loss.
                        self.intake.assembler.reported(message.head.lost);
                    }
                    return;
                }
                Answer::Full(text) | Answer::Refused(text) => self.shared.status.refused(text),
                Answer::NoStream => {
                    let text = self.sender.why_no_stream(&message.subject).await;
                    self.shared.status.refused(text);
                }
                Answer::None(text) => {
                    let link = self.connection.link();
                    if link.refusals != refusals {
                        self.shared.status.refused(link.refusal);
                        backoff.be_longest();
                    } else if link.is_connected {
                        self.shared.status.unavailable(text);
                    } else {
                        self.shared.status.link(&link);
                    }
                }
            }
            self.shared.stats.lock().retries += 1;
            self.pause(backoff.next()).await;
        }
    }

    /// Sends a message once.
    async fn attempt(&mut self, message: &Message) -> Answer {
        let (sender, mut connection) = (&self.sender, self.connection.clone());
        let attempt = async move {
            let epoch = connection.connected().await;
            tokio::select! {
                answer = sender.attempt(message) => answer,
                // The response to a message that was sent on the old connection may never arrive.
                () = connection.reconnected(epoch) => Answer::None("the connection was lost".to_owned()),
            }
        };
        tokio::pin!(attempt);
        loop {
            if self.update.is_elapsed() {
                self.update.as_mut().reset(Instant::now() + LOOK);
            }
            tokio::select! {
                biased;
                answer = &mut attempt => return answer,
                Some(flush) = self.requests.recv() => {
                    let target = self.intake.received + self.watcher.len() as u64;
                    self.flushes.push((target, flush));
                }
                () = self.update.as_mut() => {
                    self.tell_link();
                    self.look();
                }
            }
        }
    }

    /// Waits before the next attempt. A new connection or a request to stop ends the wait early.
    async fn pause(&mut self, pause: Duration) {
        let (mut stop, mut connection) = (self.stop.clone(), self.connection.clone());
        let epoch = connection.link().epoch;
        let over = sleep(pause);
        tokio::pin!(over);
        loop {
            tokio::select! {
                biased;
                Ok(()) = stop.changed() => {
                    self.stop = stop;
                    return;
                }
                () = &mut over => return,
                () = connection.reconnected(epoch) => return,
                () = sleep(LOOK) => {
                    self.tell_link();
                    self.look();
                }
            }
        }
    }

    fn acknowledge(&mut self, message: &Message, is_duplicate: bool) {
        self.intake.assembler.reported(if message.head.count == 0 { message.head.lost } else { 0 });
        self.subject = Some(message.subject.clone());
        self.intake.quiet_since = Instant::now();
        self.intake.on_its_way = 0;
        let mut stats = self.shared.stats.lock();
        stats.acknowledged += message.head.count;
        stats.bytes += message.payload.len() as u64;
        stats.messages += 1;
        stats.duplicates += u64::from(is_duplicate);
        drop(stats);
        self.look();
        self.shared.status.ready();
    }

    /// Turns the events of a message into a loss, which the next message reports.
    fn give_up(&mut self, message: &Message) {
        self.intake.on_its_way = 0;
        self.intake.quiet_since = Instant::now();
        self.intake.assembler.give_up(message);
        self.look();
    }

    /// Announces to the readers that the origin has ended. A single attempt to send this message is
    /// enough.
    async fn say_goodbye(&mut self) {
        if let Some(subject) = self.subject.clone() {
            let message = self.intake.assembler.control(subject, true);
            let _ = self.attempt(&message).await;
        }
    }

    /// Counts the remaining events as abandoned.
    fn abandon(&mut self) {
        self.watcher.stop();
        let mut left = self.intake.on_its_way + self.intake.assembler.abandon();
        while let Ok(batch) = self.watcher.try_recv_batch() {
            left += batch.len() as u64;
            self.intake.received += batch.len() as u64;
        }
        self.intake.on_its_way = 0;
        self.shared.stats.lock().abandoned += left;
        self.look();
        self.flushes.clear();
    }

    fn note(&mut self, flush: Flush) {
        self.flushes.push((self.intake.received + self.watcher.len() as u64, flush));
    }

    /// Responds to the flush requests whose events are settled.
    fn answer_flushes(&mut self) {
        let in_flight = self.intake.in_flight();
        let settled = self.intake.received - in_flight;
        let is_quiet = in_flight == 0 && self.watcher.is_empty();
        self.flushes.retain(|(target, flush)| {
            let is_done = is_quiet || settled >= *target;
            if is_done {
                // An error means that the caller is no longer waiting.
                let _ = flush.send(());
            }
            !is_done
        });
    }

    fn tell_link(&self) {
        self.shared.status.link(&self.connection.link());
    }

    /// Copies the counters of the queue and of the messages into the statistics.
    fn look(&self) {
        let queue = self.watcher.stats();
        let unsent = self.intake.assembler.unsent;
        let mut stats = self.shared.stats.lock();
        stats.look_at(&queue, self.intake.received);
        stats.in_flight = self.intake.in_flight();
        (stats.too_large, stats.encode, stats.panics) = (unsent.too_large, unsent.encode, unsent.panics);
        self.shared.status.set_waiting(stats.in_flight + stats.queued);
    }
}

#[cfg(test)]
mod tests {
    use eventcast::Broadcaster;
    use eventcast::stats::RemoteState;
    use tokio::sync::watch;

    use super::super::assembler::Limits;
    use super::*;
    use crate::codec::Json;
    use crate::subject::Subject;
    use crate::wire::Origin;

    /// The pump is not stopped, and no server responds.
    #[test]
    fn the_end_of_the_client_ends_the_pump_with_the_reason() {
        let bus = Broadcaster::new().unwrap();
        let watcher = bus.watch().unwrap();
        bus.publisher().publish_batch(0..3_u64).unwrap();
        bus.flush(Duration::from_secs(60)).unwrap();
        let status = StatusCell::new("", None);
        let shared = Shared { stats: Arc::default(), status };
        let (_stop, stopped) = watch::channel(None);
        let (_requests, requested) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let connection = Connection::that_has_ended().await;
            let origin = Origin::parse("o").unwrap();
            let subject = Box::new(|_: &u64| Subject::new("p"));
            let limits = Limits { events: 9, bytes: 999 };
            let assembler = Assembler::new(origin, Box::new(Json), subject, limits);
            let sender = Sender::new(connection, LOOK, String::new(), (String::new(), "p"), None);
            let options = PublisherOptions::default();
            let pump = Pump::new(watcher, assembler, sender, options, shared.clone(), (stopped, requested));
            tokio::time::timeout(Duration::from_secs(60), pump.run()).await.unwrap();
        });
        let status = shared.status.get();
        assert_eq!((status.state, status.failure()), (RemoteState::Ended, Some(CLIENT_ENDED)));
        let stats = shared.stats.lock().clone();
        assert_eq!((stats.offered, stats.abandoned), (3, 3));
    }
}
