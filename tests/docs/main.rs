//! The repository read as text: the layers of the modules, the memory orderings, the rules of the
//! comments, and everything that the documents name.
//!
//! Needs nothing except the standard library, so a compiler alone can build it:
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
