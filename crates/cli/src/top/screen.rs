//! Shows the state on the whole terminal, and handles the keys.

use std::error::Error;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use ratatui::{DefaultTerminal, Frame};

use super::feed::Feed;
use super::source::Source;
use super::state::State;
use super::table::{Look, Order, Table, heads, truncated};
use crate::support::color::is_allowed;
use crate::support::duration::rough;
use crate::support::number::grouped;
use crate::support::signals::flag_of_signals;

/// The time between two checks for new lines.
const PAUSE: Duration = Duration::from_millis(100);
/// The shortest time to wait for a key. With a time of zero, crossterm would not read the keys.
const GLANCE: Duration = Duration::from_millis(1);

const KEYS: &str = "q quit  p pause  arrows scroll  sort: s slow  n name  l lag  i in  o out  x lost";

/// Shows the state until the user quits or a signal stops the program.
pub(crate) fn show(source: Source, name: &str, state: State) -> Result<bool, Box<dyn Error>> {
    let is_over = flag_of_signals().map_err(|error| format!("cannot wait for signals: {error}"))?;
    let mut app = App::new(name, Feed::new(source, state));
    let mut screen = Screen::new()?;
    while !is_over.load(Ordering::Relaxed) {
        let turn = app.feed.read().map_err(|error| format!("cannot read {name}: {error}"))?;
        app.is_changed |= turn.has_read;
        if app.is_outdated() {
            screen.0.draw(|frame| app.draw(frame)).map_err(|error| format!("cannot draw: {error}"))?;
        }
        let pause = if turn.is_behind { GLANCE } else { PAUSE };
        if !app.handle_keys(pause).map_err(|error| format!("cannot read keys: {error}"))? {
            break;
        }
    }
    Ok(true)
}

/// The terminal, which is restored when the value is dropped.
struct Screen(DefaultTerminal);

impl Screen {
    fn new() -> Result<Self, Box<dyn Error>> {
        // The first poll installs the handler for changes of the size. It must be installed before
        // the first frame, because a change could be missed otherwise.
        match ratatui::try_init().and_then(|terminal| event::poll(Duration::ZERO).map(|_| terminal)) {
            Ok(terminal) => Ok(Self(terminal)),
            Err(error) => {
                let _ = ratatui::try_restore();
                Err(format!("cannot use the terminal: {error}; --once prints a table instead").into())
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.0.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// The state, and how it is shown.
struct App {
    name: String,
    feed: Feed,
    /// The state that is shown while the display is paused.
    frozen: Option<State>,
    order: Order,
    /// The number of watchers above the first one that is shown.
    above: usize,
    /// The number of watchers that fit on the screen.
    page: usize,
    is_colored: bool,
    /// Whether a line was read or a key was handled since the last frame.
    is_changed: bool,
    /// The title of the last frame.
    title: String,
}

impl App {
    fn new(name: &str, feed: Feed) -> Self {
        Self {
            name: name.to_owned(),
            feed,
            frozen: None,
            order: Order::default(),
            above: 0,
            page: 0,
            is_colored: is_allowed(),
            is_changed: true,
            title: String::new(),
        }
    }

    /// Waits for a key for the given time, and handles all keys. Returns `false` if the user quits.
    fn handle_keys(&mut self, pause: Duration) -> io::Result<bool> {
        let mut pause = pause;
        while event::poll(pause)? {
            (pause, self.is_changed) = (GLANCE, true);
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release && !self.handle_key(key) => {
                    return Ok(false);
                }
                _ => {}
            }
        }
        Ok(true)
    }

    fn handle_key(&mut self, key: KeyEvent) -> bool {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => return false,
            _ if is_control => {}
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('p' | ' ') => {
                self.frozen = if self.frozen.is_some() { None } else { Some(self.feed.state.clone()) };
            }
            KeyCode::Up | KeyCode::Char('k') => self.above = self.above.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.above += 1,
            KeyCode::PageUp => self.above = self.above.saturating_sub(self.page),
            KeyCode::PageDown => self.above += self.page,
            KeyCode::Home => self.above = 0,
            KeyCode::End => self.above = usize::MAX,
            KeyCode::Char(key) => {
                if let Some(order) = Order::of_key(key) {
                    (self.order, self.above) = (order, 0);
                }
            }
            _ => {}
        }
        // The next frame limits the value to the number of watchers.
        true
    }

    /// Returns whether the next frame would differ from the last one.
    fn is_outdated(&self) -> bool {
        self.is_changed || self.title() != self.title
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let width = usize::from(frame.area().width);
        let state = self.frozen.as_ref().unwrap_or(&self.feed.state);
        let mut heads = heads(state);
        let most = usize::from(frame.area().height / 4).max(1);
        if heads.len() > most {
            let hidden = heads.len() - (most - 1);
            heads.truncate(most - 1);
            heads.push(format!("{} more buses", grouped(hidden as u64)));
        }
        let table = Table::new(state, self.order, width);
        let areas: [_; 6] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(heads.len() as u16),
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        self.page = usize::from(areas[3].height);
        self.above = self.above.min(table.lines.len().saturating_sub(self.page));
        let shown = table.lines.iter().skip(self.above).take(self.page);
        let rows: Vec<_> = shown.map(|(look, line)| Line::styled(&**line, self.style(*look))).collect();
        let status = self.status(state, table.lines.len());
        (self.title, self.is_changed) = (self.title(), false);
        let line = |text: &str| Line::raw(truncated(text, width));
        let reversed = Style::new().add_modifier(Modifier::REVERSED);
        frame.render_widget(line(&self.title).style(Modifier::BOLD), areas[0]);
        frame
            .render_widget(Paragraph::new(heads.iter().map(|head| line(head)).collect::<Vec<_>>()), areas[1]);
        frame.render_widget(Line::raw(table.title).style(reversed), areas[2]);
        frame.render_widget(Paragraph::new(rows), areas[3]);
        frame.render_widget(line(&status), areas[4]);
        frame.render_widget(line(KEYS), areas[5]);
    }

    fn title(&self) -> String {
        let newest = self.feed.newest.map_or_else(
            || "no statistics yet".to_owned(),
            |newest| format!("newest line {} ago", rough(newest.elapsed().as_secs())),
        );
        let end = if self.feed.is_at_end { ", end of input" } else { "" };
        let paused = if self.frozen.is_some() { ", PAUSED" } else { "" };
        format!("eventcast top: sorted by {}, {newest}{end}{paused}, {}", self.order.name(), self.name)
    }

    fn status(&self, state: &State, rows: usize) -> String {
        let (first, last) = (self.above + 1, (self.above + self.page).min(rows));
        let place = match rows {
            0 => String::new(),
            _ => format!(", rows {first}-{last} of {}", grouped(rows as u64)),
        };
        format!("{}{place}", state.counts)
    }

    fn style(&self, look: Look) -> Style {
        let color = |color| if self.is_colored { Style::new().fg(color) } else { Style::new() };
        match look {
            Look::Plain => Style::new(),
            Look::Losing => color(Color::Yellow),
            Look::Slow => color(Color::Red).add_modifier(Modifier::BOLD),
        }
    }
}
