//! Faults around a bus: user code that is heavy, panics or calls back, and watchers that are many,
//! missing, or dropped at the wrong moment. `docs/verification.md` lists all faults, with the tests
//! of other files.

mod events;
mod nested;
mod watchers;
