//! As much of HTTP/1.1 as a client and a store need that know each other: one message after the
//! other on a connection, each with its length. Your own program would use a crate for this.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The longest head of a message, and the longest body, in bytes.
const LIMIT: u64 = 64 * 1024;

/// A request or an answer.
#[derive(Debug)]
pub(crate) struct Message {
    /// The first line: `POST /events HTTP/1.1`, or `HTTP/1.1 201 Created`.
    pub(crate) start: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Message {
    /// Returns the second word of the first line: the path of a request, or the status of an
    /// answer.
    pub(crate) fn second_word(&self) -> &str {
        self.start.split(' ').nth(1).unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Reads the next message. Returns `None` if the other side has closed the connection between
    /// two messages.
    pub(crate) async fn read(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Self>> {
        let mut head = stream.take(LIMIT);
        let Some(start) = line(&mut head).await? else { return Ok(None) };
        let mut message = Self { start, headers: Vec::new(), body: String::new() };
        loop {
            let line = line(&mut head).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| invalid("a header has no colon"))?;
            message.headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let length = message.header("content-length").unwrap_or("0").parse::<u64>();
        let length = length.ok().filter(|length| *length <= LIMIT);
        let mut body = vec![
            0;
            length.ok_or_else(|| invalid("the length of the body must be a number up to 65536"))?
                as usize
        ];
        stream.read_exact(&mut body).await?;
        message.body = String::from_utf8(body).map_err(|_| invalid("the body is not UTF-8"))?;
        Ok(Some(message))
    }
}

/// Reads the next line, without its end. Returns `None` at the end of the stream.
async fn line(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<String>> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    if line.is_empty() {
        return Ok(None);
    }
    let text = line.strip_suffix('\n').ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(Some(text.trim_end_matches('\r').to_owned()))
}

/// Writes a request or an answer. `headers` are whole lines.
pub(crate) async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    start: &str,
    headers: &str,
    body: &str,
) -> io::Result<()> {
    let length = body.len();
    let text = format!("{start}\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).await?;
    stream.flush().await
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}
