//! The incoming side's task, which reads messages, checks their positions, delivers the events, and
//! saves the position that it has reached.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::context::ContextBuilder;
use eventcast::Delivery;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use crate::client::Connection;
use crate::codec::Codec;
use crate::options::{RetryOptions, Start, SubscriberOptions};
use crate::positions::{Positions, Step};
use crate::retry::Backoff;
use crate::runtime::Signal;
use crate::status::{CLIENT_ENDED, StatusCell};
use crate::stop::{Stop, asked};
use crate::wire::{Head, Malformed, split};

use super::ledger::Ledger;
use super::outlet::{Outlet, Put};
use super::remote_event::{Mark, Remote};
use super::session::{Broken, Session, Stored, Wanted};
use super::start::{Beginning, Place};
use super::stats::NatsSubscriberStats;
use super::store::{PositionStore, SavedPosition};

/// The timeout for requests to the server.
const REQUEST: Duration = Duration::from_secs(5);

/// A user-supplied function that is called if a message cannot be read or the reader restarts.
pub(crate) type OnError = Box<dyn Fn(&str) + Send + Sync>;

/// The state that the program's handle shares with the task.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) stats: Arc<Mutex<NatsSubscriberStats>>,
    pub(crate) status: StatusCell,
    /// This signal is set once the reader has opened its first session. From then on, the reader
    /// misses no message.
    pub(crate) ready: Signal,
}

/// A reader's settings, its saved position, and the parts that the program supplies.
pub(crate) struct Parts<T> {
    pub(crate) options: SubscriberOptions,
    pub(crate) codec: Box<dyn Codec<T>>,
    pub(crate) store: Option<Arc<dyn PositionStore>>,
    pub(crate) saved: Option<SavedPosition>,
    pub(crate) own: HashSet<String>,
    pub(crate) on_error: Option<OnError>,
}

/// The state of the incoming side's task.
pub(crate) struct Reader<T> {
    parts: Parts<T>,
    outlet: Outlet<T>,
    shared: Shared,
    stop: Stop,
    marks: mpsc::UnboundedReceiver<Mark>,
    connection: Connection,
    context: Context,
    wanted: Wanted,
    place: Place,
    /// The creation time of the stream that the reader is reading.
    created: Arc<str>,
    positions: Positions,
    /// The message number up to which skipped positions do not count as gaps.
    selected_to: u64,
    ledger: Ledger,
}

/// Whether the whole reader has ended, or only its session.
enum End {
    Reader,
    Session(Broken),
}

