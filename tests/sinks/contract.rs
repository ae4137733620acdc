//! The contract between a caller and a sink. Each operation in a batch gets one response, whatever
//! the sink does, and a failure returns the operation to the caller.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::sink::{
    SinkBatch, SinkCall, SinkErrorKind, SinkMode, SinkOp, SinkOpError, Stored, WriteOrder,
};
use eventcast::{Event, EventSink, MemorySink, SinkError};
use test_support::watched;

/// A sink whose `submit` calls a function.
struct Submits<F>(F);

impl<F: Fn(SinkBatch) + Send + Sync + 'static> EventSink for Submits<F> {
    fn create(&self, _: &Event) -> Result<Event, SinkError> {
        Err(SinkError::rejected("only batches"))
    }

    fn patch(&self, _: &Event) -> Result<Event, SinkError> {
        Err(SinkError::rejected("only batches"))
    }

    fn mode(&self) -> SinkMode {
        SinkMode::Batches
    }

    fn submit(&self, batch: SinkBatch) {
        (self.0)(batch);
    }
}

fn event(name: &str) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.to_owned().into();
    event
}

fn creates(names: &[&str]) -> Vec<SinkOp> {
    names.iter().map(|name| SinkOp::Create(event(name))).collect()
}

type Answers = Vec<Result<Stored, SinkOpError>>;

/// Submits create operations to a function, and returns the responses.
fn perform(names: &[&str], submit: impl Fn(SinkBatch) + Send + Sync + 'static) -> Answers {
    SinkBatch::perform(creates(names), &Submits(submit))
}

/// Returns each response as the name of the stored event, or as the error text and the name of the
/// event that the error returns.
fn shown(answers: &Answers) -> Vec<String> {
    let show = |answer: &Result<Stored, SinkOpError>| match answer {
        Ok(stored) => stored.name.to_string(),
        Err(failed) => format!("{failed} ({})", failed.op().event().metadata.name),
    };
    answers.iter().map(show).collect()
}

/// Responds to a call with the call's event as stored.
fn store(call: SinkCall) {
    let stored = Stored::from(call.event());
    call.answer(Ok(stored));
}

/// Returns the response to an operation whose event is stored.
#[allow(clippy::unnecessary_wraps, reason = "it is an answer")]
fn stored(op: &SinkOp) -> Result<Stored, SinkError> {
    Ok(Stored::from(op.event()))
}

const DROPPED: &str = "group unavailable: the sink dropped the operation without an answer";

#[test]
fn a_batch_that_is_dropped_may_be_tried_again() {
    let answers = perform(&["a", "b"], drop);
    assert_eq!(shown(&answers), [format!("{DROPPED} (a)"), format!("{DROPPED} (b)")]);
    let kinds = answers.iter().map(|answer| answer.as_ref().unwrap_err().error().kind());
    assert!(kinds.eq([SinkErrorKind::GroupUnavailable; 2]));
    // The same holds for the remaining calls of an iterator.
    let answers = perform(&["a", "b", "c"], |batch| {
        let call = batch.into_iter().next().unwrap();
        store(call);
    });
    assert_eq!(shown(&answers), ["a".to_owned(), format!("{DROPPED} (b)"), format!("{DROPPED} (c)")]);
}

#[test]
fn a_call_that_is_dropped_on_another_thread_may_be_tried_again() {
    watched(|| {
        let (calls, taken) = mpsc::channel::<SinkCall>();
        let other = thread::spawn(move || {
            for call in taken {
                if call.event().metadata.name == "b" {
                    store(call);
                }
            }
        });
        let calls = Mutex::new(calls);
        let answers = perform(&["a", "b", "c"], move |batch| {
            let calls = calls.lock().unwrap();
            batch.into_iter().for_each(|call| calls.send(call).unwrap());
        });
        assert_eq!(shown(&answers), [format!("{DROPPED} (a)"), "b".to_owned(), format!("{DROPPED} (c)")]);
        other.join().unwrap();
    });
}

#[test]
fn a_thread_of_the_sink_that_panics_answers_its_call() {
    watched(|| {
        let answers = perform(&["a", "b"], |batch| {
            for call in batch {
                thread::spawn(move || {
                    assert_ne!(call.event().metadata.name, "a", "it fails");
                    store(call);
                });
            }
        });
        assert_eq!(shown(&answers), ["rejected: the sink panicked: on another thread (a)", "b"]);
    });
}

