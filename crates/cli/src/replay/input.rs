//! Reads the events to replay, and merges the states of each event.

use std::collections::HashSet;
use std::io::BufRead;

use eventcast::event::ReadEvent;
use eventcast::{Event, ObjectReference, Text, Timestamp};

use super::states::{State, States};
use crate::input::{self, Problem, Problems, Reason};
use crate::support::number::grouped;
use crate::support::progress::Progress;

/// The maximum number of events after expanding counts.
const MAX_EVENTS: usize = 5_000_000;
/// The number of events between two updates of the progress line.
const STEP: usize = 4096;

#[derive(Default)]
pub(crate) struct Input {
    /// The events to replay, ordered by time.
    pub(crate) events: Vec<Dated>,
    /// The number of events, including events without an object, which are not replayed.
    pub(crate) number: u64,
    /// The number of events without an object.
    pub(crate) without_object: u64,
    pub(crate) problems: Problems,
    /// The number of documents that could not be compared with other documents because of the
    /// `--remember` limit.
    pub(crate) forgotten: u64,
    /// The number of deletions, which are not replayed.
    pub(crate) deleted: u64,
    /// The sum of the events' counts before the counts were set to 1.
    pub(crate) occurrences: u64,
    pub(crate) is_expanded: bool,
    /// The times of the first and last event.
    pub(crate) span: Option<(Timestamp, Timestamp)>,
}

/// An event with a count of 1, and its time.
#[derive(Debug)]
pub(crate) struct Dated {
    pub(crate) at: Timestamp,
    pub(crate) event: Event,
    /// The counts in the event's states, and the time at which each count was reached.
    steps: Steps,
}

#[derive(Debug)]
enum Steps {
    One(u32),
    /// Ordered by increasing count.
    Many(Vec<(u32, Timestamp)>),
}

impl Steps {
    fn add(&mut self, first_at: Timestamp, count: u32, at: Timestamp) {
        if let Self::One(one) = *self {
            if one == count {
                return;
            }
            *self = Self::Many(vec![(one, first_at)]);
        }
        if let Self::Many(steps) = self
            && let Err(place) = steps.binary_search_by_key(&count, |(count, _)| *count)
        {
            steps.insert(place, (count, at));
        }
    }

    fn count(&self) -> u32 {
        match self {
            Self::One(count) => *count,
            Self::Many(steps) => steps.last().map_or(1, |(count, _)| *count),
        }
    }
}

/// State that is needed only while the input is being read.
#[derive(Default)]
struct Known {
    /// Maps each event's number to the event's index in `events`, or to `None` if the event has no
    /// time.
    places: Vec<Option<u32>>,
    texts: Texts,
}

/// Interned long strings. Many events concern the same objects and hosts, so these events share
/// their strings.
#[derive(Default)]
struct Texts(HashSet<Text>);

impl Texts {
    /// The maximum length of a string that is stored inline, which does not require an allocation.
    const SHORT: usize = 23;

    fn shared(&mut self, text: Text) -> Text {
        if text.len() <= Self::SHORT {
            return text;
        }
        if let Some(known) = self.0.get(&text) {
            return known.clone();
        }
        self.0.insert(text.clone());
        text
    }
}

/// Reads all events. Returns an error if the input as a whole is unusable. Problems with individual
/// events are part of the result. Call [`Input::finish`] to prepare the result for the replay.
pub(crate) fn read(reader: Box<dyn BufRead>, is_expanded: bool, remembered: usize) -> Result<Input, String> {
    let mut input = Input { is_expanded, ..Input::default() };
    let mut states = States::new(remembered);
    let mut known = Known::default();
    let (progress, mut read) = (Progress::new(), 0_usize);
    input::read(reader, |found| match found {
        Ok(event) => {
            read += 1;
            if read % STEP == 0 {
                progress.show(|| format!("{} events read", grouped(read as u64)));
            }
            match states.observe(&event) {
                Some(state) => input.observe(event, state, &mut known),
                None => input.deleted += 1,
            }
        }
        Err(problem) => input.problems.add(problem),
    })
    .map_err(|error| error.to_string())?;
    progress.clear();
    input.forgotten = states.forgotten();
    drop((states, known));
    Ok(input)
}

