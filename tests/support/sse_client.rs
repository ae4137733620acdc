//! A client of HTTP/1.1 that reads server-sent events over plain TCP. One misread byte of the
//! answer is an error here.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A time longer than anything here takes. A test that waits this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// The content of a server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// The id, the topic and the text.
    Post(u64, String, String),
    /// The number of events that are missing here.
    Gap(u64),
}

/// A connection on which `GET /events` was answered.
pub struct Client {
    stream: BufReader<TcpStream>,
    /// The part that has come of an event that is not complete yet.
    pending: String,
    /// The name by which the service knows the client.
    pub name: String,
}

impl Client {
    /// Connects, and waits until the service has registered the client.
    pub async fn connect(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.expect("the service listens");
        let name = stream.local_addr().expect("connected").to_string();
        let request = format!("GET /events HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("connected");
        let mut stream = BufReader::new(stream);
        let head = head(&mut stream).await;
        assert!(head[0].starts_with("HTTP/1.1 200 "), "{head:#?}");
        assert!(head.contains(&"content-type: text/event-stream".to_owned()), "{head:#?}");
        assert!(head.contains(&"transfer-encoding: chunked".to_owned()), "{head:#?}");
        Self { stream, pending: String::new(), name }
    }

    /// Waits for the next event. Returns `None` at the orderly end of the answer.
    pub async fn next(&mut self) -> Option<Said> {
        timeout(PATIENCE, self.read()).await.expect("an event or the end")
    }

    async fn read(&mut self) -> Option<Said> {
        loop {
            if let Some((event, _)) = self.pending.split_once("\n\n") {
                let said = understand(event);
                let length = event.len() + "\n\n".len();
                self.pending.drain(..length);
                if said.is_some() {
                    return said;
                }
                continue;
            }
            let Some(chunk) = chunk(&mut self.stream).await else {
                assert_eq!(self.pending, "", "the answer ends in the middle of an event");
                return None;
            };
            self.pending.push_str(&chunk);
        }
    }
}

/// Returns the content of an event, or `None` for a comment.
fn understand(event: &str) -> Option<Said> {
    let field = |name: &str| {
        event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_start)
    };
    let data = field("data")?;
    if field("event") == Some("gap") {
        return Some(Said::Gap(data.parse().expect("a number")));
    }
    let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
    let text = |name: &str| data[name].as_str().expect("a text").to_owned();
    Some(Said::Post(field("id").expect("an id").parse().expect("a number"), text("topic"), text("text")))
}

/// Reads the lines of an answer up to the empty one.
async fn head(stream: &mut BufReader<TcpStream>) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let line = line(stream).await;
        if line.is_empty() {
            return lines;
        }
        lines.push(line);
    }
}

async fn line(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).await.expect("UTF-8");
    line.strip_suffix("\r\n").unwrap_or_else(|| panic!("{line:?} is no line")).to_owned()
}

/// Reads the next chunk of a body. Returns `None` for the last one, which is empty.
async fn chunk(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let length = line(stream).await;
    let length = usize::from_str_radix(&length, 16).unwrap_or_else(|_| panic!("{length:?} is no length"));
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await.expect("a whole chunk");
    assert_eq!(line(stream).await, "");
    (length > 0).then(|| String::from_utf8(bytes).expect("UTF-8"))
}

/// Sends one request on its own connection, and returns the answer's status and body.
pub async fn request(address: SocketAddr, method: &str, path: &str, body: &[u8]) -> (u16, String) {
    let asked = async {
        let mut stream = TcpStream::connect(address).await.expect("the service listens");
        let length = body.len();
        let asking = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(asking.as_bytes()).await.expect("connected");
        // A server that refuses a body may close the connection before it has read the body.
        let _ = stream.write_all(body).await;
        let mut stream = BufReader::new(stream);
        let head = head(&mut stream).await;
        let mut body = String::new();
        stream.read_to_string(&mut body).await.expect("UTF-8");
        (head[0].split(' ').nth(1).expect("a status").parse().expect("a number"), body)
    };
    timeout(PATIENCE, asked).await.expect("an answer")
}
