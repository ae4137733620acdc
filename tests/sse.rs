//! The example `sse` as its clients meet it: the service runs as a process, and real clients
//! connect to it over TCP, read, lag and vanish. The service's last lines must account for every
//! event.
#![cfg(unix)]

#[path = "support/running.rs"]
mod running;

#[path = "support/sse_client.rs"]
mod sse_client;

use std::net::SocketAddr;

use futures::future::join_all;
use rustix::process::Signal;
use serde_json::Value;
use tokio::time::timeout;

use running::{Running, figure as figure_of, lines};
use sse_client::{Client, PATIENCE, Said, request};

struct Service {
    program: Running,
    address: SocketAddr,
}

impl Service {
    fn start(args: &[&str]) -> Self {
        // No client is cut off for being slow, unless a test says so.
        let mut program = Running::start("sse", &[&["--port", "0", "--grace", "1h"], args].concat());
        let line = program.wait_for(|line| line.starts_with("listening on "));
        let address = line.strip_prefix("listening on http://").expect("an address").parse();
        Self { program, address: address.expect("an address") }
    }

    async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Publishes a text, and returns its id.
    async fn publish(&self, topic: &str, text: &str) -> u64 {
        let path = format!("/publish?topic={topic}");
        let (status, body) = request(self.address, "POST", &path, text.as_bytes()).await;
        assert_eq!(status, 202, "{body}");
        body.trim().parse().expect("an id")
    }

    async fn stats(&self) -> Value {
        let (status, body) = request(self.address, "GET", "/stats", b"").await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// Asks for the statistics until they are as wanted, and returns them.
    async fn stats_when(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let asking = async {
            loop {
                let stats = self.stats().await;
                if wanted(&stats) {
                    return stats;
                }
            }
        };
        timeout(PATIENCE, asking).await.expect("these statistics come")
    }

    /// Interrupts the service, which must end well, and returns the lines of its stdout.
    fn interrupt(mut self) -> Vec<String> {
        self.program.signal(Signal::INT);
        self.program.wait_for(|line| line == "stopping");
        let lines = lines(&self.program.end());
        assert_eq!(lines.last().expect("a last line"), "everything adds up", "{lines:#?}");
        lines
    }
}

/// A client's account of its answer: the ids that came, and the number of ids reported as missing.
/// Every id must come in its turn, or be in a gap at its very place.
#[derive(Debug, Default)]
struct Told {
    next: u64,
    came: u64,
    missing: u64,
}

impl Told {
    /// Creates the account of a client that must receive everything from this id on.
    fn from(id: u64) -> Self {
        Self { next: id, ..Self::default() }
    }

    fn take(&mut self, said: &Said) {
        match said {
            Said::Post(id, ..) => {
                assert_eq!(*id, self.next, "{self:?}");
                self.next += 1;
                self.came += 1;
            }
            Said::Gap(missing) => {
                assert!(*missing > 0, "{self:?}");
                self.next += missing;
                self.missing += missing;
            }
        }
    }

    /// Listens until this id has come or is reported as missing.
    async fn until(mut self, client: &mut Client, id: u64) -> Self {
        while self.next <= id {
            let said = client.next().await;
            self.take(&said.unwrap_or_else(|| panic!("the end came before {id}: {self:?}")));
        }
        self
    }

    /// Listens to the end.
    async fn up_to_the_end(mut self, client: &mut Client) -> Self {
        while let Some(said) = client.next().await {
            self.take(&said);
        }
        self
    }
}

fn watcher<'s>(stats: &'s Value, client: &Client) -> &'s Value {
    let watchers = stats["bus"]["watchers"].as_array().expect("a list");
    let of_client = watchers.iter().find(|watcher| watcher["name"] == client.name.as_str());
    of_client.unwrap_or_else(|| panic!("no {} in {stats}", client.name))
}

/// Returns the sum of a figure over all clients that are connected.
fn total(stats: &Value, what: &str) -> u64 {
    let watchers = stats["bus"]["watchers"].as_array().expect("a list");
    watchers.iter().map(|watcher| figure(&watcher[what])).sum()
}

fn figure(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no figure"))
}

#[test]
fn a_port_that_is_taken_is_named() {
    let service = Service::start(&[]);
    let ended = Running::start("sse", &["--port", &service.address.port().to_string()]).end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    let expected = format!("sse: cannot listen on {}: ", service.address);
    assert!(ended.stderr[0].starts_with(&expected), "{:?}", ended.stderr);
    let lines = service.interrupt();
    assert_eq!(lines[0], "published 0; offered to clients 0 = sent 0 + lost in gaps 0 + not read 0");
}

