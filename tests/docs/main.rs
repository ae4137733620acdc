//! Tests that read the repository as text: the layers of the modules, the memory orderings, the
//! rules for comments, and everything that the documents name.
//!
//! Needs only the standard library, so a compiler alone can build it:
//! `CARGO_MANIFEST_DIR=$PWD rustc --edition 2024 --test tests/docs/main.rs`.

mod documents;
mod examples;
mod imports;
mod layering;
mod locks;
mod orderings;
mod root;
mod sources;
mod style;
mod workflow;
