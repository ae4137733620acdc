//! The store's client. It is asynchronous, with one connection, which it makes again if the
//! connection is lost.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::BufStream;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::http::{self, Message};

/// The longest time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Client {
    address: SocketAddr,
    connection: Mutex<Option<BufStream<TcpStream>>>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, connection: Mutex::new(None) }
    }

    /// Sends one request and reads the answer.
    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> io::Result<Message> {
        timeout(PATIENCE, self.exchange(method, path, body)).await?
    }

    async fn exchange(&self, method: &str, path: &str, body: &str) -> io::Result<Message> {
        let mut kept = self.connection.lock().await;
        // Taken out, and put back only after a whole answer, so that a connection that failed in
        // the middle is not used again.
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => BufStream::new(TcpStream::connect(self.address).await?),
        };
        let host = format!("Host: {}\r\n", self.address);
        http::write(&mut connection, &format!("{method} {path} HTTP/1.1"), &host, body).await?;
        let answer = Message::read(&mut connection).await?;
        let answer = answer.ok_or_else(|| io::Error::other("the store closed the connection"))?;
        *kept = Some(connection);
        Ok(answer)
    }
}