#[tokio::test]
async fn hundreds_of_clients_get_every_event_in_order_to_the_end() {
    const CLIENTS: usize = 300;
    const EVENTS: u64 = 100;
    let service = Service::start(&["--queue", "1000"]);
    let mut clients = join_all((0..CLIENTS).map(|_| service.client())).await;
    let publish = |publisher: u64| {
        let service = &service;
        async move {
            for number in 0..EVENTS / 4 {
                service.publish(&format!("topic-{publisher}"), &number.to_string()).await;
            }
        }
    };
    let first = clients.pop().expect("there are many");
    let readers = clients.into_iter().map(|mut client| async move {
        let told = Told::from(1).until(&mut client, EVENTS).await;
        assert_eq!((told.came, told.missing), (EVENTS, 0));
        client
    });
    let (clients, ()) = tokio::join!(join_all(readers), async {
        join_all((0..4).map(publish)).await;
    });
    let stats = service.stats().await;
    assert_eq!(figure(&stats["clients"]), CLIENTS as u64);
    for client in &clients {
        let watcher = watcher(&stats, client);
        assert_eq!([&watcher["offered"], &watcher["delivered"]].map(figure), [EVENTS, EVENTS], "{watcher}");
    }

    // The last event is accepted just before the end. It is read after the end, by clients that had
    // read everything and by one that had read nothing.
    let last = service.publish("end", "the last one").await;
    assert_eq!(last, EVENTS + 1);
    let ended = tokio::task::spawn_blocking(move || service.interrupt());
    join_all(clients.into_iter().map(|mut client| async move {
        assert_eq!(Told::from(last).up_to_the_end(&mut client).await.came, 1);
    }))
    .await;
    let mut first = first;
    assert_eq!(Told::from(1).up_to_the_end(&mut first).await.came, last);
    let lines = ended.await.expect("it does not panic");
    let offered = CLIENTS as u64 * last;
    assert_eq!(
        lines[..2],
        [
            format!(
                "published {last}; offered to clients {offered} = sent {offered} + lost in gaps 0 + not read 0"
            ),
            "0 clients were cut off".to_owned(),
        ]
    );
}

#[tokio::test]
async fn a_client_that_lags_is_told_what_it_missed_and_delays_nobody() {
    let service = Service::start(&["--queue", "8"]);
    let mut slow = service.client().await;
    let mut reader = service.client().await;
    let text = "x".repeat(60_000);
    // Publishes until the connection's buffers and the queue are full. They do not hold more than
    // 64 MiB.
    let mut told = Told::from(1);
    let (published, lost_so_far) = loop {
        let published = service.publish("large", &text).await;
        told = told.until(&mut reader, published).await;
        let lost = figure(&watcher(&service.stats().await, &slow)["dropped"]["incoming"]);
        if lost >= 3 {
            break (published, lost);
        }
        assert!(published < 1000, "nothing is lost after {published} events");
    };
    assert_eq!((told.came, told.missing), (published, 0), "who reads is not held up by who does not");

    let told = Told::from(1).until(&mut slow, published).await;
    assert_eq!((told.came, told.missing), (published - lost_so_far, lost_so_far));
    // From here on the slow client keeps up.
    let last = service.publish("small", "and on").await;
    assert_eq!(slow.next().await, Some(Said::Post(last, "small".to_owned(), "and on".to_owned())));
    let stats = service.stats().await;
    let of_slow = watcher(&stats, &slow);
    assert_eq!(figure(&of_slow["offered"]), last, "{of_slow}");
    assert_eq!(figure(&of_slow["delivered"]), last - lost_so_far, "{of_slow}");

    reader.next().await.expect("the last one came here too");
    let ended = tokio::task::spawn_blocking(move || service.interrupt());
    assert_eq!((slow.next().await, reader.next().await), (None, None));
    let (lines, offered) = (ended.await.expect("it does not panic"), 2 * last);
    let sent = offered - lost_so_far;
    assert_eq!(
        lines[0],
        format!(
            "published {last}; offered to clients {offered} = sent {sent} + lost in gaps {lost_so_far} + not read 0"
        )
    );
}

