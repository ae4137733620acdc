//! eventcast
#![allow(missing_docs)]
