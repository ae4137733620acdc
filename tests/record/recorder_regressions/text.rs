//! Names and options that come as text.

use eventcast::correlator::{Aggregation, SpamFilter};
use eventcast::sink::{MemorySinkOptions, SinkErrorKind};
use eventcast::{CorrelatorOptions, Event, EventSink, MemorySink, RetryPolicy};

#[test]
fn a_name_that_the_store_completes_is_as_valid_as_any() {
    let store = MemorySink::new();
    let mut event = Event::default();
    event.metadata.set_generate_name("a/../b");
    assert_eq!(store.create(&event).unwrap_err().kind(), SinkErrorKind::Rejected);
    assert!(store.is_empty());
}

// ── configuration ──

#[test]
fn options_are_read_from_objects_only() {
    macro_rules! refuses {
        ($($type:ty),*) => {$(
            for text in ["[]", "[5]", "null", "5", r#""x""#] {
                let error = serde_json::from_str::<$type>(text).unwrap_err().to_string();
                assert!(error.contains("as an object"), "{text}: {error}");
            }
            assert!(serde_json::from_str::<$type>("{}").is_ok());
        )*};
    }
    refuses!(RetryPolicy, CorrelatorOptions, Aggregation, SpamFilter, MemorySinkOptions);
    let error = serde_json::from_str::<CorrelatorOptions>(r#"{"aggregation": []}"#).unwrap_err().to_string();
    assert!(error.contains("as an object"), "{error}");
}
