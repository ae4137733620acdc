//! Events as plain data: fields, strings, times and JSON.

mod events_v1;
mod fields;
mod json;
mod read;
mod text;
mod timestamp;
