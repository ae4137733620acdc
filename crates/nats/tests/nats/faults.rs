//! Tests the bridge when servers crash while events are in flight.

use std::time::Duration;

use eventcast::stats::RemoteState;
use eventcast_nats::StreamOptions;

use crate::reading::{Remote, by_tens, eventually, lossless, out, reader, settle};
use crate::server::{Server, scale};

/// The server is killed while events are in flight, and no reader is restarted.
pub(crate) fn twenty_kills_in_a_stream_of_events_lose_and_repeat_nothing() {
    let mut server = Server::start("");
    let (kills, total) = (20, 200_000 * scale());
    let bus = lossless();
    let out = out(&server.url()).subject(by_tens).attach(&bus).unwrap();
    let mut remote = Remote::new(reader(&server.url()));
    let publisher = bus.publisher();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for event in 0..total {
                publisher.publish(event).unwrap();
            }
        });
        let reading = scope.spawn(|| remote.receive_exactly(0..total));
        for kill in 0..kills {
            eventually(|| out.stats().acknowledged >= total * kill / kills);
            server.kill();
            server.restart();
        }
        reading.join().unwrap();
    });
    let stats = settle(&bus, &out);
    assert_eq!(stats.acknowledged, total, "{stats}");
    let read = remote.ends_here();
    assert_eq!((read.events, read.gaps), (total, 0), "{read}");
    println!("{stats}\n{read}");
}

/// The server discards message identities immediately, so a message that is acknowledged too late
/// may be stored twice.
#[cfg(unix)]
pub(crate) fn an_outage_longer_than_the_window_repeats_nothing() {
    let server = Server::start("");
    let mut stream = StreamOptions::default();
    stream.duplicate_window = Duration::from_millis(100);
    let bus = lossless();
    let quick = out(&server.url()).ensure_stream("EVENTS", stream).configure(|options| {
        // The server stores the message, but its response arrives too late.
        options.ack_timeout = Duration::from_millis(300);
        options.retry.min = Duration::from_millis(200);
    });
    let out = quick.attach(&bus).unwrap();
    let mut remote = Remote::new(reader(&server.url()));
    bus.publisher().publish(0).unwrap();
    settle(&bus, &out);
    for round in 0..5 {
        let first = 1 + round * 200;
        // A suspended server reads the message from its socket when it resumes.
        server.stop();
        bus.publisher().publish_batch(first..first + 200).unwrap();
        let retries = out.stats().retries;
        // A busy server may also have closed the connection, and does not accept another connection
        // while it is suspended.
        eventually(|| out.stats().retries >= retries + 2 || out.status().state != RemoteState::Ready);
        server.go_on();
        settle(&bus, &out);
    }
    remote.receive_exactly(0..1001);
    let (stats, read) = (out.stats(), remote.ends_here());
    assert_eq!(stats.acknowledged, 1001);
    println!("{stats}\n{read}");
}