impl Input {
    fn observe(&mut self, read: ReadEvent, state: State, known: &mut Known) {
        if state.is_first {
            known.places.push(None);
        }
        // The creation time is only a fallback, because it is the time of the event's first write.
        let at = read.event.last_seen().or(read.event.metadata.creation_timestamp());
        let Some(at) = at else {
            self.problems.add(Problem::new(Reason::Undated, read.line, "an event without a time"));
            return;
        };
        let Known { places, texts } = known;
        let Some(place) = places.get_mut(state.number as usize) else { return };
        if let Some(place) = *place {
            let known = &mut self.events[place as usize];
            known.steps.add(known.at, state.count, at);
            if state.is_latest {
                known.event = replayed(read.event, at, texts);
                known.at = at;
            }
        } else {
            *place = Some(self.events.len() as u32);
            let event = replayed(read.event, at, texts);
            self.events.push(Dated { at, event, steps: Steps::One(state.count) });
        }
    }

    /// Sorts the events, expands their counts if requested, and removes events without an object.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        self.occurrences = self.events.iter().map(|event| u64::from(event.steps.count())).sum();
        if self.is_expanded {
            if self.occurrences > MAX_EVENTS as u64 {
                return Err(format!(
                    "cannot expand: the counts add up to more than {MAX_EVENTS} events: replay a part, or \
                     leave --expand out"
                ));
            }
            let events = std::mem::take(&mut self.events);
            self.events.reserve_exact(self.occurrences as usize);
            for event in events {
                expand(event, &mut self.events);
            }
        }
        self.events.iter_mut().for_each(|dated| dated.event.first_timestamp = Some(dated.at));
        // The sort is stable, so events with the same time keep their order.
        self.events.sort_by_key(|event| event.at);
        self.number = self.events.len() as u64;
        self.span = self.events.first().map(|event| event.at).zip(self.events.last().map(|event| event.at));
        self.events.retain(|dated| names_object(&dated.event.involved_object));
        self.without_object = self.number - self.events.len() as u64;
        Ok(())
    }
}

fn names_object(object: &ObjectReference) -> bool {
    [&object.kind, &object.name, &object.uid].iter().any(|text| !text.is_empty())
}

/// Returns the event to replay, with only the fields that the correlator uses, a count of 1 and the
/// given time. The first time is kept for expanding the count.
fn replayed(mut event: Event, at: Timestamp, texts: &mut Texts) -> Event {
    let mut share = |text: &mut Text| texts.shared(std::mem::take(text));
    let mut replayed = Event::default();
    replayed.first_timestamp = event.first_seen().or(Some(at));
    replayed.last_timestamp = Some(at);
    replayed.metadata.namespace = share(&mut event.metadata.namespace);
    replayed.involved_object = event.involved_object;
    let object = &mut replayed.involved_object;
    for text in [
        &mut object.kind,
        &mut object.namespace,
        &mut object.name,
        &mut object.uid,
        &mut object.api_version,
        &mut object.field_path,
    ] {
        *text = share(text);
    }
    replayed.reason = share(&mut event.reason);
    replayed.message = share(&mut event.message);
    replayed.source.component = share(&mut event.source.component);
    replayed.source.host = share(&mut event.source.host);
    replayed.type_ = share(&mut event.type_);
    replayed.reporting_controller = share(&mut event.reporting_controller);
    replayed.reporting_instance = share(&mut event.reporting_instance);
    // Each event has a different name, but the correlator's decisions do not depend on the name.
    replayed.metadata.name = Text::from_static("event");
    replayed.count = 1;
    replayed
}

/// Adds the individual occurrences of an event. The occurrences are evenly distributed from the
/// event's first time to the first state, and then from each state to the next.
fn expand(dated: Dated, events: &mut Vec<Dated>) {
    let Dated { at, event, steps } = dated;
    let steps = match steps {
        Steps::One(count) => vec![(count, at)],
        Steps::Many(steps) => steps,
    };
    let first = event.first_timestamp.unwrap_or(at);
    let (mut counted, mut previous) = (0, None);
    for (count, at) in steps {
        let times = count - counted;
        let begin = previous.unwrap_or(first).min(at);
        // The first occurrence is at the event's first time, and the last occurrence in each state
        // is at that state's time.
        let gaps = if previous.is_none() { times - 1 } else { times };
        let span = at.duration_since(begin);
        for left in (0..times).rev() {
            let at = if left == 0 { at } else { at.saturating_sub(span / gaps * left) };
            let mut event = event.clone();
            event.last_timestamp = Some(at);
            events.push(Dated { at, event, steps: Steps::One(1) });
        }
        (counted, previous) = (count, Some(at));
    }
}