#[test]
fn a_sink_that_catches_its_own_panic_answers_the_call() {
    watched(|| {
        let answers = perform(&["a", "b"], |batch| {
            for call in batch {
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    assert_ne!(call.event().metadata.name, "a", "it fails");
                    store(call);
                }));
                drop(caught);
            }
        });
        assert_eq!(shown(&answers), ["rejected: the sink panicked: it caught the panic itself (a)", "b"]);
    });
}

#[test]
fn answers_have_the_order_of_the_operations() {
    watched(|| {
        // Each call is answered on a separate thread, starting with the last call.
        let answers = perform(&["a", "b", "c", "d"], |batch| {
            thread::spawn(move || {
                for call in batch.into_iter().rev() {
                    let answer = move || {
                        store(call);
                    };
                    thread::spawn(answer).join().unwrap();
                }
            });
        });
        assert_eq!(shown(&answers), ["a", "b", "c", "d"]);
    });
    assert!(perform(&[], drop).is_empty());
    assert!(SinkBatch::perform(Vec::new(), &MemorySink::new()).is_empty());
}

#[test]
fn too_few_answers_reject_the_operations_without_one() {
    let answers = perform(&["a", "b", "c"], |batch| {
        let first = stored(&batch.ops()[0]);
        batch.answer([first]);
    });
    let text = "rejected: the sink gave 1 answers to 3 operations";
    assert_eq!(shown(&answers), ["a".to_owned(), format!("{text} (b)"), format!("{text} (c)")]);
    let answers = perform(&["a"], |batch| batch.answer([]));
    assert_eq!(shown(&answers), ["rejected: the sink gave 0 answers to 1 operations (a)"]);
}

#[test]
fn answers_too_many_are_left_out() {
    let answers = perform(&["a", "b"], |batch| {
        let twice = batch.ops().iter().chain(batch.ops()).map(stored).collect::<Vec<_>>();
        batch.answer(twice);
    });
    assert_eq!(shown(&answers), ["a", "b"]);

    /// A cause that panics when dropped.
    #[derive(Debug)]
    struct Bomb;
    impl std::fmt::Display for Bomb {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a bomb")
        }
    }
    impl std::error::Error for Bomb {}
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("it goes off");
        }
    }
    let answers = perform(&["a"], |batch| {
        let first = stored(&batch.ops()[0]);
        batch.answer([first, Err(SinkError::retry(Bomb)), Err(SinkError::retry(Bomb))]);
    });
    assert_eq!(shown(&answers), ["a"]);
}

#[test]
fn each_failure_gives_its_own_operation_back() {
    let ops = vec![SinkOp::Create(event("a")), SinkOp::Patch(event("b")), SinkOp::Update(event("c"))];
    let sink = Submits(|batch: SinkBatch| {
        let wait = Duration::from_secs(3);
        batch.answer([
            Err(SinkError::retry("busy").with_retry_after(wait)),
            Err(SinkError::new(SinkErrorKind::NotFound, "gone")),
            Err(SinkError::new(SinkErrorKind::AlreadyExists, "taken").with_stored(event("other"))),
        ]);
    });
    let answers = SinkBatch::perform(ops.clone(), &sink);
    let shown: Vec<_> = answers.iter().map(|answer| answer.as_ref().unwrap_err()).collect();
    assert_eq!(shown[0].error().retry_after(), Some(Duration::from_secs(3)));
    assert_eq!(shown[2].error().stored(), Some(&event("other")));
    // Neither the `Display` nor the `Debug` output shows the event.
    assert_eq!(shown[1].to_string(), "not found: gone");
    let debug = format!("{:?}", shown[0]);
    assert!(debug.starts_with("SinkOpError { error: SinkError { kind: Retry"), "{debug}");
    let source = std::error::Error::source(shown[1]).unwrap();
    assert_eq!(source.to_string(), "gone");
    let back: Vec<_> = answers.into_iter().map(|answer| answer.unwrap_err().into_parts().0).collect();
    assert_eq!(back, ops);
}

