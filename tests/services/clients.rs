//! A service whose clients are watchers at the other end of a TCP connection. The clients read,
//! lag, disappear and reconnect, and every event is accounted for.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use eventcast::stats::WatcherStats;
use eventcast::{Broadcaster, BusOptions, Delivery};
use futures::StreamExt;
use futures::future::join_all;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Longer than any operation here takes. A test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(180);

/// A string with its number. The numbers start at 1 and have no gaps.
type Post = Arc<(u64, String)>;

/// The service. `posts` is locked while a post is published. It is also locked while the posts are
/// read and a client is registered.
struct Service {
    bus: Broadcaster<Post>,
    posts: Mutex<Vec<Post>>,
    clients: Mutex<JoinSet<()>>,
    /// The number of posts that the bus delivered and the service sent.
    sent: AtomicU64,
    address: SocketAddr,
}

impl Service {
    async fn start(queue_capacity: usize) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let service = Arc::new(Self {
            bus: Broadcaster::with_options(BusOptions::default().queue_capacity(queue_capacity))
                .expect("in range"),
            posts: Mutex::default(),
            clients: Mutex::default(),
            sent: AtomicU64::new(0),
            address: listener.local_addr().expect("bound"),
        });
        let accepting = service.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = accepting.clone();
                accepting.clients.lock().await.spawn(async move { serving.serve(stream).await });
            }
        });
        service
    }

    /// Serves one client. Sends the posts that the client has not seen, and then sends each new
    /// post when it is published. Returns when the bus ends, or when the client disconnects.
    async fn serve(&self, stream: TcpStream) {
        let name = stream.peer_addr().expect("connected").to_string();
        let (mut input, mut output) = stream.into_split();
        let seen = input.read_u64().await.expect("the client sends the number of the last post it has seen");
        let (mut watcher, known) = {
            let posts = self.posts.lock().await;
            let rest: Vec<Post> = posts.iter().filter(|post| post.0 > seen).cloned().collect();
            let builder = self.bus.watch_builder().name(&name).prefix(rest);
            (builder.watch().expect("the bus is open"), posts.len() as u64)
        };
        if output.write_all(b"ready\n").await.is_err() {
            return;
        }
        loop {
            let line = tokio::select! {
                delivery = watcher.next() => match delivery {
                    None => return,
                    Some(Delivery::Lagged(missing)) => format!("gap {missing}\n"),
                    Some(Delivery::Event(post)) => {
                        // Relaxed: a counter that is read after all tasks have ended.
                        self.sent.fetch_add(u64::from(post.0 > known), Ordering::Relaxed);
                        format!("{} {}\n", post.0, post.1)
                    }
                },
                _ = input.read_u8() => return,
            };
            if output.write_all(line.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    async fn publish(&self, text: &str) -> u64 {
        let mut posts = self.posts.lock().await;
        let post = Arc::new((posts.len() as u64 + 1, text.to_owned()));
        self.bus.publisher().publish_async(post.clone()).await.expect("the bus is open");
        posts.push(post.clone());
        post.0
    }

    async fn client(&self, seen: u64) -> Client {
        let mut stream = TcpStream::connect(self.address).await.expect("the service is listening");
        let name = stream.local_addr().expect("connected").to_string();
        stream.write_u64(seen).await.expect("connected");
        let mut lines = BufReader::new(stream).lines();
        assert_eq!(lines.next_line().await.expect("connected").as_deref(), Some("ready"));
        Client { lines, name, next: seen + 1, came: 0, missing: 0 }
    }

    fn stats(&self, client: &Client) -> WatcherStats {
        let watchers = self.bus.stats().watchers;
        watchers.into_iter().find(|watcher| watcher.name == client.name).expect("the client is connected")
    }

    /// Waits until this number of clients is connected.
    async fn until_there_are(&self, clients: usize) {
        let waiting = async {
            while self.bus.watcher_count() != clients {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, waiting).await.expect("clients must connect and disconnect in time");
    }

    /// Ends the bus, gives clients the time `grace` to read their queued events, and then
    /// disconnects the remaining clients. Returns the number of clients that were disconnected, and
    /// the totals for all clients.
    async fn end(&self, grace: Duration) -> (usize, WatcherStats) {
        assert!(self.bus.shutdown_async(PATIENCE).await.complete);
        let mut clients = self.clients.lock().await;
        let reading = async { while clients.join_next().await.is_some() {} };
        let _ = timeout(grace, reading).await;
        let left = clients.len();
        clients.shutdown().await;
        let departed = self.bus.stats().departed;
        assert_eq!(departed.offered, departed.delivered + departed.dropped.total());
        assert_eq!(departed.delivered, self.sent.load(Ordering::Relaxed));
        (left, departed)
    }
}

/// A client that checks what it receives. Every post must arrive in order, or be part of a gap in
/// its place.
struct Client {
    lines: Lines<BufReader<TcpStream>>,
    name: String,
    next: u64,
    came: u64,
    missing: u64,
}

impl Client {
    /// Reads until this post has arrived or is reported as missing.
    async fn until(&mut self, last: u64) {
        while self.next <= last {
            assert!(self.read().await, "the end arrived before {last}");
        }
    }

    /// Reads a line. Returns `false` at the end.
    async fn read(&mut self) -> bool {
        let line =
            timeout(PATIENCE, self.lines.next_line()).await.expect("a line or the end must arrive in time");
        let Some(line) = line.expect("UTF-8") else { return false };
        let (number, rest) = line.split_once(' ').expect("two words");
        if number == "gap" {
            let missing: u64 = rest.parse().expect("a number");
            (self.next, self.missing) = (self.next + missing, self.missing + missing);
        } else {
            assert_eq!(number, self.next.to_string(), "after {} posts", self.came);
            (self.next, self.came) = (self.next + 1, self.came + 1);
        }
        true
    }

    async fn until_the_end(mut self) -> (u64, u64) {
        while self.read().await {}
        (self.came, self.missing)
    }
}

#[tokio::test]
async fn hundreds_of_clients_get_every_event_in_order_to_the_end() {
    const CLIENTS: usize = 300;
    const EVENTS: u64 = 100;
    let service = Service::start(1000).await;
    let mut clients = join_all((0..CLIENTS).map(|_| service.client(0))).await;
    let publish = async |_: u64| {
        for _ in 0..EVENTS / 4 {
            service.publish("text").await;
        }
    };
    // All clients except the first read while the events are published.
    let first = clients.remove(0);
    tokio::join!(join_all(clients.iter_mut().map(|client| client.until(EVENTS))), async {
        join_all((0..4).map(publish)).await;
    });
    // The last event is accepted just before the bus ends, and is read after the end of the bus.
    let last = service.publish("the last one").await;
    let ((cut_off, all), read, first) = tokio::join!(
        service.end(PATIENCE),
        join_all(clients.into_iter().map(Client::until_the_end)),
        first.until_the_end()
    );
    assert_eq!((cut_off, first), (0, (last, 0)));
    assert!(read.iter().all(|account| *account == (last, 0)), "{read:?}");
    assert_eq!((all.offered, all.delivered), (CLIENTS as u64 * last, CLIENTS as u64 * last));
}

/// Publishes long posts, which one client reads immediately, until another client's connection and
/// queue are full. Returns the number of the last post.
async fn fill(service: &Service, reads: &mut Client, never_reads: &Client) -> u64 {
    // The buffers of a connection hold at most 64 MiB.
    let text = "x".repeat(60_000);
    for _ in 0..1000 {
        let last = service.publish(&text).await;
        reads.until(last).await;
        if service.stats(never_reads).dropped.incoming >= 3 {
            return last;
        }
    }
    panic!("no event was lost although a client does not read");
}

#[tokio::test]
async fn a_lagging_client_learns_what_it_missed_and_delays_no_other_client() {
    let service = Service::start(8).await;
    let (mut slow, mut reader) = (service.client(0).await, service.client(0).await);
    let published = fill(&service, &mut reader, &slow).await;
    assert_eq!((reader.came, reader.missing), (published, 0));

    let lost = service.stats(&slow).dropped.incoming;
    slow.until(published).await;
    assert_eq!((slow.came, slow.missing), (published - lost, lost));
    // From now on, the slow client keeps up.
    let last = service.publish("and on").await;
    slow.until(last).await;
    let ((cut_off, all), slow, reader) =
        tokio::join!(service.end(PATIENCE), slow.until_the_end(), reader.until_the_end());
    assert_eq!((cut_off, slow, reader), (0, (last - lost, lost), (last, 0)));
    assert_eq!((all.offered, all.dropped.total()), (2 * last, lost));
}

#[tokio::test]
async fn clients_that_vanish_leave_nothing_and_one_that_never_reads_is_cut_off() {
    let service = Service::start(4).await;
    let (mut stays, never_reads) = (service.client(0).await, service.client(0).await);
    let vanishing = join_all((0..50).map(|_| service.client(0))).await;
    service.until_there_are(52).await;
    drop(vanishing);
    service.until_there_are(2).await;

    let last = fill(&service, &mut stays, &never_reads).await;
    service.bus.close();
    assert_eq!(stays.until_the_end().await, (last, 0));
    service.until_there_are(1).await;
    let (cut_off, all) = service.end(Duration::ZERO).await;
    assert_eq!(cut_off, 1);
    // At the end the client's queue was full, except for events that were being sent.
    assert!((1..=4).contains(&all.dropped.stopped), "{all}");
    drop(never_reads);
}

#[tokio::test]
async fn a_reconnecting_client_gets_exactly_the_rest() {
    let service = Service::start(1000).await;
    let publishing = async {
        for _ in 0..200 {
            service.publish("text").await;
            tokio::task::yield_now().await;
        }
    };
    // The client reads a few posts, disappears, and reconnects, while other posts are published.
    let returning = async {
        let (mut seen, mut came) = (0, BTreeMap::new());
        while seen < 200 {
            let mut client = service.client(seen).await;
            client.until((seen + 7).min(200)).await;
            assert_eq!(client.missing, 0);
            came.insert(seen, client.came);
            seen = client.next - 1;
        }
        came
    };
    let ((), came) = tokio::join!(publishing, returning);
    assert_eq!(came.values().sum::<u64>(), 200, "{came:?}");
    service.until_there_are(0).await;
    service.end(PATIENCE).await;
}
