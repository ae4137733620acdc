//! Options for series.

use std::time::Duration;

use eventcast::record::{SeriesOptions, SeriesUpdate};
use eventcast::{EventBroadcaster, MemorySink};

#[test]
fn the_options_are_plain_data_and_checked() {
    let defaults = serde_json::json!({
        "finish_after": "6m", "refresh_every": "30m", "update": "as_client_go", "cache_size": 4096,
        "message_in_key": false,
    });
    assert_eq!(serde_json::to_value(SeriesOptions::default()).unwrap(), defaults);
    let options = SeriesOptions::default()
        .finish_after(Duration::from_secs(60))
        .refresh_every(Duration::from_secs(600))
        .update(SeriesUpdate::Every(Duration::from_secs(5)))
        .cache_size(7)
        .message_in_key(true);
    let json = serde_json::to_value(options).unwrap();
    let expected = serde_json::json!({
        "finish_after": "1m", "refresh_every": "10m", "update": {"every": "5s"}, "cache_size": 7,
        "message_in_key": true,
    });
    assert_eq!(json, expected);
    assert_eq!(serde_json::from_value::<SeriesOptions>(json).unwrap(), options);
    let error = serde_json::from_str::<SeriesOptions>(r#"{"finish": 3}"#).unwrap_err();
    assert!(error.to_string().contains("unknown field `finish`"), "{error}");
    let start = |options: SeriesOptions| {
        let events = EventBroadcaster::new().unwrap();
        events.recording().series(options).start(MemorySink::new()).unwrap_err().to_string()
    };
    let never = Duration::ZERO;
    for (options, expected) in [
        (SeriesOptions::default().finish_after(never), "finish_after must be 1ms or more, got 0ns"),
        (SeriesOptions::default().refresh_every(never), "refresh_every must be 1ms or more, got 0ns"),
        (SeriesOptions::default().update(SeriesUpdate::Every(never)), "update must be 1ms or more, got 0ns"),
        (SeriesOptions::default().cache_size(0), "cache_size must be 1 to 16777216 series, got 0"),
    ] {
        assert_eq!(start(options), expected);
    }
}
