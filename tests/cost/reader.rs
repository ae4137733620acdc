//! The memory that a reader of events needs: one document, regardless of the size of the input.

use std::io::{BufReader, Read};

use eventcast::event::{EventReadErrorKind, EventReader};
use test_support::in_own_process;

use crate::counting::live;

const EVENT: &str = r#"{"kind":"Event","apiVersion":"v1","metadata":{"name":"web-0.16a4b5571ec10e94","namespace":"default","uid":"a93e8ff4-70df-47f1-81fa-8a4f9193e5b7"},"involvedObject":{"kind":"Pod","name":"web-0"},"reason":"BackOff","message":"back-off restarting failed container","count":1}"#;

/// A reader that repeats a string, and records the peak of the allocated memory.
struct Repeated {
    head: &'static str,
    part: &'static str,
    times: usize,
    /// The number of bytes of the string already returned.
    done: usize,
    most: i64,
}

impl Repeated {
    fn new(head: &'static str, part: &'static str, times: usize) -> Self {
        Self { head, part, times, done: 0, most: 0 }
    }
}

impl Read for Repeated {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.most = self.most.max(live());
        if !self.head.is_empty() {
            let len = self.head.len();
            buffer[..len].copy_from_slice(self.head.as_bytes());
            self.head = "";
            return Ok(len);
        }
        if self.times == 0 {
            return Ok(0);
        }
        let rest = &self.part.as_bytes()[self.done..];
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        self.done += len;
        if self.done == self.part.len() {
            (self.done, self.times) = (0, self.times - 1);
        }
        Ok(len)
    }
}

/// Returns the peak memory, the number of events, and the kinds of errors.
fn cost(source: Repeated) -> (i64, usize, Vec<EventReadErrorKind>) {
    let before = live();
    let mut source = source;
    let (mut events, mut errors) = (0, Vec::new());
    for found in EventReader::new(BufReader::new(&mut source)) {
        match found {
            Ok(_) => events += 1,
            Err(error) => errors.push(error.kind()),
        }
    }
    (source.most - before, events, errors)
}

#[test]
fn a_list_in_one_line_is_read_with_the_memory_of_one_event() {
    in_own_process!();
    let element: &'static str = Box::leak(format!("{EVENT},").into_boxed_str());
    let list = |times| cost(Repeated::new(r#"{"kind":"List","items":["#, element, times));
    let (few, many) = (list(100), list(20_000));
    assert_eq!((few.1, many.1), (100, 20_000));
    assert_eq!(many.2, [EventReadErrorKind::CutOff], "the list has no end");
    // The test runner may allocate a little as well, and an event has 300 bytes.
    let more = many.0 - few.0;
    assert!(more < 1024, "{more} bytes more for 20,000 events than for 100");
    assert!(many.0 < 32 << 10, "{} bytes", many.0);
}

#[test]
fn oversized_input_is_not_kept_in_memory() {
    in_own_process!();
    let kibibyte: &'static str = Box::leak("x".repeat(1024).into_boxed_str());
    // A string of 64 MiB, a document of 64 MiB, and 64 MiB of brackets.
    for (head, part, times, most) in [
        (r#"{"reason":""#, kibibyte, 64 << 10, 9 << 20),
        (r#"{"reason":["#, r#""0123456789abcd","#, 4 << 20, 33 << 20),
        ("", "[[[[[[[[[[[[[[[[", 4 << 20, 64 << 10),
        // A million values take more memory than their JSON.
        (r#"{"object":{"items":["#, "{},{},{},{},", 4 << 20, 5 << 20),
        ("", kibibyte, 64 << 10, 64 << 10),
    ] {
        let (memory, events, errors) = cost(Repeated::new(head, part, times));
        assert_eq!((events, errors.len()), (0, 1), "{head}{part}");
        assert!(memory < most, "{memory} bytes for {head}{part}");
    }
}