#[test]
fn answer_each_continues_after_a_panic() {
    let answers = perform(&["a", "b", "c", "d"], |batch| {
        batch.answer_each(|op| match op.event().metadata.name.as_str() {
            "b" => panic!("at b"),
            "c" => Err(op.failed(SinkError::retry("busy"))),
            _ => Ok(Stored::from(op.into_event())),
        });
    });
    let shown = shown(&answers);
    assert_eq!([&shown[0], &shown[2], &shown[3]], ["a", "may be tried again: busy (c)", "d"]);
    // The function owned the event, so the event is lost.
    let lost = answers[1].as_ref().unwrap_err();
    assert_eq!(lost.to_string(), "rejected: the sink panicked: at b");
    assert_eq!(lost.op(), &SinkOp::Create(Event::default()));
}

#[test]
fn a_panic_of_submit_rejects_what_has_no_answer() {
    let answers = perform(&["a", "b", "c"], |batch| {
        let mut calls = batch.into_iter();
        let call = calls.next().unwrap();
        store(call);
        let _current = calls.next();
        panic!("in the middle");
    });
    let text = "rejected: the sink panicked: in the middle";
    assert_eq!(shown(&answers), ["a".to_owned(), format!("{text} (b)"), format!("{text} (c)")]);
    // The sink panics before the first operation has been answered, while it holds the whole batch.
    let answers = perform(&["a", "b"], |batch| {
        let names: Vec<_> = batch.ops().iter().map(|op| &op.event().metadata.name).collect();
        panic!("at {names:?}");
    });
    assert!(shown(&answers).iter().all(|text| text.starts_with("rejected: the sink panicked: at [")));
    assert_eq!(answers[1].as_ref().unwrap_err().op(), &SinkOp::Create(event("b")));
    // The sink panics while it creates the answers.
    let answers = perform(&["a", "b"], |batch| {
        let ops = batch.ops().to_vec();
        batch.answer(
            ops.iter().map(|op| if op.event().metadata.name == "b" { panic!("at b") } else { stored(op) }),
        );
    });
    let text = "rejected: the sink panicked: at b";
    assert_eq!(shown(&answers), [format!("{text} (a)"), format!("{text} (b)")]);
    // The sink panics after all operations have been answered.
    let answers = perform(&["a"], |batch| {
        let all: Vec<_> = batch.ops().iter().map(stored).collect();
        batch.answer(all);
        panic!("afterwards");
    });
    assert_eq!(shown(&answers), ["a"]);
}

#[test]
fn a_call_that_another_thread_has_outlives_a_panic_of_submit() {
    watched(|| {
        let (calls, taken) = mpsc::channel::<SinkCall>();
        let (go, gone) = mpsc::channel::<()>();
        let other = thread::spawn(move || {
            gone.recv().unwrap_err();
            for call in taken {
                store(call);
            }
        });
        let state = Mutex::new(Some((calls, go)));
        let answers = perform(&["a", "b"], move |batch| {
            // The other thread answers only after the panic has dropped the signal.
            let (calls, _go) = state.lock().unwrap().take().unwrap();
            let mut batch = batch.into_iter();
            calls.send(batch.next().unwrap()).unwrap();
            panic!("at the next one");
        });
        assert_eq!(shown(&answers), ["a", "rejected: the sink panicked: at the next one (b)"]);
        other.join().unwrap();
    });
}

/// A sink may forward its operations to another sink.
#[test]
fn a_sink_may_perform_a_batch_on_another_sink() {
    let store = MemorySink::new();
    let inner = store.clone();
    let answers = perform(&["a", "b", "b"], move |batch| {
        let answers = SinkBatch::perform(batch.ops().to_vec(), &inner);
        batch.answer(answers.into_iter().map(|answer| answer.map_err(|failed| failed.into_parts().1)));
    });
    let taken = "already exists: events \"b\" in namespace default (b)";
    assert_eq!(shown(&answers), ["a", "b", taken]);
    assert_eq!(store.len(), 2);
    // The sink may also let the other sink answer.
    let answers = perform(&["b", "c"], move |batch| store.submit(batch));
    assert_eq!(shown(&answers), [taken, "c"]);
}

/// A sink that logs its calls and panics if an event has no name.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn note(&self, verb: &str, event: &Event) -> Result<Event, SinkError> {
        self.0.lock().unwrap().push(format!("{verb} {}", event.metadata.name));
        match event.metadata.name.as_str() {
            "" => std::panic::resume_unwind(Box::new("no name")),
            "late" => Err(SinkError::new(SinkErrorKind::Unavailable, "later")),
            _ => Ok(event.clone()),
        }
    }
}

impl EventSink for Notes {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.note("create", event)
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.note("patch", event)
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.note("update", event)
    }
}

