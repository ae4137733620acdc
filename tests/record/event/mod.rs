//! Events as plain data: their fields, strings and times, and their JSON.

mod events_v1;
mod fields;
mod json;
mod read;
mod text;
mod timestamp;
