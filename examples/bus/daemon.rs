//! A synchronous daemon. One thread reads from a socket and publishes without ever waiting. Two
//! watchers with different policies read the events.
//!
//! ```sh
//! cargo run --release -p bus-examples --bin daemon
//! ```
//!
//! The journal must not miss a tick that the bus accepted, so the bus waits for the journal
//! (`Wait`). The view shows only the newest tick. The view's queue holds one tick, the bus drops
//! older ticks (`DropOldest`), and the view receives the number of ticks that it missed. The bus
//! has a dispatcher, because publishing on an inline bus may wait for a lock, and the thread that
//! reads from the socket must not wait. In this example, a thread of the same program sends the
//! datagrams for half a second.

use std::error::Error;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy};

/// How long the meter sends datagrams.
const RUN: Duration = Duration::from_millis(500);
/// How long the socket must be silent before the daemon stops reading.
const SILENCE: Duration = Duration::from_millis(200);

/// One meter reading, as received from the network.
#[derive(Clone, Copy)]
struct Tick([u8; 8]);

impl Tick {
    fn number(self) -> u64 {
        u64::from_be_bytes(self.0)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(SILENCE))?;
    let to = socket.local_addr()?;
    let meter = thread::spawn(move || send_ticks(to));

    let bus = Broadcaster::<Tick>::with_options(
        BusOptions::default().incoming_capacity(4096).queue_capacity(1024),
    )?;
    let mut journal = bus.watch_builder().name("journal").overflow(OverflowPolicy::Wait).watch()?;
    let mut view =
        bus.watch_builder().name("view").queue_capacity(1).overflow(OverflowPolicy::DropOldest).watch()?;
    let journal = thread::spawn(move || {
        let mut written = 0;
        // On each wake-up, the journal takes all ticks in the queue, as if to write the ticks to
        // disk in one operation.
        while let Ok(batch) = journal.recv_batch() {
            assert_eq!(batch.lagged, 0, "the bus waits for the journal");
            written += batch.len() as u64;
        }
        written
    });
    let view = thread::spawn(move || {
        let (mut shown, mut newest, mut missed) = (0, 0, 0);
        for delivery in &mut view {
            match delivery {
                Delivery::Event(tick) => (shown, newest) = (shown + 1, tick.number()),
                Delivery::Lagged(ticks) => missed += ticks,
            }
        }
        (shown, newest, missed)
    });

    let publisher = bus.publisher();
    let (mut received, mut refused, mut buffer) = (0, 0, [0; 8]);
    while socket.recv(&mut buffer).is_ok() {
        received += 1;
        // If the incoming queue is full, the bus returns the tick. This thread must never wait,
        // because the socket would then drop datagrams without counting them.
        refused += u64::from(publisher.try_publish(Tick(buffer)).is_err());
    }
    let report = bus.shutdown_timeout(Duration::from_secs(30));

    let sent = meter.join().map_err(|_| "the meter panicked")??;
    let written = journal.join().map_err(|_| "the journal panicked")?;
    let (shown, newest, missed) = view.join().map_err(|_| "the view panicked")?;
    assert!(report.complete);
    assert_eq!((written, shown + missed), (received - refused, received - refused));
    let text = format!(
        "meter: {sent} sent; socket: {received} received, {refused} of them refused by the bus\n\
         journal: {written} written; view: {shown} shown, {missed} missed, the newest is {newest}\n\
         {report:#}\n"
    );
    // It is not an error if the program that reads the output stops early, as in `| head -1`.
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Sends numbered ticks in bursts for the duration of `RUN`, and returns the number of ticks sent.
fn send_ticks(to: SocketAddr) -> io::Result<u64> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let end = Instant::now() + RUN;
    let mut number = 0_u64;
    while Instant::now() < end {
        for _ in 0..100 {
            socket.send_to(&number.to_be_bytes(), to)?;
            number += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(number)
}