#[test]
fn operations_are_performed_sequentially_by_default() {
    let notes = Notes::default();
    assert_eq!((notes.mode(), notes.group(&event("a"))), (SinkMode::OneByOne, ""));
    let ops = vec![
        SinkOp::Create(event("a")),
        SinkOp::Patch(event("")),
        SinkOp::Update(event("b")),
        SinkOp::Patch(event("late")),
        SinkOp::Patch(event("a")),
    ];
    let answers = SinkBatch::perform(ops.clone(), &notes);
    let panicked = "rejected: the sink panicked: no name ()";
    assert_eq!(shown(&answers), ["a", panicked, "b", "unavailable: later (late)", "a"]);
    assert_eq!(answers[1].as_ref().unwrap_err().op(), &ops[1]);
    let calls = ["create a", "patch ", "update b", "patch late", "patch a"];
    assert_eq!(*notes.0.lock().unwrap(), calls);
}

/// A sink whose methods all differ from the defaults.
#[derive(Default)]
struct Special(Mutex<Vec<usize>>);

impl EventSink for Special {
    fn create(&self, _: &Event) -> Result<Event, SinkError> {
        Err(SinkError::retry("create"))
    }

    fn patch(&self, _: &Event) -> Result<Event, SinkError> {
        Err(SinkError::retry("patch"))
    }

    fn update(&self, _: &Event) -> Result<Event, SinkError> {
        Err(SinkError::retry("update"))
    }

    fn write_order(&self) -> WriteOrder {
        WriteOrder::Bus
    }

    fn ttl(&self) -> Option<Duration> {
        Some(Duration::from_secs(7))
    }

    fn refresh_every(&self) -> Option<Duration> {
        None
    }

    fn mode(&self) -> SinkMode {
        SinkMode::InFlight(3)
    }

    fn group<'e>(&self, event: &'e Event) -> &'e str {
        &event.metadata.namespace
    }

    fn submit(&self, batch: SinkBatch) {
        self.0.lock().unwrap().push(batch.ops().len());
        let answers: Vec<_> = batch.ops().iter().map(stored).collect();
        batch.answer(answers);
    }
}

#[test]
fn pointers_to_a_sink_are_the_sink() {
    fn check<S: EventSink + ?Sized>(sink: &S) {
        let mut event = event("a");
        event.metadata.namespace = "shop".into();
        assert_eq!((sink.mode(), sink.group(&event)), (SinkMode::InFlight(3), "shop"));
        assert_eq!((sink.write_order(), sink.refresh_every()), (WriteOrder::Bus, None));
        assert_eq!(sink.ttl(), Some(Duration::from_secs(7)));
        let texts = [sink.create(&event), sink.patch(&event), sink.update(&event)]
            .map(|answer| answer.unwrap_err().to_string());
        assert_eq!(texts, ["create", "patch", "update"].map(|verb| format!("may be tried again: {verb}")));
        assert_eq!(shown(&SinkBatch::perform(creates(&["a", "b"]), sink)), ["a", "b"]);
    }
    let special = Arc::new(Special::default());
    check(&special);
    let shared: Arc<dyn EventSink> = special.clone();
    check(&shared);
    let boxed: Box<dyn EventSink> = Box::new(special.clone());
    check(&boxed);
    check(&*boxed);
    check(&Arc::new(boxed));
    // Each batch arrived in one piece.
    assert_eq!(*special.0.lock().unwrap(), [2; 5]);
}

#[test]
fn operations_and_answers_cross_threads() {
    fn assert<T: Send + Sync + Unpin + 'static>() {}
    assert::<eventcast::sink::rules::Rules>();
    assert::<SinkOp>();
    assert::<SinkMode>();
    assert::<SinkError>();
    assert::<SinkOpError>();
    assert::<SinkBatch>();
    assert::<SinkCall>();
    assert::<std::vec::IntoIter<SinkCall>>();
    assert::<eventcast::sink::AsyncSink<MemorySink, fn(())>>();
    let answers = perform(&["a"], |batch| {
        assert_eq!(format!("{batch:?}"), "SinkBatch { ops: 1, .. }");
        let call = batch.into_iter().next().unwrap();
        assert_eq!(format!("{call:?}"), "SinkCall { .. }");
        assert_eq!((call.event(), call.op()), (&event("a"), &SinkOp::Create(event("a"))));
    });
    assert_eq!(shown(&answers), [format!("{DROPPED} (a)")]);
}