#[tokio::test]
async fn who_vanishes_is_forgotten_and_who_never_reads_is_cut_off() {
    let service = Service::start(&["--queue", "4", "--grace", "100ms"]);
    let mut stays = service.client().await;
    let vanishing = join_all((0..50).map(|_| service.client())).await;
    let never_reads = service.client().await;
    let first = service.publish("a", "seen by all").await;
    let stats = service.stats_when(|stats| total(stats, "delivered") == 52).await;
    assert_eq!(figure(&stats["clients"]), 52);
    drop(vanishing);
    let stats = service.stats_when(|stats| figure(&stats["clients"]) == 2).await;
    let departed = &stats["bus"]["departed"];
    assert_eq!(figure(&departed["offered"]), 50, "{departed}");
    watcher(&stats, &stays);
    watcher(&stats, &never_reads);

    // Another client comes and goes meanwhile, and receives the event that was published before it
    // came.
    let mut late = service.client().await;
    assert_eq!(late.next().await, Some(Said::Post(first, "a".to_owned(), "seen by all".to_owned())));
    drop(late);
    assert_eq!(stays.next().await, Some(Said::Post(first, "a".to_owned(), "seen by all".to_owned())));
    service.stats_when(|stats| figure(&stats["clients"]) == 2).await;

    let last = fill(&service, &mut stays, &never_reads).await;
    let ended = tokio::task::spawn_blocking(move || service.interrupt());
    assert_eq!(stays.next().await, None);
    let lines = ended.await.expect("it does not panic");
    assert!(
        lines[0].starts_with(&format!("published {last}; offered to clients {} = ", 50 + 2 * last)),
        "{lines:#?}"
    );
    // The client's queue was not read, except for events that may have found a little room on the
    // way after all.
    let not_read = figure_of(lines[0].rsplit(' ').next().expect("a last word"));
    assert!((1..=4).contains(&not_read), "{lines:#?}");
    assert_eq!(lines[1], "1 clients were cut off");
    drop(never_reads);
}

#[tokio::test]
async fn a_second_signal_does_not_wait_for_who_never_reads() {
    let service = Service::start(&["--queue", "4"]);
    let mut reads = service.client().await;
    let never_reads = service.client().await;
    fill(&service, &mut reads, &never_reads).await;
    service.program.signal(Signal::INT);
    assert_eq!(reads.next().await, None);
    let lines = tokio::task::spawn_blocking(move || service.interrupt()).await.expect("it does not panic");
    assert_eq!(lines[1], "1 clients were cut off");
    drop(never_reads);
}

/// Publishes until the connection of one client, which does not read, takes no more, while another
/// client has read everything. Returns the id of the last event.
async fn fill(service: &Service, reads: &mut Client, never_reads: &Client) -> u64 {
    let text = "x".repeat(60_000);
    let mut told: Option<Told> = None;
    // The connection counts as full after a while without a delivery, because the first standstill
    // may last only a moment.
    let (mut delivered, mut stuck) = (0, 0);
    loop {
        let last = service.publish("large", &text).await;
        let before = told.unwrap_or_else(|| Told::from(last));
        told = Some(before.until(reads, last).await);
        let now = figure(&watcher(&service.stats().await, never_reads)["delivered"]);
        stuck = if now == delivered { stuck + 1 } else { 0 };
        delivered = now;
        if stuck == 30 {
            return last;
        }
        assert!(last < 1000, "all of {last} events found room");
    }
}

#[tokio::test]
async fn a_new_client_begins_with_the_newest_of_each_topic() {
    let service = Service::start(&[]);
    for (topic, text) in
        [("a", "old"), ("b", "only"), ("a", "new"), ("c", "line\r\n\r\ndata: x \u{1b}[2J"), ("b", "")]
    {
        service.publish(topic, text).await;
    }
    let mut client = service.client().await;
    let live = service.publish("a", "newest").await;
    for (id, topic, text) in
        [(3, "a", "new"), (4, "c", "line\r\n\r\ndata: x \u{1b}[2J"), (5, "b", ""), (live, "a", "newest")]
    {
        assert_eq!(client.next().await, Some(Said::Post(id, topic.to_owned(), text.to_owned())));
    }
    drop(client);
    service.stats_when(|stats| figure(&stats["clients"]) == 0).await;
    let lines = tokio::task::spawn_blocking(move || service.interrupt()).await.expect("it does not panic");
    assert_eq!(lines[0], "published 6; offered to clients 1 = sent 1 + lost in gaps 0 + not read 0");
}

#[tokio::test]
async fn what_cannot_be_published_is_refused() {
    let service = Service::start(&[]);
    let (largest, too_large) = (vec![b'x'; 64 * 1024], vec![b'x'; 64 * 1024 + 1]);
    let long = format!("/publish?topic={}", "t".repeat(101));
    for (method, path, body, status) in [
        ("POST", "/publish", &largest[..], 202),
        ("POST", "/publish", &too_large, 413),
        ("POST", "/publish", b"\xff", 400),
        ("POST", "/publish?topic=", b"x", 400),
        ("POST", &long, b"x", 400),
        ("GET", "/publish", b"", 405),
        ("POST", "/events", b"", 405),
        ("GET", "/", b"", 404),
    ] {
        assert_eq!(request(service.address, method, path, body).await.0, status, "{method} {path}");
    }
    for topic in 1..1000 {
        service.publish(&topic.to_string(), "x").await;
    }
    assert_eq!(request(service.address, "POST", "/publish?topic=more", b"x").await.0, 507);
    service.publish("999", "y").await;
    let lines = tokio::task::spawn_blocking(move || service.interrupt()).await.expect("it does not panic");
    assert!(lines[0].starts_with("published 1001; "), "{lines:#?}");
}
