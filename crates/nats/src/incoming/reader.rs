//! The incoming side's task, which reads messages, checks their positions, delivers the events, and
//! saves the position that it has reached.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::context::ContextBuilder;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use crate::client::Connection;
use crate::options::{RetryOptions, Start};
use crate::positions::Positions;
use crate::retry::Backoff;
use crate::status::CLIENT_ENDED;
use crate::stop::{Stop, asked};
use crate::wire::{Head, Malformed};

use super::decode::Decoder;
use super::ledger::Ledger;
use super::outlet::{Outlet, Put};
use super::parts::{Parts, Shared};
use super::remote_event::Mark;
use super::session::{Broken, Session, Stored, Wanted};
use super::start::{Beginning, Place};

/// The timeout for requests to the server.
const REQUEST: Duration = Duration::from_secs(5);

/// The maximum number of messages whose items are put into the outlet together. While these
/// messages are handled, no further messages are requested.
const MESSAGES: usize = 64;

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
    /// The messages whose items are staged in the outlet.
    staged: Vec<Staged>,
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
            staged: Vec::new(),
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
        self.outlet.stage_gap(missing);
        let put = self.outlet.put(mark, &self.stop).await;
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
                        if let Some(end) = self.handle(stored, session).await {
                            return end;
                        }
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

    /// Handles a message, and the messages after it that have already arrived, so that the bus
    /// receives their events as one batch. Returns `None` if the session continues.
    async fn handle(&mut self, first: Stored, session: &mut Session) -> Option<End> {
        self.stage(&first);
        let mut broken = None;
        while self.staged.len() < MESSAGES && self.outlet.has_space() {
            match session.try_next() {
                None => break,
                Some(Ok(None)) => {}
                Some(Ok(Some(stored))) => self.stage(&stored),
                Some(Err(error)) => {
                    broken = Some(End::Session(error));
                    break;
                }
            }
        }
        let has_ended = !self.deliver().await;
        session.was_away();
        if has_ended { Some(End::Reader) } else { broken }
    }

    /// Stages a message's items for the outlet. The items are the gap before the message, the
    /// message's new events, and gaps for the events that cannot be decoded.
    fn stage(&mut self, stored: &Stored) {
        let (sequence, subject) = (stored.sequence, stored.message.subject.as_str());
        let mut staged = Staged::new(sequence);
        match Head::read(stored.message.headers.as_ref(), stored.message.payload.len()) {
            Err(malformed) => self.pass_over(sequence, malformed),
            Ok(head) if self.parts.own.contains(head.origin.as_str()) => {
                let mut stats = self.shared.stats.lock();
                stats.own = stats.own.saturating_add(head.count);
            }
            Ok(head) => {
                let step = self.positions.judge(&head, subject);
                staged.gap = if sequence <= self.selected_to { 0 } else { step.gap };
                staged.first = head.first + step.repeated;
                staged.new = step.new;
                if step.repeated > 0 {
                    let mut stats = self.shared.stats.lock();
                    stats.repeated = stats.repeated.saturating_add(step.repeated);
                }
                staged.mark.reached = Some(self.positions.behind(&head, subject));
                let decoder = Decoder { parts: &self.parts, shared: &self.shared };
                self.outlet.stage_gap(staged.gap);
                self.outlet.stage(&decoder, stored, (&head, step));
                self.positions.advance(&head, subject, 0);
            }
        }
        self.staged.push(staged);
    }

    /// Puts the staged items into the outlet. Returns false if the reader has ended.
    async fn deliver(&mut self) -> bool {
        let mut all = std::mem::take(&mut self.staged);
        let Some(last) = all.last() else { return true };
        let put = self.outlet.put(last.mark.clone(), &self.stop).await;
        self.count(&put);
        let mut handled = put.handled();
        for staged in all.drain(..) {
            let items = staged.gap.saturating_add(staged.new);
            if put.has_ended && handled < items {
                // The saved position covers only events that were accepted or reported as missing,
                // so the next reader with this store reads the remaining events again. If not even
                // the gap before the message was reported, the saved position does not change.
                if let (Some(handled), Some(behind)) = (handled.checked_sub(staged.gap), staged.mark.reached)
                {
                    self.ledger.reach(&behind.back_at(staged.first.saturating_add(handled)));
                }
                return false;
            }
            handled = handled.saturating_sub(items);
            self.arrive(staged.mark.sequence.unwrap_or_default());
            if self.outlet.is_done_at_once() || staged.mark.reached.is_none() {
                self.ledger.mark(&staged.mark);
            }
        }
        self.staged = all;
        !put.has_ended
    }

    fn pass_over(&self, sequence: u64, malformed: Malformed) {
        {
            let mut stats = self.shared.stats.lock();
            match malformed {
                Malformed::Foreign => stats.foreign += 1,
                Malformed::Header(_) => stats.malformed += 1,
            }
        }
        if malformed != Malformed::Foreign {
            self.parts.complain(&format!("message {sequence}: {malformed}"));
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
                self.parts.complain(&format!("cannot save the position: {error}"));
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
            Broken::Other(text) => self.parts.complain(&format!("the reader restarts: {text}")),
        }
    }
}

/// A message whose items are staged in the outlet.
struct Staged {
    mark: Mark,
    /// The number of events that are missing before the message.
    gap: u64,
    /// The position of the first new event.
    first: u64,
    new: u64,
}

impl Staged {
    /// Returns a message without items.
    fn new(sequence: u64) -> Self {
        let mark = Mark { sequence: Some(sequence), reached: None };
        Self { mark, gap: 0, first: 0, new: 0 }
    }
}
