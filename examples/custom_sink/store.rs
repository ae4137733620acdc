//! A store for events at the other end of a connection, with the failures that stores have.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use eventcast::Event;
use tokio::io::BufStream;
use tokio::net::{TcpListener, TcpStream};

use super::http::{self, Message};

/// The longest message of an event that the store takes, in bytes.
const LONGEST: usize = 1024;

/// The failure of the store at one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mood {
    /// Answers that it is busy, and when to come back.
    Busy,
    /// Closes the connection without an answer.
    HangUp,
    /// Forgets the event that the request changes, as a store does whose events expire.
    Forget,
}

#[derive(Default)]
struct State {
    moods: BTreeMap<u64, Mood>,
    requests: u64,
    /// The events by namespace and name.
    events: BTreeMap<(String, String), Event>,
    created: u64,
    replaced: u64,
}

#[derive(Clone, Default)]
pub(crate) struct Store(Arc<Mutex<State>>);

impl Store {
    /// Creates a store that has these moods, each at the request of this number, counted from 1.
    pub(crate) fn new(moods: impl IntoIterator<Item = (u64, Mood)>) -> Self {
        let state = State { moods: moods.into_iter().collect(), ..State::default() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Serves on a port that the system chooses, as a task of this runtime.
    pub(crate) async fn serve(&self) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let store = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let store = store.clone();
                // A failure on a connection is for the client to notice.
                tokio::spawn(async move { store.talk(stream).await });
            }
        });
        Ok(address)
    }

    async fn talk(&self, stream: TcpStream) -> io::Result<()> {
        let mut stream = BufStream::new(stream);
        while let Some(request) = Message::read(&mut stream).await? {
            let Some((status, body)) = self.answer(&request) else { return Ok(()) };
            let headers = if status.starts_with("503") { "Retry-After-Ms: 20\r\n" } else { "" };
            http::write(&mut stream, &format!("HTTP/1.1 {status}"), headers, &body).await?;
        }
        Ok(())
    }

    /// Answers a request. Returns `None` if the store hangs up.
    fn answer(&self, request: &Message) -> Option<(&'static str, String)> {
        let mut state = self.lock();
        state.requests += 1;
        let number = state.requests;
        let mood = state.moods.remove(&number);
        match mood {
            Some(Mood::HangUp) => return None,
            Some(Mood::Busy) => return Some(("503 Service Unavailable", "busy".to_owned())),
            Some(Mood::Forget) | None => {}
        }
        let mut event = match Event::from_json(&request.body) {
            Ok(event) => event,
            Err(error) => return Some(("400 Bad Request", error.to_string())),
        };
        if event.message.len() > LONGEST {
            let why = format!("message must be at most {LONGEST} bytes, got {}", event.message.len());
            return Some(("413 Content Too Large", why));
        }
        if event.involved_object.kind == "Tape" {
            return Some(("500 Internal Server Error", "cannot store a tape".to_owned()));
        }
        let key = (event.metadata.namespace.to_string(), event.metadata.name.to_string());
        if mood == Some(Mood::Forget) {
            state.events.remove(&key);
        }
        let is_there = state.events.contains_key(&key);
        let status = match (request.start.split(' ').next(), is_there) {
            (Some("POST"), false) => "201 Created",
            (Some("POST"), true) => return Some(("409 Conflict", "the event exists".to_owned())),
            (Some("PUT"), true) => "200 OK",
            (Some("PUT"), false) => return Some(("404 Not Found", "there is no such event".to_owned())),
            _ => return Some(("405 Method Not Allowed", "POST or PUT".to_owned())),
        };
        *(if is_there { &mut state.replaced } else { &mut state.created }) += 1;
        event.metadata.set_resource_version(number.to_string());
        state.events.insert(key, event.clone());
        Some((status, event.to_json()))
    }

    /// Returns the stored events.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.lock().events.values().cloned().collect()
    }

    /// Returns the numbers of requests, of events created, and of events replaced.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let state = self.lock();
        (state.requests, state.created, state.replaced)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
