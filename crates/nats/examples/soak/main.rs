//! Runs both sides of a bridge for a while with a fault every five seconds, and then compares all
//! totals. To run the program, use `cargo run --release -p eventcast-nats --example soak -- 600`.
//! This program starts the server on a free port, and stops it at the end. With `-- 60 1`, the
//! program runs for 60 seconds with a fault every second.
//!
//! A fault is a crash of the server, a temporary suspension of the server, the removal of
//! consumers, or a reader that ends and resumes.

#[path = "../../tests/nats/admin.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod admin;
#[path = "../../tests/nats/server.rs"]
#[allow(dead_code, unused_macros, unused_imports, reason = "the tests use more of it")]
mod server;

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy};
use eventcast_nats::{MemoryPosition, NatsPublisher, NatsSubscriber, Start, StreamOptions};

use admin::Admin;
use server::Server;

const LONG: Duration = Duration::from_secs(120);
/// The number of events in a burst, and the pause after the burst.
const BURST: (u64, Duration) = (200, Duration::from_millis(10));

/// The totals of all readers.
#[derive(Debug, Default)]
struct Seen {
    events: u64,
    gaps: u64,
    /// The expected number of the next event.
    next: u64,
}

/// Prints a line. A failed write is ignored, because a reader that stops early, as in `| head -1`,
/// must not end the program while a server is running.
macro_rules! say {
    ($($text:tt)*) => { _ = writeln!(io::stdout(), $($text)*) };
}

fn main() -> ExitCode {
    let number = |at: usize, otherwise: u64| {
        std::env::args().nth(at).and_then(|n| n.parse().ok()).unwrap_or(otherwise)
    };
    let (seconds, pause) = (number(1, 600), Duration::from_secs(number(2, 5)));
    if let Some(missing) = server::missing() {
        say!("{missing}");
        return ExitCode::FAILURE;
    }
    let mut server = Server::start("");
    let url = server.url();
    let bus = Broadcaster::<u64>::new().unwrap();
    let out = publisher(&url, &bus);
    let store = MemoryPosition::default();
    let (is_over, mut seen, mut faults) = (AtomicBool::new(false), Seen::default(), [0_u32; 4]);
    let begin = Instant::now();
    let published = thread::scope(|scope| {
        let writer = scope.spawn(|| write(&bus, &is_over));
        let mut reader = Some(Reader::new(&url, &store));
        let mut kind = 0;
        while begin.elapsed() < Duration::from_secs(seconds) {
            thread::sleep(pause.saturating_sub(Duration::from_millis(100)));
            faults[kind] += 1;
            match kind {
                0 => {
                    server.kill();
                    thread::sleep(Duration::from_millis(500));
                    server.restart();
                }
                #[cfg(unix)]
                1 => {
                    server.stop();
                    thread::sleep(Duration::from_millis(1500));
                    server.go_on();
                }
                2 => Admin::new(&url).delete_consumers("EVENTS"),
                _ => {
                    reader.take().into_iter().for_each(|reader| reader.end(&mut seen));
                    reader = Some(Reader::new(&url, &store));
                }
            }
            kind = (kind + 1) % 4;
            say!("{:>4} s  {}", begin.elapsed().as_secs(), out.stats());
        }
        is_over.store(true, Ordering::Relaxed);
        let published = writer.join().unwrap();
        bus.flush(LONG).unwrap();
        assert!(out.flush(LONG), "{}", out.stats());
        reader.take().into_iter().for_each(|reader| reader.drain(&mut seen, published));
        published
    });
    say!("faults: {faults:?} crashes, standstills, removed consumers, ended readers");
    judge(published, &out, &seen)
}

/// Compares the totals of both sides.
fn judge(published: u64, out: &NatsPublisher, seen: &Seen) -> ExitCode {
    let stats = out.shutdown_timeout(LONG).stats;
    say!("{stats}\n{seen:?}, memory {} KiB", resident());
    let sums = [
        ("published = offered", published, stats.offered),
        ("offered = acknowledged + lost", stats.offered, stats.acknowledged + stats.lost()),
        ("acknowledged = events", stats.acknowledged, seen.events),
        ("lost = gaps", stats.lost(), seen.gaps),
    ];
    let mut is_well = true;
    for (name, left, right) in sums {
        say!("{name}: {left} = {right}{}", if left == right { "" } else { "  WRONG" });
        is_well &= left == right;
    }
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn publisher(url: &str, bus: &Broadcaster<u64>) -> NatsPublisher {
    let builder = NatsPublisher::builder(url).ensure_stream("EVENTS", StreamOptions::default());
    builder.configure(|options| options.ack_timeout = Duration::from_secs(1)).attach(bus).unwrap()
}

/// Publishes numbers until the end is signalled. Returns the number of published events.
fn write(bus: &Broadcaster<u64>, is_over: &AtomicBool) -> u64 {
    let publisher = bus.publisher();
    let mut next = 0;
    while !is_over.load(Ordering::Relaxed) {
        publisher.publish_batch(next..next + BURST.0).unwrap();
        next += BURST.0;
        thread::sleep(BURST.1);
    }
    next
}

/// A reader, and the thread that checks what the reader delivers.
struct Reader {
    bus: Broadcaster<u64>,
    subscriber: NatsSubscriber,
    checker: thread::JoinHandle<Vec<Delivery<u64>>>,
}

impl Reader {
    fn new(url: &str, store: &MemoryPosition) -> Self {
        let bus = Broadcaster::with_options(BusOptions::default().overflow(OverflowPolicy::Wait)).unwrap();
        let mut watcher = bus.watch().unwrap();
        let builder = NatsSubscriber::builder(url).start(Start::All).resume(store.clone());
        let builder = builder.configure(|options| options.heartbeat = Duration::from_millis(500));
        let subscriber = builder.attach(&bus.publisher()).unwrap();
        // Consecutive events become one item, to keep memory use low.
        let checker = thread::spawn(move || {
            let mut runs: Vec<Delivery<u64>> = Vec::new();
            let mut next = None;
            while let Ok(batch) = watcher.recv_batch() {
                if batch.lagged > 0 {
                    runs.push(Delivery::Lagged(batch.lagged));
                    next = next.map(|next| next + batch.lagged);
                }
                for event in batch {
                    match runs.last_mut() {
                        Some(Delivery::Event(run)) if next == Some(*event) => *run += 1,
                        _ => {
                            assert!(next.is_none_or(|next| next == *event), "{event} after {next:?}");
                            runs.extend([Delivery::Lagged(0), Delivery::Event(1)]);
                        }
                    }
                    next = Some(event + 1);
                }
            }
            runs
        });
        Self { bus, subscriber, checker }
    }

    /// Ends the reader, and adds the deliveries that it received to `seen`.
    fn end(self, seen: &mut Seen) {
        assert!(self.subscriber.shutdown_timeout(LONG));
        self.bus.close();
        for run in self.checker.join().unwrap() {
            match run {
                Delivery::Event(events) => {
                    seen.events += events;
                    seen.next += events;
                }
                Delivery::Lagged(missing) => {
                    seen.gaps += missing;
                    seen.next += missing;
                }
            }
        }
    }

    /// Reads to the end, and adds the received deliveries to `seen`.
    fn drain(self, seen: &mut Seen, published: u64) {
        let begin = Instant::now();
        loop {
            let stats = self.subscriber.stats();
            // Earlier readers have received the other events.
            if seen.events + seen.gaps + stats.events + stats.gaps >= published || begin.elapsed() > LONG {
                say!("{stats}");
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        self.end(seen);
    }
}

/// Returns the memory of this process in KiB if the system provides it.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Option<u64> = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * 4
}