impl<T: Clone + Send + Sync + 'static> Reader<T> {
    pub(crate) fn new(
        parts: Parts<T>,
        outlet: Outlet<T>,
        shared: Shared,
        connection: Connection,
        (stop, marks): (Stop, mpsc::UnboundedReceiver<Mark>),
    ) -> Self {
        let context = ContextBuilder::new().timeout(REQUEST).build(connection.client.clone());
        let options = &parts.options;
        let wanted = Wanted {
            stream: options.stream.clone(),
            filter: options.filter.clone(),
            messages: options.max_messages,
            heartbeat: options.heartbeat,
        };
        let mut positions = Positions::new(options.filter.is_some());
        let mut place = Place::Begin(options.start);
        let mut ledger = Ledger::new();
        if let Some(saved) = &parts.saved {
            positions.restore(&saved.origins, &saved.subjects, saved.from_start);
            place = Place::Behind { sequence: saved.sequence, created: saved.stream.as_str().into() };
            ledger.restore(saved, options.filter.is_some());
        }
        Self {
            parts,
            outlet,
            shared,
            stop,
            marks,
            connection,
            context,
            wanted,
            place,
            created: Arc::from(""),
            positions,
            selected_to: 0,
            ledger,
        }
    }

    /// Runs until the reader is stopped, or until the outlet or the client ends.
    pub(crate) async fn run(mut self) {
        let mut backoff = None;
        loop {
            let Some(epoch) = self.connected().await else { break };
            let mut connection = self.connection.clone();
            let refusals = connection.link().refusals;
            let opened = tokio::select! {
                opened = Session::open(&self.context, &self.wanted, &self.place) => opened,
                // Responses to requests that were sent on the old connection may never arrive.
                () = connection.reconnected(epoch) => continue,
                () = asked(self.stop.clone()) => break,
            };
            let end = match opened {
                Ok((mut session, begins, state)) => {
                    backoff = None;
                    let end = if self.begin(&begins, state.created).await {
                        self.read(&mut session, epoch).await
                    } else {
                        End::Reader
                    };
                    session.close();
                    end
                }
                Err(broken) => {
                    self.refuse(&broken, refusals);
                    End::Session(broken)
                }
            };
            let End::Session(broken) = end else { break };
            self.tell(&broken);
            let pause = backoff.get_or_insert_with(|| Backoff::new(&RetryOptions::default())).next();
            tokio::select! {
                () = sleep(pause.min(Duration::from_secs(2))) => {}
                () = asked(self.stop.clone()) => break,
            }
        }
        self.take_marks();
        self.save().await;
        self.shared.status.end(self.connection.has_ended().then_some(CLIENT_ENDED));
    }

    /// Waits for a connection. Returns `None` if the reader has been stopped or the client has
    /// ended.
    async fn connected(&mut self) -> Option<u64> {
        loop {
            let link = self.connection.link.borrow_and_update().clone();
            if self.connection.has_ended() {
                return None;
            }
            if link.is_connected {
                return Some(link.epoch);
            }
            self.shared.status.link(&link);
            tokio::select! {
                // An error means that the client has ended.
                _ = self.connection.link.changed() => {}
                () = asked(self.stop.clone()) => return None,
            }
        }
    }

    /// Updates the reader's state at the beginning of a session. Returns false if the reader has
    /// ended.
    async fn begin(&mut self, begins: &Beginning, created: Arc<str>) -> bool {
        let is_first = matches!(self.place, Place::Begin(_));
        if begins.is_from_start && (is_first || begins.is_reset) {
            self.positions.begin_at_start();
        }
        self.selected_to = self.selected_to.max(begins.selected_to);
        let fixed =
            !matches!(self.place, Place::Begin(Start::Last | Start::LastPerSubject | Start::Since(_)));
        self.created = created;
        if fixed {
            self.place = Place::Behind { sequence: begins.behind, created: self.created.clone() };
        }
        if begins.is_reset || is_first && fixed {
            self.ledger.note(Some(begins.behind));
        }
        self.shared.stats.lock().sequence = begins.behind;
        let is_blind = self.positions.is_empty() && begins.removed > 0;
        self.shared.status.ready();
        self.shared.ready.set();
        if !is_blind {
            return true;
        }
        // No position is known, so the number of missing events cannot be determined. Each message
        // holds at least one event.
        let missing = if self.wanted.filter.is_some() { 1 } else { begins.removed };
        let mark = Mark { sequence: Some(begins.behind + begins.removed), reached: None };
        let put = self.outlet.put(vec![Delivery::Lagged(missing)], mark, &self.stop).await;
        self.count(&put);
        if let Place::Behind { sequence, .. } = &mut self.place {
            *sequence = begins.behind + begins.removed;
        }
        !put.has_ended
    }

    async fn read(&mut self, session: &mut Session, epoch: u64) -> End {
        loop {
            if let Err(broken) = session.refill().await {
                return End::Session(broken);
            }
            let save_at = self.ledger.due(self.parts.store.is_some());
            tokio::select! {
                biased;
                () = asked(self.stop.clone()) => return End::Reader,
                Ok(()) = self.connection.link.changed() => {
                    let link = self.connection.link();
                    if link.epoch != epoch {
                        return End::Session(Broken::Other("the connection was replaced".to_owned()));
                    }
                    self.shared.status.link(&link);
                }
                Some(mark) = self.marks.recv() => self.ledger.mark(&mark),
                next = session.next() => match next {
                    Ok(None) => {}
                    Ok(Some(stored)) => {
                        if !self.handle(&stored).await {
                            return End::Reader;
                        }
                        session.was_away();
                    }
                    Err(broken) => return End::Session(broken),
                },
                () = self.outlet.ended() => return End::Reader,
                () = sleep_until(save_at) => {}
            }
            if Instant::now() >= save_at {
                self.take_marks();
                self.save().await;
                session.was_away();
            }
        }
    }

    /// Handles a message. Returns false if the reader has ended.
    async fn handle(&mut self, stored: &Stored) -> bool {
        let (sequence, subject) = (stored.sequence, stored.message.subject.as_str());
        let head = match Head::read(stored.message.headers.as_ref(), stored.message.payload.len()) {
            Ok(head) => head,
            Err(malformed) => {
                self.pass_over(sequence, malformed);
                return true;
            }
        };
        if self.parts.own.contains(head.origin.as_str()) {
            {
                let mut stats = self.shared.stats.lock();
                stats.own = stats.own.saturating_add(head.count);
            }
            self.arrive(sequence);
            self.finish(&Mark { sequence: Some(sequence), reached: None });
            return true;
        }
        let step = self.positions.judge(&head, subject);
        let items = self.items(stored, &head, step);
        let gap = items.gap;
        let behind = self.positions.behind(&head, subject);
        let mark = Mark { sequence: Some(sequence), reached: Some(behind.clone()) };
        let put = self.outlet.put(items.all, mark.clone(), &self.stop).await;
        {
            let mut stats = self.shared.stats.lock();
            stats.repeated = stats.repeated.saturating_add(step.repeated);
        }
        self.count(&put);
        if put.has_ended {
            // The saved position covers only events that were accepted or reported as missing, so
            // the next reader with this store reads the remaining events again. If not even the gap
            // before the message was reported, the saved position does not change.
            if let Some(handled) = put.handled().checked_sub(gap) {
                let end = (head.first + step.repeated).saturating_add(handled);
                self.ledger.reach(&behind.back_at(end));
            }
            return false;
        }
        self.positions.advance(&head, subject, 0);
        self.arrive(sequence);
        if self.outlet.is_done_at_once() {
            self.finish(&mark);
        }
        true
    }

    /// Converts a message to items. The items are the gap before the message, the message's new
    /// events, and gaps for the events that cannot be decoded.
    fn items(&self, stored: &Stored, head: &Head, step: Step) -> Items<T> {
        let gap = if stored.sequence <= self.selected_to { 0 } else { step.gap };
        let mut items = Items { gap, all: Vec::new() };
        items.lose(gap);
        if step.new == 0 {
            return items;
        }
        let codec = &self.parts.codec;
        let payload = &stored.message.payload;
        let events = split(payload, codec.framing(), head.count).filter(|_| codec.name() == head.codec);
        let Some(events) = events else {
            let text = format!(
                "message {}: its payload is not {} events of {}",
                stored.sequence,
                head.count,
                codec.name()
            );
            self.undecodable(&text, step.new);
            items.lose(step.new);
            return items;
        };
        let origin: Arc<str> = head.origin.as_str().into();
        for (bytes, position) in
            events.into_iter().zip(head.first..).skip(usize::try_from(step.repeated).unwrap_or(usize::MAX))
        {
            // A user-supplied codec may panic.
            match catch_unwind(AssertUnwindSafe(|| codec.decode(bytes))) {
                Ok(Ok(event)) => items.all.push(Delivery::Event(Remote::new(
                    event,
                    origin.clone(),
                    position,
                    stored.sequence,
                    stored.at,
                ))),
                Ok(Err(error)) => {
                    self.undecodable(&format!("message {}: {error}", stored.sequence), 1);
                    items.lose(1);
                }
                Err(_) => {
                    self.shared.stats.lock().panics += 1;
                    self.undecodable(&format!("message {}: the codec panicked", stored.sequence), 1);
                    items.lose(1);
                }
            }
        }
        items
    }

    fn pass_over(&mut self, sequence: u64, malformed: Malformed) {
        {
            let mut stats = self.shared.stats.lock();
            match malformed {
                Malformed::Foreign => stats.foreign += 1,
                Malformed::Header(_) => stats.malformed += 1,
            }
        }
        if malformed != Malformed::Foreign {
            self.complain(&format!("message {sequence}: {malformed}"));
        }
        self.arrive(sequence);
        self.finish(&Mark { sequence: Some(sequence), reached: None });
    }

    fn undecodable(&self, text: &str, events: u64) {
        let mut stats = self.shared.stats.lock();
        stats.undecodable = stats.undecodable.saturating_add(events);
        drop(stats);
        self.complain(text);
    }

    fn complain(&self, text: &str) {
        if let Some(on_error) = &self.parts.on_error {
            // Panics in the hook are not propagated.
            let _ = catch_unwind(AssertUnwindSafe(|| on_error(text)));
        }
    }

    /// Advances the reader's position to the message with this number.
    fn arrive(&mut self, sequence: u64) {
        let mut stats = self.shared.stats.lock();
        stats.messages += 1;
        if self.wanted.filter.is_none() && sequence > self.selected_to && stats.sequence > 0 {
            stats.missing_messages += sequence.saturating_sub(stats.sequence + 1);
        }
        stats.sequence = sequence;
        drop(stats);
        match &mut self.place {
            Place::Behind { sequence: place, .. } => *place = sequence,
            place @ Place::Begin(_) => *place = Place::Behind { sequence, created: self.created.clone() },
        }
    }

    fn count(&self, put: &Put) {
        let mut stats = self.shared.stats.lock();
        stats.events += put.accepted;
        stats.gaps = stats.gaps.saturating_add(put.missing);
        stats.dropped += put.dropped;
        stats.panics += put.panics;
    }

    fn finish(&mut self, mark: &Mark) {
        self.ledger.mark(mark);
    }

    fn take_marks(&mut self) {
        while let Ok(mark) = self.marks.try_recv() {
            self.ledger.mark(&mark);
        }
    }

    /// Saves the position if it has changed. A failure to save is counted, and the next save tries
    /// again.
    async fn save(&mut self) {
        self.ledger.save_at = Instant::now() + self.parts.options.save_every;
        let (Some(store), Place::Behind { created, .. }, true) =
            (&self.parts.store, &self.place, self.ledger.is_changed)
        else {
            return;
        };
        let position = self.ledger.position(created, self.positions.is_from_start());
        let store = store.clone();
        let saved = tokio::task::spawn_blocking(move || store.save(&position)).await;
        match saved {
            Ok(Ok(())) => self.ledger.is_changed = false,
            Ok(Err(error)) => {
                self.shared.stats.lock().failed_saves += 1;
                self.complain(&format!("cannot save the position: {error}"));
            }
            Err(_) => self.shared.stats.lock().failed_saves += 1,
        }
    }

    /// Reports why a session could not be opened.
    fn refuse(&self, broken: &Broken, refusals: u64) {
        let link = self.connection.link();
        let status = &self.shared.status;
        match broken {
            _ if !link.is_connected => status.link(&link),
            _ if link.refusals != refusals => status.refused(link.refusal),
            Broken::Refused(text) => status.refused(text.clone()),
            Broken::Other(text) => status.unavailable(text.clone()),
        }
    }

    fn tell(&self, broken: &Broken) {
        self.shared.stats.lock().restarts += 1;
        let link = self.connection.link();
        match broken {
            Broken::Refused(_) => {}
            Broken::Other(_) if !link.is_connected => self.shared.status.link(&link),
            Broken::Other(text) => self.complain(&format!("the reader restarts: {text}")),
        }
    }
}

/// The items to which a message is converted.
struct Items<T> {
    /// The number of events that are missing before the message.
    gap: u64,
    all: Vec<Delivery<Remote<T>>>,
}

impl<T> Items<T> {
    fn lose(&mut self, events: u64) {
        match self.all.last_mut() {
            _ if events == 0 => {}
            Some(Delivery::Lagged(before)) => *before = before.saturating_add(events),
            _ => self.all.push(Delivery::Lagged(events)),
        }
    }
}
