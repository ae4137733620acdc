//! Clients are disconnected at random, even in the middle of a line, and reconnect with the id of
//! the last event that they have seen. The clients receive no event twice, and miss only events
//! that are no longer in the history. A gap of exactly that size reports the missed events.

use std::net::SocketAddr;
use std::sync::Arc;

use eventcast::bus::Start;
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy};
use test_support::{LONG, Rng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// The number of events that the bus keeps.
const HISTORY: u64 = 64;
const EVENTS: u64 = 30_000;

/// Serves clients. Each client first sends the position that it has seen. The text of an event is
/// its position.
async fn serve(bus: Broadcaster<Arc<str>>, listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let bus = bus.clone();
        tokio::spawn(async move {
            let seen = stream.read_u64().await.ok()?;
            let mut watcher = bus.watch_builder().start(Start::After(seen)).watch().ok()?;
            while let Ok(delivery) = watcher.recv_async().await {
                let position = watcher.position()?;
                let line = match delivery {
                    Delivery::Event(text) => format!("{position} event {text}\n"),
                    Delivery::Lagged(missing) => format!("{position} gap {missing}\n"),
                };
                stream.write_all(line.as_bytes()).await.ok()?;
            }
            Some(())
        });
    }
}

/// The events that a client has received and missed.
#[derive(Default)]
struct Account {
    seen: u64,
    came: u64,
    missing: u64,
}

impl Account {
    fn note(&mut self, line: &str, bus: &Broadcaster<Arc<str>>, is_first: bool) {
        let words: Vec<&str> = line.split(' ').collect();
        let [position, kind, value] = words[..] else { panic!("{line:?}") };
        let value: u64 = value.parse().expect("a number");
        if kind == "gap" {
            assert!(is_first, "an evicted client has gaps only where it reconnects: {line:?}");
            (self.missing, self.seen) = (self.missing + value, self.seen + value);
            let kept_from = bus.stats().accepted.saturating_sub(HISTORY);
            assert!(self.seen <= kept_from, "the history still had {} of {kept_from}", self.seen);
        } else {
            (self.came, self.seen) = (self.came + 1, self.seen + 1);
            assert_eq!(value, self.seen, "each event must arrive once, and in order");
        }
        assert_eq!(position, self.seen.to_string());
    }

    /// Connects, reads up to `most` bytes, and disconnects. An incomplete line does not count as
    /// received.
    async fn visit(&mut self, address: SocketAddr, bus: &Broadcaster<Arc<str>>, most: usize) {
        let mut stream = TcpStream::connect(address).await.expect("the service is listening");
        stream.write_u64(self.seen).await.expect("connected");
        let (mut bytes, mut left) = (Vec::new(), most);
        let mut is_first = true;
        while left > 0 && self.seen < EVENTS {
            let mut buffer = [0; 97];
            let part = buffer.len().min(left);
            match timeout(LONG, stream.read(&mut buffer[..part]))
                .await
                .expect("a line or the end must arrive in time")
            {
                Ok(0) | Err(_) => return,
                Ok(read) => {
                    bytes.extend_from_slice(&buffer[..read]);
                    left -= read;
                }
            }
            while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = bytes.drain(..=end).collect();
                self.note(std::str::from_utf8(&line[..end]).expect("UTF-8"), bus, is_first);
                is_first = false;
            }
        }
    }
}

#[tokio::test]
async fn a_client_disconnected_at_random_resumes_exactly() {
    let options =
        BusOptions::default().history(HISTORY as usize).queue_capacity(8).overflow(OverflowPolicy::Evict);
    let bus = Broadcaster::with_options(options).expect("in range");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let serving = tokio::spawn(serve(bus.clone(), listener));
    let publisher = bus.publisher();
    let publishing = tokio::spawn(async move {
        for number in 1..=EVENTS {
            publisher.publish_async(number.to_string().into()).await.expect("the bus is open");
            // Yields at varying intervals, so that sometimes more and sometimes fewer events are
            // published than the history holds.
            if number % 200 > 100 || number % 7 == 0 {
                tokio::task::yield_now().await;
            }
        }
    });
    let client = async |seed: u64| {
        let (mut account, mut rng) = (Account::default(), Rng(seed));
        while account.seen < EVENTS {
            account.visit(address, &bus, rng.below(2_000) as usize).await;
        }
        (account.came + account.missing, account.came)
    };
    let (first, second, third) = tokio::join!(client(1), client(2), client(3));
    publishing.await.expect("it ends");
    for (accounted, came) in [first, second, third] {
        assert_eq!(accounted, EVENTS);
        assert!(came >= HISTORY, "{came} came");
    }
    serving.abort();
    assert!(bus.shutdown_async(LONG).await.complete);
}
